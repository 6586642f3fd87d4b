// SPDX-License-Identifier: GPL-2.0-or-later
// The picture of the controller that others see.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>

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
    if (const auto partition = partition_layout(identity.size_bytes)) {
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
        const bool ours =
            found.label->controller == configuration_.controller && found.content.empty();
        drive.state = ours ? DriveState::unconfigured : DriveState::foreign;
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
    if (!found.content.empty() || !found.users.empty()) {
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
    std::vector<Drive> missing;
    for (const auto& vd : configuration_.vds) {
        for (const auto& member : vd.members) {
            const auto* known = find_drive(configuration_, member.drive);
            if (known == nullptr || find_by_uuid(drives_, member.drive) != nullptr) {
                continue;
            }
            Drive drive;
            const auto place = fmt::format("e{}s{}", known->enclosure, known->slot);
            const bool taken = known->slot < 0 ||
                               std::any_of(present.begin(), present.end(),
                                           [&](const auto& other) { return other.id == place; });
            drive.id = taken ? "missing-" + known->serial : place;
            drive.enclosure = known->enclosure;
            drive.slot = taken ? -1 : known->slot;
            drive.serial = known->serial;
            drive.model = known->model;
            drive.identity = known->identity;
            drive.uuid = known->uuid.str();
            drive.size_bytes = known->device_bytes;
            if (const auto partition = partition_layout(known->device_bytes)) {
                drive.usable_bytes = partition->length;
            }
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
    vd.engine = config.engine;
    vd.survives = survives(config);
    vd.created = local_time(config.created);
    vd.state_reason = runtime == nullptr ? "" : runtime->reason;
    const auto status = runtime == nullptr ? std::nullopt : runtime->status;
    for (std::size_t row = 0; row < config.members.size(); ++row) {
        const auto& member = config.members[row];
        const auto found = std::find_if(drives.begin(), drives.end(), [&](const auto& drive) {
            return drive.uuid == member.drive.str();
        });
        const bool present = find_by_uuid(drives_, member.drive) != nullptr;
        vd.members.push_back({static_cast<int>(row), found == drives.end() ? "" : found->id,
                              member_status(member, present, status, row)});
    }
    if (!status) {
        return vd;
    }
    vd.device = "/dev/perch/" + config.name;
    vd.kernel_device = status->kernel_device;
    vd.users = block_users(status->kernel_name);
    vd.consistent = !config.needs_resync && status->task != EngineTask::resync;
    if (status->task == EngineTask::resync || status->task == EngineTask::rebuild) {
        Operation operation;
        operation.kind =
            status->task == EngineTask::resync ? OperationKind::resync : OperationKind::rebuild;
        const auto total = status->task_total_sectors;
        const auto done = std::min(status->task_done_sectors, total);
        operation.percent =
            total == 0 ? 0 : 100.0 * static_cast<double>(done) / static_cast<double>(total);
        const auto& progress = runtime->progress;
        if (progress.seconds >= 1 && progress.sectors > 0) {
            const auto rate = static_cast<double>(progress.sectors) / progress.seconds;
            operation.speed_bytes_per_second =
                static_cast<std::uint64_t>(rate * static_cast<double>(sector_bytes));
            operation.seconds_left =
                static_cast<std::uint64_t>(static_cast<double>(total - done) / rate);
        }
        vd.operation = operation;
    }
    return vd;
}

void Controller::show_pull(Snapshot& snapshot) const {
    for (const auto& vd : snapshot.vds) {
        for (const auto& member : vd.members) {
            const auto drive =
                std::find_if(snapshot.drives.begin(), snapshot.drives.end(),
                             [&](const auto& row) { return row.id == member.drive; });
            if (drive == snapshot.drives.end()) {
                continue;
            }
            drive->state = DriveState::configured;
            drive->status = member.status;
            drive->group = vd.group;
            drive->row = member.row;
            const bool serves =
                member.status == DriveStatus::online || member.status == DriveStatus::rebuild;
            if (member.status == DriveStatus::rebuild) {
                drive->operation = vd.operation;
                drive->pull_reason = fmt::format("v{} is being rebuilt onto it", vd.id);
            } else if (serves && vd.survives == 0) {
                drive->pull_reason = fmt::format("v{} ({}) would go Offline", vd.id, vd.name);
            } else if (serves) {
                drive->pull_reason = fmt::format(
                    "v{} ({}) would become Degraded; set the drive offline first", vd.id, vd.name);
            } else {
                drive->pull_reason = fmt::format("v{} ({}) does not use it now", vd.id, vd.name);
            }
            drive->safe_to_pull = !serves;
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
        drive.pull_reason = used ? found->users.front() : "no VD uses it";
    }
}

std::vector<Problem> Controller::show_problems(const Snapshot& snapshot) const {
    std::vector<Problem> problems;
    if (refusal_) {
        problems.push_back({Severity::fatal, *refusal_, "Perch changes nothing.",
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
            const auto* drive = find_drive(snapshot, member.drive);
            if (member.status == DriveStatus::online || drive == nullptr) {
                continue;
            }
            const auto place = drive->slot < 0
                                   ? fmt::format("the drive with SN {}", drive->serial)
                                   : fmt::format("s{} (SN {})", drive->slot, drive->serial);
            Problem problem{Severity::critical, "", "", ""};
            problem.what =
                fmt::format("{} is Degraded and survives {} more drive failures: {} is {}.", title,
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
                    "Perch waits for you: the drive's content is older than the others'.";
                problem.action = fmt::format("Rebuild it: perchcli {} start rebuild",
                                             controller_of_slot(*drive));
            } else {
                problem.doing = "Perch serves its data from the other drives.";
                problem.action = fmt::format(
                    "Put in a blank drive (or choose an unconfigured one) and rebuild onto it: "
                    "perchcli /c0/e0/s<slot> insert dg={} array=0 row={}",
                    vd.group, member.row);
            }
            problems.push_back(problem);
        }
        if (vd.state == VdState::degraded && !vd.consistent) {
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
            const auto& shown = snapshot.vds.back();
            snapshot.groups.push_back({vd.group, shown.level, shown.size_bytes, shown.members});
        }
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
