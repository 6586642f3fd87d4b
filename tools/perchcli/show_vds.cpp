// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "handlers.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

void report_missing(Reply& reply, const VdSelection& selection) {
    if (selection.missing.empty()) {
        return;
    }
    const Error error{Errc::not_found, "Invalid VD number"};
    VdOutcomes outcomes;
    for (const int id : selection.missing) {
        outcomes.failure(id, "CLI", error);
    }
    reply.error = error;
    reply.description = "None";
    reply.description_is_final = true;
    reply.detailed_status = outcomes.table();
}

Properties vd_properties(const Snapshot& snapshot, const VirtualDrive& vd) {
    const bool emulated =
        std::any_of(vd.members.begin(), vd.members.end(), [&](const Member& member) {
            const auto* drive = find_drive(snapshot, member.drive);
            return drive != nullptr && drive->physical_block_bytes != drive->logical_block_bytes;
        });
    const auto device = [](const std::string& name) { return name.empty() ? "-" : name; };
    const auto block = vd.block_bytes == 0 ? 512 : vd.block_bytes;
    return {"VD Properties",
            {{"Strip Size", format_block(vd.strip_bytes)},
             {"Block Size", std::int64_t{vd.block_bytes}},
             {"Number of Blocks", static_cast<std::int64_t>(vd.size_bytes / block)},
             {"VD has Emulated PD", yes_no(emulated)},
             {"Span Depth", std::int64_t{1}},
             {"Number of Drives", static_cast<std::int64_t>(vd.members.size())},
             {"Drive Write Cache Policy", "Default"},
             {"Access Policy Status", "VD has desired access"},
             {"Auto BGI", "On"},
             {"Secured", "No"},
             {"Init State", vd.operation && vd.operation->kind == OperationKind::resync
                                ? operation_text(vd.operation)
                                : "No Init"},
             {"Consistent", yes_no(vd.consistent)},
             {"Morphing", "No"},
             {"Cache Preserved", "No"},
             {"VD Ready for OS Requests", yes_no(vd.state != VdState::offline)},
             {"Exposed to OS", yes_no(!vd.device.empty())},
             {"Creation Time(LocalTime yyyy/mm/dd hh:mm:sec)", vd.created},
             {"SCSI NAA Id", vd.uuid},
             {"OS Drive Name", device(vd.kernel_device)},
             {"Serial Number", vd.uuid},
             {"Failures survived now", std::int64_t{vd.survives}},
             {"Used by", users_text(vd)},
             {"State reason", vd.state_reason.empty() ? "-" : vd.state_reason},
             {"Active Operations", operation_text(vd.operation)},
             {"Device", device(vd.device)},
             {"Engine", vd.engine}},
            {}};
}

std::vector<Block> vd_entry(const Snapshot& snapshot, const VirtualDrive& vd) {
    auto info = vd_table("VD Info", {&vd});
    info.single = true;
    info.text_title = fmt::format("/c0/v{}", vd.id);
    auto members = member_table("PDs", snapshot, vd);
    members.text_title = fmt::format("PDs for VD {}", vd.id);
    auto properties = vd_properties(snapshot, vd);
    return {{std::move(info)}, {std::move(members)}, {std::move(properties)}};
}

}  // namespace

Reply show_vds(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_vds(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    if (snapshot->vds.empty()) {
        reply.description = "No VDs have been configured.";
    }
    report_missing(reply, selection);
    reply.blocks = {
        {vd_table("Virtual Drives", selection.found)}, {vd_legend()}, {vd_notes(selection.found)}};
    return reply;
}

Reply show_vds_all(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_vds(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    if (snapshot->vds.empty()) {
        reply.description = "No VDs have been configured.";
    }
    report_missing(reply, selection);
    Group group{"Virtual Drives", {}};
    for (const auto* vd : selection.found) {
        group.entries.push_back(vd_entry(*snapshot, *vd));
    }
    reply.blocks = {{std::move(group)}, {vd_legend()}, {drive_legend()}};
    return reply;
}

}  // namespace perch::cli
