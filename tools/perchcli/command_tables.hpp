// SPDX-License-Identifier: GPL-2.0-or-later
// The command table in parts, one per kind of object; commands.cpp puts them together.
#pragma once

#include <vector>

#include "grammar.hpp"

namespace perch::cli {

/// No object, controllers and enclosures.
std::vector<Command> controller_commands();
std::vector<Command> drive_commands();
std::vector<Command> vd_commands();
/// Drive groups and foreign drive groups.
std::vector<Command> group_commands();

inline constexpr std::string_view watch_help =
    "Follow it with percent, speed and time left until it ends (Ctrl-C stops the watching only).";
inline constexpr std::string_view do_not_ask = "Do not ask.";

}  // namespace perch::cli
