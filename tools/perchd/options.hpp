// SPDX-License-Identifier: GPL-2.0-or-later
// perchd's command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "util/error.hpp"

namespace perch {

struct PerchdOptions {
    enum class Show { nothing, help, version };
    Show show = Show::nothing;
    bool simulate = false;
    std::string socket;
    std::string run_directory;
    std::string lock_prefix;     ///< of the locks' names there
    std::string event_database;  ///< ":memory:" keeps events as long as the process lives
    std::string sim_drives;
    std::string sim_script;
    std::string sim_directory;
};

extern const char* const perchd_usage;

/// `arguments` without the program's name; `environment` as getenv, empty where there is none.
/// Errc::syntax: what is wrong with them. Defaults are filled in.
Result<PerchdOptions> parse_perchd_options(
    const std::vector<std::string>& arguments,
    const std::function<std::string(const std::string&)>& environment);

}  // namespace perch
