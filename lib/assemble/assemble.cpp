// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/assemble.hpp"

#include <algorithm>
#include <map>

namespace perch {

namespace {

/// md writes the superblocks of all members before it goes on, so those of one array differ by at
/// most the one update that a crash interrupted.
constexpr std::uint64_t events_tolerance = 1;

/// The controller most drives belong to; nil when there are no labels.
Uuid our_controller(const std::vector<FoundDrive>& drives) {
    std::map<Uuid, int> votes;
    for (const auto& drive : drives) {
        if (drive.label) {
            ++votes[drive.label->controller];
        }
    }
    // std::map is ordered, and max_element keeps the first of equals: the lower UUID.
    const auto best =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return best == votes.end() ? Uuid{} : best->first;
}

/// Highest event counter among members that the configuration holds to be in sync.
std::uint64_t newest_events(const ConfigVd& vd, const MemberRecords& records) {
    std::uint64_t newest = 0;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        if (vd.members[row].state == MemberState::online && records[row]) {
            newest = std::max(newest, records[row]->events);
        }
    }
    return newest;
}

bool called_failed(const ConfigVd& vd, const MemberRecords& records, std::uint64_t newest,
                   int row) {
    for (std::size_t other = 0; other < vd.members.size(); ++other) {
        const auto& record = records[other];
        if (vd.members[other].state == MemberState::online && record && record->events == newest &&
            std::find(record->failed_rows.begin(), record->failed_rows.end(), row) !=
                record->failed_rows.end()) {
            return true;
        }
    }
    return false;
}

EngineMember engine_member(const ConfigMember& member, const FoundDrive& drive, MemberRole role) {
    return {role,
            member.instance,
            drive.identity.partition_path(),
            member.metadata_offset,
            member.metadata_bytes,
            member.data_offset,
            member.data_bytes};
}

EngineVd without_members(const ConfigVd& vd) {
    return {vd.uuid, vd.name, vd.strip_bytes, vd.vd_bytes, {}};
}

MemberRole role_of(const ConfigMember& member, const std::optional<MemberRecord>& record) {
    if (member.state == MemberState::candidate) {
        return record ? MemberRole::rebuild_continue : MemberRole::rebuild_fresh;
    }
    return MemberRole::in_sync;
}

std::string missing_text(const Configuration& configuration, const ConfigVd& vd,
                         const std::vector<FoundDrive>& drives) {
    std::string text;
    for (const auto& member : vd.members) {
        if (takes_part(member.state) && find_by_uuid(drives, member.drive) == nullptr) {
            const auto* drive = find_drive(configuration, member.drive);
            text += (text.empty() ? "" : ", ") +
                    (drive == nullptr ? member.drive.str() : describe_drive(*drive));
        }
    }
    return text;
}

/// How a VD that never ran, with incomplete records, starts.
AssemblyPlan plan_first_start(const Configuration& configuration, const ConfigVd& vd,
                              const std::vector<FoundDrive>& drives) {
    AssemblyPlan plan;
    plan.vd = without_members(vd);
    plan.reset_metadata = true;
    for (const auto& member : vd.members) {
        const auto* drive = find_by_uuid(drives, member.drive);
        if (drive == nullptr) {
            plan.reason = fmt::format("it never ran and waits for all its members. Missing: {}",
                                      missing_text(configuration, vd, drives));
            return plan;
        }
        plan.vd.members.push_back(engine_member(member, *drive, MemberRole::in_sync));
    }
    plan.readiness = Readiness::complete;
    return plan;
}

}  // namespace

bool takes_part(MemberState state) {
    return state == MemberState::online || state == MemberState::candidate;
}

std::string describe_drive(const ConfigDrive& drive) {
    return drive.slot < 0 ? fmt::format("the drive with SN {}", drive.serial)
                          : fmt::format("s{} (SN {})", drive.slot, drive.serial);
}

const FoundDrive* find_by_uuid(const std::vector<FoundDrive>& drives, const Uuid& uuid) {
    const auto found = std::find_if(drives.begin(), drives.end(), [&](const auto& drive) {
        return drive.answered && drive.label && drive.label->drive == uuid;
    });
    return found == drives.end() ? nullptr : &*found;
}

ChosenConfiguration choose_configuration(const std::vector<FoundDrive>& drives) {
    ChosenConfiguration chosen;
    chosen.configuration.controller = our_controller(drives);
    for (const auto& drive : drives) {
        if (drive.trouble && drive.trouble->code == Errc::incompatible) {
            chosen.refusal = fmt::format("s{} (SN {}): {}", drive.identity.slot,
                                         drive.identity.serial, drive.trouble->message);
        }
        if (!drive.configuration || !drive.label ||
            drive.label->controller != chosen.configuration.controller ||
            drive.configuration->controller != chosen.configuration.controller) {
            continue;
        }
        auto& newest = chosen.configuration;
        if (newest.id.is_nil() || drive.configuration->sequence > newest.sequence) {
            newest = *drive.configuration;
        }
    }
    for (const auto& drive : drives) {
        if (drive.configuration &&
            drive.configuration->controller == chosen.configuration.controller &&
            drive.configuration->sequence == chosen.configuration.sequence &&
            drive.configuration->id != chosen.configuration.id) {
            chosen.refusal = fmt::format(
                "the drives carry two different configurations with the number {}; nothing is "
                "started. Remove the drives whose state is not wanted",
                drive.configuration->sequence);
        }
    }
    return chosen;
}

AssemblyPlan plan_assembly(const Configuration& configuration, const ConfigVd& vd,
                           const std::vector<FoundDrive>& drives, const MemberRecords& records) {
    if (!vd.started && std::find(records.begin(), records.end(), std::nullopt) != records.end()) {
        return plan_first_start(configuration, vd, drives);
    }
    AssemblyPlan plan;
    plan.vd = without_members(vd);
    const auto newest = newest_events(vd, records);
    std::size_t in_sync = 0;
    for (std::size_t i = 0; i < vd.members.size(); ++i) {
        const auto& member = vd.members[i];
        const auto row = static_cast<int>(i);
        const auto* drive = find_by_uuid(drives, member.drive);
        const auto& record = records[i];
        EngineMember engine;
        engine.instance = member.instance;
        if (!takes_part(member.state)) {
            plan.vd.members.push_back(engine);
            continue;
        }
        const bool stale = newest > 0 && (!record || record->events + events_tolerance < newest);
        if (member.state == MemberState::candidate) {
            if (drive == nullptr) {
                plan.drops.push_back({row, MemberState::missing, "absent during its rebuild"});
            } else {
                // Stale or empty metadata only costs the progress made so far.
                engine = engine_member(member, *drive,
                                       stale ? MemberRole::rebuild_fresh : role_of(member, record));
            }
        } else if (drive == nullptr) {
            plan.drops.push_back({row, MemberState::missing, "absent"});
        } else if (stale || called_failed(vd, records, newest, row)) {
            plan.drops.push_back(
                {row, MemberState::failed, "its content is older than the others'"});
        } else if (record && !record->rebuilt) {
            plan.drops.push_back({row, MemberState::failed, "its rebuild was never finished"});
        } else {
            engine = engine_member(member, *drive, MemberRole::in_sync);
            ++in_sync;
        }
        plan.vd.members.push_back(engine);
    }
    if (in_sync + 1 < vd.members.size()) {
        const auto missing = missing_text(configuration, vd, drives);
        plan.readiness = Readiness::impossible;
        plan.reason = fmt::format(
            "{} of {} members are there and in sync, {} are needed.{} Nothing was changed; it "
            "starts by itself when they return",
            in_sync, vd.members.size(), vd.members.size() - 1,
            missing.empty() ? "" : fmt::format(" Missing: {}.", missing));
        return plan;
    }
    plan.readiness = plan.drops.empty() ? Readiness::complete : Readiness::degraded;
    for (const auto& drop : plan.drops) {
        const auto* drive =
            find_drive(configuration, vd.members[static_cast<std::size_t>(drop.row)].drive);
        plan.reason +=
            fmt::format("{}{}: {}", plan.reason.empty() ? "" : "; ",
                        drive == nullptr ? "a member" : describe_drive(*drive), drop.reason);
    }
    return plan;
}

EngineVd engine_vd(const ConfigVd& vd, const std::vector<FoundDrive>& drives,
                   const MemberRecords& records) {
    auto result = without_members(vd);
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        const auto* drive = takes_part(member.state) ? find_by_uuid(drives, member.drive) : nullptr;
        EngineMember engine;
        engine.instance = member.instance;
        if (drive != nullptr) {
            engine = engine_member(member, *drive, role_of(member, records[row]));
        }
        result.members.push_back(engine);
    }
    return result;
}

}  // namespace perch
