// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "handlers.hpp"
#include "rows.hpp"

namespace perch::cli {

namespace {

Table overview_table(const Snapshot& snapshot) {
    const auto not_optimal =
        std::count_if(snapshot.vds.begin(), snapshot.vds.end(),
                      [](const auto& vd) { return vd.state != VdState::optimal; });
    const auto present =
        std::count_if(snapshot.drives.begin(), snapshot.drives.end(),
                      [](const auto& drive) { return drive.status != DriveStatus::missing; });
    return {
        "System Overview",
        {{"Ctrl", Align::number},
         {"Product Name"},
         {"SASAddress"},
         {"Personality"},
         {"Status"},
         {"PD(s)", Align::number},
         {"VD(s)", Align::number},
         {"VNOpt", Align::number},
         {"EPack"}},
        {{std::int64_t{0}, "Perch", "-", "RAID", controller_status(snapshot), std::int64_t{present},
          static_cast<std::int64_t>(snapshot.vds.size()), std::int64_t{not_optimal}, "-"}},
        false,
        {}};
}

Reply system_reply(Session& session, bool list_problems) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    Reply reply;
    reply.preface = worst_problem(*snapshot);
    reply.blocks = {
        {Pair{"Number of Controllers", std::int64_t{1}}},
        {Pair{"Host Name", snapshot->host}},
        {Pair{"Operating System ", snapshot->operating_system}},
        {Pair{"Perch Version", snapshot->version}},
        {overview_table(*snapshot)},
        {Text{{"Ctrl-Controller Index|PD(s)-Physical drives present|VD(s)-Virtual drives|VNOpt-VD "
               "Not Optimal|EPack-Energy Pack"}}},
        {vd_notes(all_vds(*snapshot))},
        {drive_notes(all_drives(*snapshot))},
        {problem_notes(*snapshot, list_problems)},
    };
    return reply;
}

}  // namespace

Reply show_system(Session& session, const Invocation& /*invocation*/) {
    return system_reply(session, false);
}

Reply show_system_all(Session& session, const Invocation& /*invocation*/) {
    return system_reply(session, true);
}

Reply show_controller_count(Session& session, const Invocation& /*invocation*/) {
    // Without perchd there is nothing to count: an answer of 1 would be a guess.
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    Reply reply;
    reply.blocks = {{Pair{"Controller Count", std::int64_t{1}}}};
    return reply;
}

}  // namespace perch::cli
