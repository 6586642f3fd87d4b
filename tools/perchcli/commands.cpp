// SPDX-License-Identifier: GPL-2.0-or-later
// The command table.
#include <algorithm>

#include "grammar.hpp"
#include "handlers.hpp"
#include "layout/raid_layout.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

std::optional<std::string> check_name(std::string_view value) {
    const bool good = value.size() <= 15 && std::all_of(value.begin(), value.end(), [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                      });
    if (good) {
        return std::nullopt;
    }
    return "a name has at most 15 characters out of A-Z a-z 0-9 . _ -";
}

std::optional<std::string> check_strip(std::string_view value) {
    const auto bytes = parse_strip(value);
    if (bytes && *bytes >= min_strip_bytes && *bytes <= max_strip_bytes &&
        (*bytes & (*bytes - 1)) == 0) {
        return std::nullopt;
    }
    return "a strip is 4, 8, 16, 32, 64, 128, 256, 512 or 1024 (KiB)";
}

std::optional<std::string> check_drives(std::string_view value) {
    const auto list = parse_drive_list(value);
    return list ? std::nullopt : std::optional(list.error().message);
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

constexpr std::string_view watch_help =
    "Follow the rebuild with percent, speed and time left until it ends (Ctrl-C stops the "
    "watching, "
    "not the rebuild).";

std::vector<Command> show_commands() {
    return {
        {PathKind::none,
         "show",
         {},
         "Overview of all controllers.",
         "Begins with the worst problem, what Perch does about it and what you should do.",
         "show",
         false,
         show_system},
        {PathKind::none,
         "show all",
         {},
         "Overview of all controllers, with every problem.",
         "",
         "show all",
         false,
         show_system_all},
        {PathKind::none,
         "show ctrlcount",
         {},
         "Number of controllers.",
         "",
         "show ctrlcount",
         false,
         show_controller_count},
        {PathKind::controller,
         "show",
         {},
         "A controller with its drive groups, VDs, drives and enclosures.",
         "",
         "/c0 show",
         false,
         show_controller},
        {PathKind::controller,
         "show all",
         {},
         "The same with versions, counts, limits, capabilities and every problem.",
         "",
         "/c0 show all",
         false,
         show_controller_all},
        {PathKind::controller,
         "show events",
         {{"latest", "N", "Only the newest N events.", false, check_count},
          {"type", "latest=N", "The same in the vendor's spelling.", false, check_event_type}},
         "The event log, oldest first.",
         "",
         "/c0 show events latest=20",
         false,
         show_events},
        {PathKind::enclosure,
         "show",
         {},
         "Enclosures.",
         "",
         "/c0/eall show",
         false,
         show_enclosure},
        {PathKind::enclosure,
         "show all",
         {},
         "Enclosures with their drives.",
         "",
         "/c0/e0 show all",
         false,
         show_enclosure_all},
        {PathKind::drive,
         "show",
         {},
         "Drives.",
         "A drive that carries data Perch did not write is shown as JBOD, with what was found.",
         "/c0/eall/sall show",
         false,
         show_drives},
        {PathKind::drive,
         "show all",
         {},
         "Everything about drives.",
         "Says for each drive whether it is safe to pull, and why not.",
         "/c0/e0/s3 show all",
         false,
         show_drives_all},
        {PathKind::drive,
         "show rebuild",
         {{"watch", "", watch_help}},
         "Progress of a rebuild.",
         "",
         "/c0/e0/s3 show rebuild",
         false,
         show_rebuild},
        {PathKind::vd, "show", {}, "Virtual drives.", "", "/c0/vall show", false, show_vds},
        {PathKind::vd,
         "show all",
         {},
         "Everything about virtual drives.",
         "With members, the failures survived now, users, device and the reason of a bad state.",
         "/c0/v1 show all",
         false,
         show_vds_all},
    };
}

std::vector<Command> change_commands() {
    return {
        {PathKind::controller,
         "add vd r5|raid5",
         {{"drives", "e:s|e:s-x|e:s-x,y", "The drives, by enclosure and slot.", true, check_drives},
          {"name", "NAME", "A name of at most 15 characters; the device is /dev/perch/NAME.", false,
           check_name},
          {"strip", "4..1024", "One drive's share of a stripe in KiB, a power of two; 64.", false,
           check_strip},
          {"force", "", "Use drives that carry data of others; that data is lost."}},
         "Create a virtual drive.",
         "Drives that carry data are refused, and what was found is said; force overrides that. "
         "The boot drive and drives in use are refused always.",
         "/c0 add vd r5 drives=0:0-3 name=data strip=64",
         false,
         add_vd},
        {PathKind::vd,
         "del|delete",
         {{"force", "", "Do not ask."}},
         "Delete a virtual drive and all data on it.",
         "A VD in use is refused even with force.",
         "/c0/v1 del",
         true,
         delete_vd},
        {PathKind::drive,
         "set offline",
         {{"force", "", "Do not ask."}},
         "Take a member drive out of use.",
         "Refused when the VD would lose data.",
         "/c0/e0/s3 set offline",
         true,
         set_offline},
        {PathKind::drive,
         "set online",
         {},
         "Take an offline member drive back into use.",
         "What was written meanwhile is rebuilt.",
         "/c0/e0/s3 set online",
         false,
         set_online},
        {PathKind::drive,
         "start rebuild",
         {{"watch", "", watch_help}},
         "Start the rebuild of a member drive.",
         "",
         "/c0/e0/s3 start rebuild watch",
         false,
         start_rebuild},
        {PathKind::drive,
         "stop rebuild",
         {},
         "Stop the rebuild of a member drive.",
         "",
         "/c0/e0/s3 stop rebuild",
         false,
         stop_rebuild},
        {PathKind::drive,
         "insert",
         {{"dg", "A", "Drive group.", true, check_number},
          {"array", "B", "Array (span) in the group; 0.", true, check_number},
          {"row", "C", "Row whose member is missing.", true, check_number},
          {"force", "", "Use a drive that carries data of others; that data is lost."},
          {"watch", "", watch_help}},
         "Put a drive in a missing member's place and rebuild onto it.",
         "",
         "/c0/e0/s5 insert dg=0 array=0 row=2",
         false,
         insert_drive},
    };
}

}  // namespace

const std::vector<Command>& commands() {
    static const std::vector<Command> table = [] {
        auto all = show_commands();
        for (auto& command : change_commands()) {
            all.push_back(std::move(command));
        }
        return all;
    }();
    return table;
}

}  // namespace perch::cli
