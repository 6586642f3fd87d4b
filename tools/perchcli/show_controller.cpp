// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "handlers.hpp"
#include "layout/raid_layout.hpp"
#include "ondisk/configuration.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

constexpr const char* product = "Perch software RAID controller";

template <typename Range, typename Predicate>
std::int64_t count_of(const Range& range, Predicate predicate) {
    return std::count_if(range.begin(), range.end(), predicate);
}

std::string serial_text(const Snapshot& snapshot) {
    return snapshot.controller_uuid.empty() ? "-" : snapshot.controller_uuid;
}

Properties basics(const Snapshot& snapshot) {
    const auto time = local_time_text(snapshot.time);
    return {"Basics",
            {{"Product Name", product},
             {"Serial Number", serial_text(snapshot)},
             {"Controller Time(LocalTime yyyy/mm/dd hh:mm:sec)", time},
             {"System Time(LocalTime yyyy/mm/dd hh:mm:sec)", time},
             {"Host Name", snapshot.host},
             {"OEM", "Perch"}},
            {}};
}

Properties version(const Snapshot& snapshot) {
    return {"Version",
            {{"Package Version", snapshot.version},
             {"Firmware Version", snapshot.version},
             {"Driver Name", "dm-perch"},
             {"Operating System", snapshot.operating_system}},
            {}};
}

Properties status(const Snapshot& snapshot) {
    const auto& vds = snapshot.vds;
    const auto& drives = snapshot.drives;
    const auto vd_count = [&](VdState state) {
        return count_of(vds, [state](const auto& vd) { return vd.state == state; });
    };
    const auto drive_count = [&](DriveStatus wanted) {
        return count_of(drives, [wanted](const auto& drive) { return drive.status == wanted; });
    };
    return {
        "Status",
        {{"Controller Status", controller_status(snapshot)},
         {"VD Count", static_cast<std::int64_t>(vds.size())},
         {"VD Degraded Count", vd_count(VdState::degraded) + vd_count(VdState::partially_degraded)},
         {"VD Offline Count", vd_count(VdState::offline)},
         {"PD Count", static_cast<std::int64_t>(drives.size()) - drive_count(DriveStatus::missing)},
         {"PD Drive Count",
          static_cast<std::int64_t>(drives.size()) - drive_count(DriveStatus::missing)},
         {"Critical Predictive Failure PD Drive Count",
          count_of(drives,
                   [](const auto& drive) {
                       return drive.health && drive.health->critical_warning != 0;
                   })},
         {"Failed PD Drive Count", drive_count(DriveStatus::failed)},
         {"Missing PD Drive Count", drive_count(DriveStatus::missing)},
         {"Preserved Cache Present", "No"},
         {"Security Key Assigned", "No"},
         {"Controller Personality", "RAID"}},
        {}};
}

Properties limits() {
    const auto number = [](auto limit) { return static_cast<std::int64_t>(limit); };
    return {"Max. Supported Config",
            {{"Max Number of VDs", number(max_vds)},
             {"Max Number of Physical Drives", number(max_drives)},
             {"Max NVMe Drives", number(max_drives)},
             {"Max Arrays", number(max_groups)},
             {"Max PD Per Array", number(max_members)},
             {"Max PD Per Span", number(max_members_per_span)},
             {"Max Spans Per VD", number(max_spans)},
             {"Max Dedicated HSPs", number(max_drives)},
             {"Max Global HSPs", number(max_drives)},
             {"Max VDs Per Array", number(max_vds_per_group)},
             {"Max JBODs", number(max_drives)},
             {"Max RAID Configurable PDs", number(max_drives)},
             {"Max Namespaces", std::int64_t{1}}},
            {}};
}

Properties properties(const Snapshot& snapshot) {
    return {"Properties", {{"Drive Coercion Mode", coercion_text(snapshot.coercion)}}, {}};
}

Properties capabilities() {
    std::vector<std::string> levels;
    for (const auto level : {RaidLevel::raid0, RaidLevel::raid1, RaidLevel::raid5, RaidLevel::raid6,
                             RaidLevel::raid10, RaidLevel::raid50, RaidLevel::raid60}) {
        levels.push_back(to_string(level));
    }
    return {"Capabilities",
            {{"Supported Drive Interfaces", "NVMe"},
             {"Supported RAID Levels", fmt::format("{}", fmt::join(levels, ", "))},
             {"Min Strip Size", format_block(min_strip_bytes)},
             {"Max Strip Size", format_block(max_strip_bytes)},
             {"Write Cache", "WriteThrough"},
             {"Mix of logical sector sizes in a VD", "Not Allowed"}},
            {}};
}

void append_lists(std::vector<Block>& blocks, const Snapshot& snapshot) {
    const auto drives = all_drives(snapshot);
    const auto vds = all_vds(snapshot);
    const auto enclosures = enclosure_ids(snapshot);
    const auto count = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
    blocks.push_back({Pair{"Drive Groups", count(snapshot.groups)}});
    if (!snapshot.groups.empty()) {
        blocks.push_back({topology_table(snapshot, all_groups(snapshot))});
        blocks.push_back({topology_legend()});
    }
    if (!snapshot.foreign.empty()) {
        blocks.push_back({foreign_table(all_foreign(snapshot))});
        blocks.push_back({foreign_legend()});
        blocks.push_back({Pair{"Total foreign Drive Groups", count(snapshot.foreign)}});
    }
    blocks.push_back({Pair{"Virtual Drives", count(vds)}});
    if (!vds.empty()) {
        blocks.push_back({vd_table("VD LIST", vds)});
        blocks.push_back({vd_legend()});
        blocks.push_back({vd_notes(vds)});
    }
    blocks.push_back({Pair{"Physical Drives", count(drives)}});
    if (!drives.empty()) {
        blocks.push_back({drive_table("PD LIST", drives)});
        blocks.push_back({lu_table("LU/NS LIST", drives, false)});
        blocks.push_back({drive_legend()});
        blocks.push_back({drive_notes(drives)});
    }
    blocks.push_back({Pair{"Enclosures", count(enclosures)}});
    if (!enclosures.empty()) {
        blocks.push_back({enclosure_table("Enclosure List", snapshot, enclosures)});
        blocks.push_back({enclosure_legend()});
    }
}

/// The enclosures the path names; an error when one named by itself does not exist.
Result<std::vector<int>> select_enclosures(const Snapshot& snapshot, const ObjectPath& path) {
    std::vector<int> ids;
    for (const int id : enclosure_ids(snapshot)) {
        if (path.enclosures->contains(id)) {
            ids.push_back(id);
        }
    }
    for (const int id : path.enclosures->singles()) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
            return fail(Errc::not_found, "Enclosure {} not found", id);
        }
    }
    return ids;
}

}  // namespace

Reply show_controller(Session& session, const Invocation& /*invocation*/) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    Reply reply;
    reply.preface = worst_problem(*snapshot);
    reply.blocks = {
        {Pair{"Product Name", product}},
        {Pair{"Serial Number", serial_text(*snapshot)}},
        {Pair{"System Time(LocalTime yyyy/mm/dd hh:mm:sec)", local_time_text(snapshot->time)}},
        {Pair{"Package Version", snapshot->version}},
        {Pair{"Driver Name", "dm-perch"}},
        {Pair{"Controller Status", controller_status(*snapshot)}},
        {Pair{"Controller Personality", "RAID"}},
    };
    append_lists(reply.blocks, *snapshot);
    reply.blocks.push_back({problem_notes(*snapshot, false)});
    return reply;
}

Reply show_controller_all(Session& session, const Invocation& /*invocation*/) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    Reply reply;
    reply.preface = worst_problem(*snapshot);
    reply.blocks = {{basics(*snapshot)}, {version(*snapshot)},    {status(*snapshot)},
                    {limits()},          {properties(*snapshot)}, {capabilities()}};
    append_lists(reply.blocks, *snapshot);
    reply.blocks.push_back({problem_notes(*snapshot, true)});
    return reply;
}

Reply show_enclosure(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto ids = select_enclosures(*snapshot, invocation.path);
    if (!ids) {
        return failure_reply(ids.error());
    }
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.blocks = {{enclosure_table("Properties", *snapshot, *ids)}, {enclosure_legend()}};
    return reply;
}

Reply show_enclosure_all(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto ids = select_enclosures(*snapshot, invocation.path);
    if (!ids) {
        return failure_reply(ids.error());
    }
    const auto drives = select_drives(*snapshot, invocation.path).found;
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.blocks = {{enclosure_table("Properties", *snapshot, *ids)},
                    {enclosure_legend()},
                    {drive_table("Drive Information", drives)},
                    {drive_legend()},
                    {drive_notes(drives)}};
    return reply;
}

}  // namespace perch::cli
