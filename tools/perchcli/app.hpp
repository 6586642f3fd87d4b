// SPDX-License-Identifier: GPL-2.0-or-later
// The program behind main(): a command line in, output and an exit status out.
#pragma once

#include <string>
#include <vector>

#include "session.hpp"

namespace perch::cli {

struct Environment {
    Connection& connection;
    Terminal& terminal;
    std::string operating_system;  ///< "Linux6.1.0-49-cloud-amd64"
};

/// Runs one command line (without the program's name). 0 exactly when the status is Success.
int run(const Environment& environment, const std::vector<std::string>& arguments);

}  // namespace perch::cli
