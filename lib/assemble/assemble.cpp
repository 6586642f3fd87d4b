// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/assemble.hpp"

#include <algorithm>
#include <map>

namespace perch {

namespace {

/// md writes the superblocks of all members before it goes on, so those of one array differ by at
/// most the one update that a crash interrupted.
constexpr std::uint64_t events_tolerance = 1;

/// `ours` while it has a drive, else the controller most drives belong to; nil without labels.
Uuid our_controller(const std::vector<FoundDrive>& drives, const Uuid& ours) {
    std::map<Uuid, int> votes;
    for (const auto& drive : drives) {
        if (drive.label) {
            ++votes[drive.label->controller];
        }
    }
    if (!ours.is_nil() && votes.contains(ours)) {
        return ours;
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

ChosenConfiguration choose_configuration(const std::vector<FoundDrive>& drives, const Uuid& ours) {
    ChosenConfiguration chosen;
    chosen.configuration.controller = our_controller(drives, ours);
    for (const auto& drive : drives) {
        const bool foreign =
            drive.label && drive.label->controller != chosen.configuration.controller;
        if (drive.trouble && drive.trouble->code == Errc::incompatible && !foreign) {
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

void settle_identities(std::vector<FoundDrive>& drives, const Configuration& configuration) {
    std::map<Uuid, std::vector<FoundDrive*>> by_label;
    for (auto& drive : drives) {
        if (drive.label) {
            by_label[drive.label->drive].push_back(&drive);
        }
    }
    for (const auto& [uuid, holders] : by_label) {
        const auto* known = find_drive(configuration, uuid);
        for (auto* drive : holders) {
            const bool original = known != nullptr && known->identity == drive->identity.identity;
            if (holders.size() > 1 && !original) {
                drive->label.reset();
                drive->configuration.reset();
                drive->trouble = Error{
                    Errc::corrupt,
                    "it carries the label of another drive that is there too: a copy. If it is "
                    "not needed, erase it; it is never used"};
            }
        }
    }
    for (auto& drive : drives) {
        if (!drive.configuration || drive.label->controller != configuration.controller) {
            continue;
        }
        for (const auto& vd : drive.configuration->vds) {
            const bool member =
                std::any_of(vd.members.begin(), vd.members.end(), [&](const auto& row) {
                    return row.drive == drive.label->drive && takes_part(row.state);
                });
            const bool known =
                std::any_of(configuration.vds.begin(), configuration.vds.end(),
                            [&](const auto& other) { return other.uuid == vd.uuid; }) ||
                std::find(configuration.tombstones.begin(), configuration.tombstones.end(),
                          vd.uuid) != configuration.tombstones.end();
            if (member && !known) {
                drive.content = fmt::format(
                    "a member of the VD '{}' of another history of this controller", vd.name);
            }
        }
    }
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
    bool resync_pending = false;
    bool stale_member = false;
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
            // dm-raid resumes a rebuild by its own idea of what is dirty: only with a record that
            // is beyond doubt.
            const bool doubtful =
                !record || record->events != newest || called_failed(vd, records, newest, row);
            if (drive == nullptr) {
                plan.drops.push_back({row, MemberState::missing, "absent during its rebuild"});
            } else {
                // Stale or empty metadata only costs the progress made so far.
                engine = engine_member(
                    member, *drive, doubtful ? MemberRole::rebuild_fresh : role_of(member, record));
            }
        } else if (drive == nullptr) {
            plan.drops.push_back({row, MemberState::missing, "absent"});
        } else if (stale || called_failed(vd, records, newest, row)) {
            plan.drops.push_back(
                {row, MemberState::failed, "its content is older than the others'"});
            stale_member = true;
        } else if (record && !record->rebuilt) {
            plan.drops.push_back({row, MemberState::failed, "its rebuild was never finished"});
        } else {
            engine = engine_member(member, *drive, MemberRole::in_sync);
            ++in_sync;
            resync_pending = resync_pending || (record && record->resync_pending);
            plan.dirty = plan.dirty || (record && record->dirty);
        }
        plan.vd.members.push_back(engine);
    }
    const auto missing = missing_text(configuration, vd, drives);
    if (in_sync + 1 < vd.members.size()) {
        plan.reason = fmt::format(
            "{} of {} members are there and in sync, {} are needed.{} Nothing was changed.{}",
            in_sync, vd.members.size(), vd.members.size() - 1,
            missing.empty() ? "" : fmt::format(" Missing: {}.", missing),
            stale_member ? " A member that is there was recorded as failed by the others; this "
                           "version cannot start without it"
                         : " It starts by itself when they return");
        return plan;
    }
    if (resync_pending && in_sync < vd.members.size()) {
        plan.reason = fmt::format(
            "its parity was not made consistent before it stopped, so all its members are "
            "needed.{} "
            "Nothing was changed. It starts by itself when they return",
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
