// SPDX-License-Identifier: GPL-2.0-or-later
#include "option_checks.hpp"

#include "handlers.hpp"
#include "layout/engine_kind.hpp"
#include "layout/raid_layout.hpp"
#include "object_path.hpp"
#include "size_list.hpp"
#include "tokenizer.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// Nothing for a value, the message for an error.
template <typename T>
std::optional<std::string> complaint(const Result<T>& parsed) {
    return parsed ? std::nullopt : std::optional(parsed.error().message);
}

}  // namespace

std::optional<std::string> check_name(std::string_view value) {
    const auto names = parse_names(value);
    if (names && names->size() > 1) {
        return "expecting one name";
    }
    return complaint(names);
}

std::optional<std::string> check_names(std::string_view value) {
    return complaint(parse_names(value));
}

std::optional<std::string> check_sizes(std::string_view value) {
    return complaint(parse_sizes(value));
}

std::optional<std::string> check_strip(std::string_view value) {
    const auto bytes = parse_strip(value);
    if (bytes && *bytes >= min_strip_bytes && *bytes <= max_strip_bytes &&
        (*bytes & (*bytes - 1)) == 0) {
        return std::nullopt;
    }
    return "a strip is 4, 8, 16, 32, 64, 128, 256, 512 or 1024 (KiB)";
}

std::optional<std::string> check_engine(std::string_view value) {
    return parse_engine_kind(value) ? std::nullopt : std::optional("an engine is perch or dm-raid");
}

std::optional<std::string> check_drives(std::string_view value) {
    return complaint(parse_drive_list(value));
}

std::optional<std::string> check_groups(std::string_view value) {
    const auto ids = parse_ids(value, "");
    if (ids && !ids->all) {
        return std::nullopt;
    }
    return "expecting drive groups such as 0 or 0,2; leave dgs out for a spare of all";
}

std::optional<std::string> check_coercion(std::string_view value) {
    if (coercion_of(value)) {
        return std::nullopt;
    }
    return "expecting 0 (None), 1 (128 MiB) or 2 (1 GiB)";
}

std::optional<std::string> check_number(std::string_view value) {
    return parse_number(value) ? std::nullopt : std::optional<std::string>("expecting a number");
}

std::optional<std::string> check_count(std::string_view value) {
    const auto number = parse_number(value);
    return number && *number > 0 ? std::nullopt
                                 : std::optional<std::string>("expecting a number from 1 on");
}

std::optional<std::string> check_event_type(std::string_view value) {
    constexpr std::string_view prefix = "latest=";
    const bool named = lower(value.substr(0, prefix.size())) == prefix;
    return named && !check_count(value.substr(prefix.size()))
               ? std::nullopt
               : std::optional<std::string>("expecting type=latest=x, such as type=latest=20");
}

}  // namespace perch::cli
