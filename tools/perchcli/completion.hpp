// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "session.hpp"

namespace perch::cli {

/// What may stand in place of the last word (which may be empty), given the ones before it: verbs
/// and options from the command table, objects and drives from the model if perchd answers.
std::vector<std::string> complete(Connection& connection, const std::vector<std::string>& words);

}  // namespace perch::cli
