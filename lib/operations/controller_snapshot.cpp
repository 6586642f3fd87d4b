// SPDX-License-Identifier: GPL-2.0-or-later
// The picture of the controller that others see.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>

#include "drives/block_users.hpp"
#include "operations/controller.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

std::string local_time(std::int64_t seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts{};
    localtime_r(&time, &parts);
    std::array<char, 32> text{};
    (void)std::strftime(text.data(), text.size(), "%Y/%m/%d %H:%M:%S", &parts);
    return text.data();
}

DriveStatus member_status(const ConfigMember& member, bool present,
                          const std::optional<EngineStatus>& status, std::size_t row) {
    switch (member.state) {
        case MemberState::candidate:
            return present ? DriveStatus::rebuild : DriveStatus::missing;
        case MemberState::offline:
            return present ? DriveStatus::offline : DriveStatus::missing;
        case MemberState::failed:
            return present ? DriveStatus::failed : DriveStatus::missing;
        case MemberState::missing:
            return present ? DriveStatus::offline : DriveStatus::missing;
        case MemberState::online:
            break;
    }
    if (!present) {
        return DriveStatus::missing;
    }
    const bool failed =
        status && row < status->members.size() && status->members[row] == MemberHealth::failed;
    return failed ? DriveStatus::failed : DriveStatus::online;
}

std::string controller_of_slot(const Drive& drive) {
    return fmt::format("/c0/e{}/s{}", drive.enclosure, drive.slot);
}

}  // namespace

Drive Controller::show_drive(const FoundDrive& found) const {
    const auto& identity = found.identity;
    Drive drive;
    drive.id = identity.id();
    drive.enclosure = identity.enclosure;
    drive.slot = identity.slot;
    drive.device = identity.path();
    drive.serial = identity.serial;
    drive.model = identity.model;
    drive.firmware = identity.firmware;
    drive.identity = identity.identity;
    drive.size_bytes = identity.size_bytes;
    drive.logical_block_bytes = identity.logical_block_bytes;
    drive.physical_block_bytes = identity.physical_block_bytes;
    drive.link_speed = identity.link_speed;
    drive.link_width = identity.link_width;
    drive.health = found.health;
    if (const auto partition =
            partition_layout(identity.size_bytes, configuration_.settings.coercion)) {
        drive.usable_bytes = partition->length;
    }
    if (!found.answered) {
        drive.state = DriveState::unusable;
        drive.status = DriveStatus::failed;
        drive.content = "it does not answer";
        return drive;
    }
    if (found.label) {
        drive.uuid = found.label->drive.str();
        drive.state =
            is_ours(found, configuration_) ? DriveState::unconfigured : DriveState::foreign;
        if (const auto* known = find_drive(configuration_, found.label->drive);
            known != nullptr && drive.state == DriveState::unconfigured) {
            drive.status = known->failed ? DriveStatus::failed : DriveStatus::good;
            drive.spare_for = known->spare_for;
            if (known->role != DriveRole::none) {
                drive.state = known->role == DriveRole::global_spare ? DriveState::global_spare
                                                                     : DriveState::dedicated_spare;
            }
        }
        drive.usable_bytes = found.label->partition.length;
        if (drive.state == DriveState::foreign) {
            drive.content =
                found.content.empty() ? "a configuration of another controller" : found.content;
        }
        if (found.trouble) {
            drive.content = found.trouble->message;
        }
        return drive;
    }
    if (found.trouble) {
        drive.state = DriveState::unusable;
        drive.content = found.trouble->message;
        return drive;
    }
    const bool set_aside = std::find(configuration_.jbods.begin(), configuration_.jbods.end(),
                                     identity.identity) != configuration_.jbods.end();
    if (!found.content.empty() || !found.users.empty() || set_aside) {
        drive.state = DriveState::jbod;
        drive.status = DriveStatus::online;
        drive.content = found.content;
        for (const auto& user : found.users) {
            drive.content += (drive.content.empty() ? "" : ", ") + user;
        }
    }
    return drive;
}

std::vector<Drive> Controller::show_missing(const std::vector<Drive>& present) const {
    std::set<std::string> places;
    for (const auto& drive : present) {
        places.insert(drive.id);
    }
    std::vector<Drive> missing;
    std::set<Uuid> seen;
    for (const auto& vd : configuration_.vds) {
        for (const auto& member : vd.members) {
            const auto* known = find_drive(configuration_, member.drive);
            if (known == nullptr || find_by_uuid(drives_, member.drive) != nullptr ||
                !seen.insert(member.drive).second) {
                continue;
            }
            Drive drive;
            const auto place = fmt::format("e{}s{}", known->enclosure, known->slot);
            const bool taken = known->slot < 0 || places.contains(place);
            drive.id = taken ? "missing-" + known->serial : place;
            drive.enclosure = known->enclosure;
            drive.slot = taken ? -1 : known->slot;
            drive.serial = known->serial;
            drive.model = known->model;
            drive.identity = known->identity;
            drive.uuid = known->uuid.str();
            drive.size_bytes = known->device_bytes;
            drive.usable_bytes = known->partition_bytes;
            drive.logical_block_bytes = vd.block_bytes;
            drive.physical_block_bytes = vd.block_bytes;
            drive.state = DriveState::configured;
            drive.status = DriveStatus::missing;
            missing.push_back(drive);
        }
    }
    return missing;
}

VirtualDrive Controller::show_vd(const ConfigVd& config, const std::vector<Drive>& drives) const {
    VirtualDrive vd;
    const auto* runtime = runtime_of(config);
    vd.id = config.id;
    vd.group = config.group;
    vd.uuid = config.uuid.str();
    vd.name = config.name;
    vd.state = vd_state(config);
    vd.size_bytes = config.vd_bytes;
    vd.strip_bytes = config.strip_bytes;
    vd.block_bytes = config.block_bytes;
    vd.engine = to_string(config.engine);
    vd.survives = survives(config);
    vd.created = local_time(config.created);
    vd.state_reason = runtime == nullptr ? "" : runtime->reason;
    vd.level = to_string(config.level);
    vd.per_span = config.per_span;
    vd.redundant = is_redundant(config.level);
    const auto status = runtime == nullptr ? std::nullopt : runtime->status;
    std::map<std::string, const Drive*> by_uuid;
    for (const auto& drive : drives) {
        by_uuid.emplace(drive.uuid, &drive);
    }
    for (std::size_t row = 0; row < config.members.size(); ++row) {
        const auto& member = config.members[row];
        const auto found = member.drive.is_nil() ? by_uuid.end() : by_uuid.find(member.drive.str());
        const auto* there = find_by_uuid(drives_, member.drive);
        const bool present = there != nullptr && is_ours(*there, configuration_);
        vd.members.push_back({static_cast<int>(row), shape_of(config).span_of(row),
                              found == by_uuid.end() ? "" : found->second->id,
                              member_status(member, present, status, row)});
    }
    if (!status) {
        return vd;
    }
    vd.device = "/dev/perch/" + config.name;
    vd.kernel_device = status->kernel_device;
    vd.users = block_users(status->kernel_name);
    vd.consistent = !out_of_sync(config);
    vd.mismatches = runtime->mismatches;
    vd.operation = show_operation(config);
    return vd;
}

std::optional<Operation> Controller::show_operation(const ConfigVd& config) const {
    const auto& runtime = *runtime_of(config);
    const auto& status = *runtime.status;
    Operation operation;
    switch (status.task) {
        case EngineTask::resync:
            operation.kind = OperationKind::resync;
            break;
        case EngineTask::rebuild:
            operation.kind = OperationKind::rebuild;
            break;
        case EngineTask::check:
            operation.kind = OperationKind::check;
            break;
        case EngineTask::init:
            operation.kind = OperationKind::init;
            break;
        default:
            return std::nullopt;
    }
    const auto total = status.task_total_sectors;
    const auto done = std::min(status.task_done_sectors, total);
    operation.percent =
        total == 0 ? 0 : 100.0 * static_cast<double>(done) / static_cast<double>(total);
    const auto& progress = runtime.progress;
    if (progress.seconds >= 1 && progress.sectors > 0) {
        const auto rate = static_cast<double>(progress.sectors) / progress.seconds;
        operation.speed_bytes_per_second =
            static_cast<std::uint64_t>(rate * static_cast<double>(sector_bytes));
        operation.seconds_left =
            static_cast<std::uint64_t>(static_cast<double>(total - done) / rate);
    }
    return operation;
}

/// Drive groups, from the VDs that are shown.
std::vector<DriveGroup> Controller::show_groups(const Snapshot& snapshot) const {
    std::map<int, DriveGroup> groups;
    for (const auto& vd : snapshot.vds) {
        const auto [found, fresh] = groups.try_emplace(vd.group);
        auto& group = found->second;
        if (fresh) {
            group.id = vd.group;
            group.level = vd.level;
            group.per_span = vd.per_span;
            group.members = vd.members;
            const auto& first = *vds_of_group(configuration_, vd.group).front();
            const auto data_members = static_cast<std::uint64_t>(shape_of(first).data_members());
            for (const auto& range : free_in_group(configuration_, vd.group)) {
                if (const auto data = most_data({range}); data > 0) {
                    group.free_bytes.push_back(data * data_members);
                }
            }
        }
        group.state = std::max(group.state, vd.state);
        group.size_bytes += vd.size_bytes;
        group.vds.push_back(vd.id);
        for (std::size_t row = 0; row < group.members.size(); ++row) {
            if (vd.members[row].status != DriveStatus::online) {
                group.members[row].status = vd.members[row].status;
            }
        }
    }
    std::vector<DriveGroup> list;
    for (auto& [id, group] : groups) {
        list.push_back(std::move(group));
    }
    return list;
}

void Controller::show_pull(Snapshot& snapshot) const {
    std::map<std::string, Drive*> by_id;
    for (auto& drive : snapshot.drives) {
        by_id.emplace(drive.id, &drive);
    }
    for (const auto& vd : snapshot.vds) {
        const auto& config = *find_vd(configuration_, vd.id);
        const auto lost = lost_rows(config);
        for (const auto& member : vd.members) {
            const auto found = by_id.find(member.drive);
            if (found == by_id.end()) {
                continue;
            }
            auto& drive = *found->second;
            if (drive.state == DriveState::foreign) {
                continue;  // it follows another history now
            }
            const bool first = !drive.group.has_value();
            drive.state = DriveState::configured;
            // The worst over the VDs of its drive group.
            if (first || drive.status == DriveStatus::online) {
                drive.status = member.status;
            }
            drive.group = vd.group;
            drive.row = member.row;
            const bool serves =
                member.status == DriveStatus::online || member.status == DriveStatus::rebuild;
            std::string reason;
            if (member.status == DriveStatus::rebuild) {
                drive.operation = vd.operation;
                reason = fmt::format("v{} is being rebuilt onto it", vd.id);
            } else if (serves && (vd.survives == 0 || vd.state == VdState::offline) &&
                       !(survives_loss_of(shape_of(config), lost,
                                          static_cast<std::size_t>(member.row)) &&
                         vd.consistent)) {
                reason = fmt::format("v{} ({}) would go Offline", vd.id, vd.name);
            } else if (serves) {
                reason = fmt::format("v{} ({}) would become Degraded; set the drive offline first",
                                     vd.id, vd.name);
            } else {
                reason = fmt::format("v{} ({}) does not use it now", vd.id, vd.name);
            }
            if (first || (drive.safe_to_pull && serves)) {
                drive.pull_reason = reason;
            }
            drive.safe_to_pull = (first || drive.safe_to_pull) && !serves;
        }
    }
    for (auto& drive : snapshot.drives) {
        if (drive.group || !drive.pull_reason.empty()) {
            continue;
        }
        const auto found = std::find_if(drives_.begin(), drives_.end(), [&](const auto& row) {
            return row.identity.path() == drive.device;
        });
        const bool used = found != drives_.end() && !found->users.empty();
        drive.safe_to_pull = !used;
        const bool spare =
            drive.state == DriveState::global_spare || drive.state == DriveState::dedicated_spare;
        drive.pull_reason = used    ? found->users.front()
                            : spare ? "a hot spare; no VD uses it now"
                                    : "no VD uses it";
    }
}

std::vector<Problem> Controller::show_problems(const Snapshot& snapshot) const {
    std::vector<Problem> problems;
    if (history_.refusal) {
        problems.push_back({Severity::fatal, *history_.refusal, "Perch changes nothing.",
                            "Remove the drives whose state is not wanted."});
    }
    for (const auto& vd : snapshot.vds) {
        const auto title = fmt::format("v{} ({})", vd.id, vd.name);
        if (vd.state == VdState::offline) {
            problems.push_back(
                {Severity::fatal, fmt::format("{} is Offline: {}.", title, vd.state_reason),
                 "Perch waits for its drives.", "Bring back the drives that are missing."});
            continue;
        }
        for (const auto& member : vd.members) {
            if (member.status == DriveStatus::online) {
                continue;
            }
            const Drive nobody;
            const auto* found = find_drive(snapshot, member.drive);
            const auto* drive = found == nullptr ? &nobody : found;
            const auto place = found == nullptr ? fmt::format("row {}", member.row)
                               : drive->slot < 0
                                   ? fmt::format("the drive with SN {}", drive->serial)
                                   : fmt::format("s{} (SN {})", drive->slot, drive->serial);
            Problem problem{Severity::critical, "", "", ""};
            problem.what =
                fmt::format("{} is {} and survives {} more drive failures: {} is {}.", title,
                            vd.state == VdState::optimal              ? "Optimal"
                            : vd.state == VdState::partially_degraded ? "Partially Degraded"
                                                                      : "Degraded",
                            vd.survives, place, to_string(member.status));
            if (member.status == DriveStatus::rebuild) {
                problem.severity = Severity::warning;
                problem.doing = fmt::format(
                    "Perch rebuilds onto {}: {:.1f} %{}.", place,
                    vd.operation ? vd.operation->percent : 0.0,
                    vd.operation && vd.operation->seconds_left
                        ? ", about " + format_duration(*vd.operation->seconds_left) + " left"
                        : "");
                problem.action = "Wait. Do not pull any other drive of it.";
            } else if (member.status == DriveStatus::offline && drive->slot >= 0) {
                problem.doing =
                    "Perch waits for you: what is on the drive is not trusted, the others went on "
                    "without it.";
                problem.action = fmt::format("Rebuild it: perchcli {} start rebuild",
                                             controller_of_slot(*drive));
            } else {
                problem.doing = "Perch serves its data from the other drives.";
                problem.action = fmt::format(
                    "Put in a blank drive (or choose an unconfigured one) and rebuild onto it: "
                    "perchcli /c0/e0/s<slot> insert dg={} array={} row={}",
                    vd.group, member.span, member.row % vd.per_span);
            }
            problems.push_back(problem);
        }
        const auto level = parse_raid_level(vd.level);
        if (vd.state != VdState::optimal && !vd.consistent && level && has_parity(*level)) {
            problems.push_back(
                {Severity::critical,
                 fmt::format("{} lost a member before its parity was consistent: blocks that were "
                             "being written when it last stopped uncleanly may be wrong.",
                             title),
                 "Perch recomputes parity once all members are there.",
                 "Check the data that was written last (fsck, application checksums)."});
        }
        if (!vd.state_reason.empty()) {
            problems.push_back({Severity::warning, fmt::format("{}: {}.", title, vd.state_reason),
                                "Perch tries again.", ""});
        }
    }
    for (const auto& drive : snapshot.drives) {
        if (drive.state == DriveState::unusable) {
            problems.push_back({Severity::warning,
                                fmt::format("s{} (SN {}) is unusable: {}.", drive.slot,
                                            drive.serial, drive.content),
                                "", "Replace it or update Perch, as the cause says."});
        }
    }
    for (const auto& foreign : foreign_) {
        problems.push_back({Severity::warning,
                            fmt::format("A foreign drive group is there (f{}, {}, {} drives). {}",
                                        foreign.shown.id, foreign.shown.level,
                                        foreign.shown.drives.size(), foreign.shown.note),
                            "Perch does not touch it.",
                            "See 'perchcli /c0/fall import preview'; then import or del it."});
    }
    if (!repair_trouble_.empty()) {
        problems.push_back({Severity::critical, repair_trouble_ + ".", "", ""});
    }
    std::stable_sort(problems.begin(), problems.end(),
                     [](const auto& a, const auto& b) { return a.severity > b.severity; });
    return problems;
}

Snapshot Controller::snapshot() const {
    Snapshot snapshot;
    utsname system{};
    if (uname(&system) == 0) {
        snapshot.host = system.nodename;
        snapshot.operating_system = fmt::format("{}{}", system.sysname, system.release);
    }
    snapshot.version = PERCH_VERSION;
    if (!configuration_.controller.is_nil()) {
        snapshot.controller_uuid = configuration_.controller.str();
    }
    for (const auto& found : drives_) {
        snapshot.drives.push_back(show_drive(found));
    }
    auto missing = show_missing(snapshot.drives);
    snapshot.drives.insert(snapshot.drives.end(), missing.begin(), missing.end());
    std::stable_sort(snapshot.drives.begin(), snapshot.drives.end(),
                     [](const auto& a, const auto& b) {
                         return std::pair(a.enclosure, a.slot) < std::pair(b.enclosure, b.slot);
                     });
    for (const auto& vd : configuration_.vds) {
        if (!vd.deleting) {
            snapshot.vds.push_back(show_vd(vd, snapshot.drives));
        }
    }
    std::sort(snapshot.vds.begin(), snapshot.vds.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    snapshot.groups = show_groups(snapshot);
    snapshot.coercion = to_string(configuration_.settings.coercion);
    for (const auto& foreign : foreign_) {
        snapshot.foreign.push_back(foreign.shown);
    }
    show_pull(snapshot);
    int pid = 0;
    for (auto& drive : snapshot.drives) {
        drive.pid = drive.slot >= 0 ? drive.slot + 1 : 1000 + pid++;
    }
    snapshot.problems = show_problems(snapshot);
    return snapshot;
}

}  // namespace perch
