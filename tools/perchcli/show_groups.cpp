// SPDX-License-Identifier: GPL-2.0-or-later
#include "handlers.hpp"
#include "outcomes.hpp"
#include "rows.hpp"
#include "selection.hpp"

namespace perch::cli {

namespace {

Reply groups_reply(Session& session, const Invocation& invocation, bool everything) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_groups(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    if (snapshot->groups.empty()) {
        reply.description = "No drive groups have been configured.";
    }
    report_missing(reply, group_outcomes(), selection.missing, "Invalid drive group number",
                   "None");
    reply.blocks = {{topology_table(*snapshot, selection.found)}, {topology_legend()}};
    if (!everything) {
        return reply;
    }
    Vds vds;
    for (const auto* vd : all_vds(*snapshot)) {
        if (invocation.path.groups->contains(vd->group)) {
            vds.push_back(vd);
        }
    }
    const auto free_space = free_space_table(selection.found);
    reply.blocks.push_back({vd_table("VD LIST", vds)});
    reply.blocks.push_back({vd_legend()});
    reply.blocks.push_back({vd_notes(vds)});
    reply.blocks.push_back(
        {drive_table("DG Drive LIST", drives_of_groups(*snapshot, selection.found))});
    reply.blocks.push_back({drive_legend()});
    reply.blocks.push_back({free_space});
    reply.blocks.push_back({free_space_legend()});
    return reply;
}

}  // namespace

Reply show_groups(Session& session, const Invocation& invocation) {
    return groups_reply(session, invocation, false);
}

Reply show_groups_all(Session& session, const Invocation& invocation) {
    return groups_reply(session, invocation, true);
}

Reply show_free_space(Session& session, const Invocation& /*invocation*/) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto table = free_space_table(all_groups(*snapshot));
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    if (table.rows.empty()) {
        reply.description = "No freespace in any drive group.";
    }
    reply.blocks = {{table},
                    {Pair{"Total Slot Count", static_cast<std::int64_t>(table.rows.size())}},
                    {free_space_legend()}};
    return reply;
}

}  // namespace perch::cli
