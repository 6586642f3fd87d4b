// SPDX-License-Identifier: GPL-2.0-or-later
// Objects: /c0, /c0/e8, /c0/e8/s0-3,7, /c0/s3, /call/vall, /c0/d0, /c0/fall.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/error.hpp"

namespace perch::cli {

struct IdRange {
    int from = 0;
    int to = 0;
    bool operator==(const IdRange&) const = default;
};

/// "all", or ids and ranges. A range means whatever exists in it; a single id must exist.
struct IdSet {
    bool all = false;
    std::vector<IdRange> ranges;

    [[nodiscard]] bool contains(int id) const;
    /// The ids that were named one by one.
    [[nodiscard]] std::vector<int> singles() const;
    bool operator==(const IdSet&) const = default;
};

/// Which object a command works on.
enum class PathKind { none, controller, enclosure, drive, vd, group, foreign };

/// "/cx/ex/sx" and so on, as help prints it; empty for none.
std::string_view path_pattern(PathKind kind);

struct ObjectPath {
    std::optional<IdSet> controllers;
    std::optional<IdSet> enclosures;  ///< absent in /c0/s3: any enclosure
    std::optional<IdSet> slots;
    std::optional<IdSet> vds;
    std::optional<IdSet> groups;   ///< drive groups
    std::optional<IdSet> foreign;  ///< foreign drive groups

    [[nodiscard]] PathKind kind() const;
};

/// "3", "0-3,7", "all". what names the thing in errors ("/s").
Result<IdSet> parse_ids(std::string_view text, std::string_view what);
/// "/c0/e8/s0-3"; Errc::syntax with what would have been right.
Result<ObjectPath> parse_path(std::string_view text);

/// One item of a drive list: slots from..to, in that enclosure or in the only one.
struct DriveRange {
    std::optional<int> enclosure;
    IdRange slots;
    bool operator==(const DriveRange&) const = default;
};

/// "0:0-3,7,1:2"; a slot without enclosure keeps the one before it.
Result<std::vector<DriveRange>> parse_drive_list(std::string_view text);
/// A whole decimal number, nothing around it.
std::optional<int> parse_number(std::string_view text);

}  // namespace perch::cli
