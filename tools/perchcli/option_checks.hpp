// SPDX-License-Identifier: GPL-2.0-or-later
// What the values of options must be: each answers why a value is wrong, or nothing (grammar.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace perch::cli {

std::optional<std::string> check_name(std::string_view value);
std::optional<std::string> check_names(std::string_view value);
std::optional<std::string> check_sizes(std::string_view value);
std::optional<std::string> check_strip(std::string_view value);
std::optional<std::string> check_engine(std::string_view value);
std::optional<std::string> check_drives(std::string_view value);
/// "0,2" or "0-2".
std::optional<std::string> check_groups(std::string_view value);
std::optional<std::string> check_coercion(std::string_view value);
std::optional<std::string> check_number(std::string_view value);
/// A number from 1 on.
std::optional<std::string> check_count(std::string_view value);
std::optional<std::string> check_event_type(std::string_view value);

}  // namespace perch::cli
