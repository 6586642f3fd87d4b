// SPDX-License-Identifier: GPL-2.0-or-later
#include "follow.hpp"
#include "handlers.hpp"
#include "outcomes.hpp"
#include "rows.hpp"
#include "selection.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// Status and rows for drives that were named and are not there. Drives that are there and failed
/// are rows like any other: they never make a show fail.
void report_missing_drives(Reply& reply, const DriveSelection& selection) {
    report_missing(reply, drive_outcomes(), selection.missing, "Drive not found", "No PD found.");
}

std::string sectors_text(std::uint64_t bytes, std::uint32_t block) {
    return fmt::format("{} [{:#x} Sectors]", format_size(bytes),
                       bytes / (block == 0 ? 512 : block));
}

Properties namespace_properties(const Drive& drive) {
    Properties properties{"LU/NS Properties", {}, {}};
    auto& values = properties.values;
    if (drive.health) {
        values.emplace_back("Media Error Count",
                            static_cast<std::int64_t>(drive.health->media_errors));
    }
    values.emplace_back("Logical Sector Size", format_block(drive.logical_block_bytes));
    values.emplace_back("Physical Sector Size", format_block(drive.physical_block_bytes));
    values.emplace_back("Raw size", sectors_text(drive.size_bytes, drive.logical_block_bytes));
    values.emplace_back("Coerced size",
                        sectors_text(drive.usable_bytes, drive.logical_block_bytes));
    values.emplace_back("Secured", "No");
    values.emplace_back("Number of bytes of user data in LBA",
                        format_block(drive.logical_block_bytes));
    return properties;
}

/// Where the drive is in its group, or what it is a spare for.
std::string position_text(const Snapshot& snapshot, const Drive& drive) {
    if (drive.state == DriveState::global_spare) {
        return "Hot spare for all drive groups";
    }
    if (drive.state == DriveState::dedicated_spare) {
        return fmt::format("Hot spare for DriveGroup:{}", fmt::join(drive.spare_for, ","));
    }
    for (const auto& group : snapshot.groups) {
        if (drive.group != group.id) {
            continue;
        }
        for (const auto& member : group.members) {
            if (member.drive == drive.id) {
                return fmt::format("DriveGroup:{}, Span:{}, Row:{}", group.id, member.span,
                                   row_in_span(group, member));
            }
        }
    }
    return "-";
}

std::string pull_text(const Drive& drive) {
    if (drive.safe_to_pull) {
        return "safe";
    }
    return drive.pull_reason.empty() ? "NO" : "NO – " + drive.pull_reason;
}

Properties drive_details(const Snapshot& snapshot, const Drive& drive) {
    Properties properties{"Drive Detailed Information", {}, {namespace_properties(drive)}};
    auto& values = properties.values;
    values.emplace_back("Pull", pull_text(drive));
    if (!drive.content.empty()) {
        values.emplace_back("Content", drive.content);
    }
    if (drive.health) {
        values.emplace_back("Temperature(C)", std::int64_t{drive.health->temperature_celsius});
        values.emplace_back("Percentage Used(%)", std::int64_t{drive.health->percentage_used});
        values.emplace_back("Available Spare(%)", std::int64_t{drive.health->available_spare});
        values.emplace_back("NVMe Critical Warning", std::int64_t{drive.health->critical_warning});
    }
    values.emplace_back("Serial Number", drive.serial);
    values.emplace_back("Vendor", "NVMe");
    values.emplace_back("Model", drive.model);
    values.emplace_back("WWN", drive.identity);
    values.emplace_back("Firmware Revision Level", drive.firmware);
    values.emplace_back("Logical Sector Size", format_block(drive.logical_block_bytes));
    values.emplace_back("Physical Sector Size", format_block(drive.physical_block_bytes));
    values.emplace_back("Raw size", sectors_text(drive.size_bytes, drive.logical_block_bytes));
    values.emplace_back("Coerced size",
                        sectors_text(drive.usable_bytes, drive.logical_block_bytes));
    values.emplace_back("Negotiated Speed", drive.link_speed.empty() ? "-" : drive.link_speed);
    values.emplace_back("Negotiated Link Width",
                        drive.link_width == 0 ? "-" : fmt::format("x{}", drive.link_width));
    values.emplace_back("Drive position", position_text(snapshot, drive));
    values.emplace_back("Active Operations", operation_text(drive.operation));
    values.emplace_back("OS Drive Name", drive.device.empty() ? "-" : drive.device);
    values.emplace_back("Perch UUID", drive.uuid.empty() ? "-" : drive.uuid);
    return properties;
}

std::vector<Block> drive_entry(const Snapshot& snapshot, const Drive& drive) {
    auto table = drive_table("Drive Information", {&drive});
    table.single = true;
    table.text_title = drive.slot < 0
                           ? fmt::format("Drive {}", drive.device.empty() ? drive.id : drive.device)
                           : fmt::format("Drive /c0/e{}/s{}", drive.enclosure, drive.slot);
    return {{std::move(table)},
            {lu_table("LU/NS Information", {&drive}, false)},
            {drive_details(snapshot, drive)}};
}

}  // namespace

Reply show_drives(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_drives(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.description =
        selection.found.empty() ? "No PD found." : "Show Drive Information Succeeded.";
    report_missing_drives(reply, selection);
    if (!selection.found.empty() || selection.missing.empty()) {
        reply.blocks = {{drive_table("Drive Information", selection.found)},
                        {lu_table("LU/NS Information", selection.found, true)},
                        {drive_legend()},
                        {drive_notes(selection.found)}};
    }
    return reply;
}

Reply show_drives_all(Session& session, const Invocation& invocation) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    const auto selection = select_drives(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.description =
        selection.found.empty() ? "No PD found." : "Show Drive Information Succeeded.";
    report_missing_drives(reply, selection);
    Group group{"Drives List", {}};
    for (const auto* drive : selection.found) {
        group.entries.push_back(drive_entry(*snapshot, *drive));
    }
    if (!selection.found.empty() || selection.missing.empty()) {
        reply.blocks = {{std::move(group)}, {drive_legend()}};
    }
    return reply;
}

Reply show_rebuild(Session& session, const Invocation& invocation) {
    auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    auto selection = select_drives(*snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.description = "Show PD Rebuild Status Succeeded.";
    if (invocation.has("watch")) {
        std::vector<Watched> rebuilding;
        for (const auto* drive : selection.found) {
            if (drive->operation && drive->operation->kind == OperationKind::rebuild) {
                rebuilding.push_back(rebuild_of(*drive));
            }
        }
        for (const auto& watched : rebuilding) {
            auto after = watch(session, watched);
            if (!after) {
                return failure_reply(after.error());
            }
            snapshot = std::move(after);
        }
        selection = select_drives(*snapshot, invocation.path);
        reply.description =
            rebuilding.empty() ? "No rebuild is in progress." : "Rebuild completed.";
    }
    report_missing_drives(reply, selection);
    if (!selection.found.empty()) {
        reply.blocks = {{rebuild_table(selection.found)}};
    }
    return reply;
}

}  // namespace perch::cli
