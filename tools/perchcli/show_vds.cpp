// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "follow.hpp"
#include "handlers.hpp"
#include "outcomes.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

void report_missing_vds(Reply& reply, const VdSelection& selection) {
    report_missing(reply, vd_outcomes(), selection.missing, "Invalid VD number", "None");
}

std::string init_state(const VirtualDrive& vd) {
    const bool initializing = vd.operation && (vd.operation->kind == OperationKind::resync ||
                                               vd.operation->kind == OperationKind::init);
    return initializing ? operation_text(vd.operation) : "No Init";
}

std::int64_t span_count(const VirtualDrive& vd) {
    const auto members = static_cast<std::int64_t>(vd.members.size());
    return vd.per_span > 0 ? members / vd.per_span : 1;
}

Properties vd_properties(const DriveIndex& drives, const VirtualDrive& vd) {
    const bool emulated =
        std::any_of(vd.members.begin(), vd.members.end(), [&](const Member& member) {
            const auto* drive = drives.find(member.drive);
            return drive != nullptr && drive->physical_block_bytes != drive->logical_block_bytes;
        });
    const auto device = [](const std::string& name) { return name.empty() ? "-" : name; };
    const auto block = vd.block_bytes == 0 ? 512 : vd.block_bytes;
    const auto members = static_cast<std::int64_t>(vd.members.size());
    Properties properties{
        "VD Properties",
        {{"Strip Size", format_block(vd.strip_bytes)},
         {"Block Size", std::int64_t{vd.block_bytes}},
         {"Number of Blocks", static_cast<std::int64_t>(vd.size_bytes / block)},
         {"VD has Emulated PD", yes_no(emulated)},
         {"Span Depth", span_count(vd)},
         {"Number of Drives", members},
         {"Number of Drives Per Span", vd.per_span > 0 ? std::int64_t{vd.per_span} : members},
         {"Drive Write Cache Policy", "Default"},
         {"Access Policy Status", "VD has desired access"},
         {"Auto BGI", "On"},
         {"Secured", "No"},
         {"Init State", init_state(vd)},
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
    if (vd.mismatches) {
        properties.values.emplace_back("Mismatched Sectors",
                                       static_cast<std::int64_t>(*vd.mismatches));
    }
    return properties;
}

std::vector<Block> vd_entry(const DriveIndex& drives, const VirtualDrive& vd) {
    auto info = vd_table("VD Info", {&vd});
    info.single = true;
    info.text_title = fmt::format("/c0/v{}", vd.id);
    auto members = member_table("PDs", drives, vd);
    members.text_title = fmt::format("PDs for VD {}", vd.id);
    auto properties = vd_properties(drives, vd);
    return {{std::move(info)}, {std::move(members)}, {std::move(properties)}};
}

/// Progress of an operation; with watch, after it has ended.
Reply operation_reply(Session& session, const Invocation& invocation, OperationKind kind) {
    auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    auto selection = select_vds(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    if (invocation.has("watch")) {
        std::vector<Watched> running;
        for (const auto* vd : selection.found) {
            if (vd->operation && vd->operation->kind == kind) {
                running.push_back(operation_of(*vd, kind));
            }
        }
        for (const auto& watched : running) {
            auto after = watch(session, watched);
            if (!after) {
                return failure_reply(after.error());
            }
            snapshot = std::move(after);
        }
        selection = select_vds(*snapshot, invocation.path);
        const auto* name = kind == OperationKind::init ? "initialization" : "check";
        reply.description = running.empty() ? fmt::format("No {} is in progress.", name)
                                            : fmt::format("The {} has ended.", name);
    }
    report_missing_vds(reply, selection);
    reply.blocks = {{vd_operation_table(selection.found, kind)}};
    if (kind == OperationKind::check) {
        reply.blocks.push_back({check_notes(selection.found)});
    }
    return reply;
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
    report_missing_vds(reply, selection);
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
    report_missing_vds(reply, selection);
    const DriveIndex drives(*snapshot);
    Group group{"Virtual Drives", {}};
    for (const auto* vd : selection.found) {
        group.entries.push_back(vd_entry(drives, *vd));
    }
    reply.blocks = {{std::move(group)}, {vd_legend()}, {drive_legend()}};
    return reply;
}

Reply show_init(Session& session, const Invocation& invocation) {
    return operation_reply(session, invocation, OperationKind::init);
}

Reply show_check(Session& session, const Invocation& invocation) {
    return operation_reply(session, invocation, OperationKind::check);
}

}  // namespace perch::cli
