// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/assemble.hpp"

#include <algorithm>

namespace perch {

namespace {

/// md writes the superblocks of all members before it goes on, so those of one array differ by at
/// most the one update that a crash interrupted.
constexpr std::uint64_t events_tolerance = 1;

/// The rows of one array of the engine.
struct SpanRows {
    std::size_t first = 0;
    std::size_t count = 0;
    [[nodiscard]] std::size_t end() const { return first + count; }
};

/// RAID10's spans are one array to the engine.
std::vector<SpanRows> spans_of(const RaidShape& shape) {
    const auto members = static_cast<std::size_t>(shape.members);
    if (shape.level == RaidLevel::raid10) {
        return {{0, members}};
    }
    std::vector<SpanRows> spans;
    const auto count = static_cast<std::size_t>(shape.per_span);
    for (std::size_t first = 0; first < members; first += count) {
        spans.push_back({first, count});
    }
    return spans;
}

SpanRows span_of(const RaidShape& shape, std::size_t row) {
    for (const auto& span : spans_of(shape)) {
        if (row >= span.first && row < span.end()) {
            return span;
        }
    }
    return {};
}

/// Highest event counter among members of a span that the configuration holds to be in sync.
std::uint64_t newest_events(const ConfigVd& vd, const MemberRecords& records, SpanRows span) {
    std::uint64_t newest = 0;
    for (auto row = span.first; row < span.end(); ++row) {
        if (vd.members[row].state == MemberState::online && records[row].record) {
            newest = std::max(newest, records[row].record->events);
        }
    }
    return newest;
}

/// Whether a newest record of the span says that the row has failed.
bool called_failed(const ConfigVd& vd, const MemberRecords& records, SpanRows span,
                   std::size_t row) {
    const auto newest = newest_events(vd, records, span);
    for (auto other = span.first; other < span.end(); ++other) {
        const auto& record = records[other].record;
        if (vd.members[other].state == MemberState::online && record && record->events == newest &&
            std::find(record->failed_rows.begin(), record->failed_rows.end(),
                      static_cast<int>(row - span.first)) != record->failed_rows.end()) {
            return true;
        }
    }
    return false;
}

EngineMember engine_member(const ConfigMember& member, const FoundDrive& drive, MemberRole role) {
    return {role, member.instance, drive.identity.partition_path(), member.extents};
}

EngineVd without_members(const ConfigVd& vd) {
    return {vd.uuid,         vd.name,     vd.engine, shape_of(vd), vd.strip_bytes, vd.block_bytes,
            vd.region_bytes, vd.vd_bytes, {}};
}

MemberRole role_of(const ConfigMember& member, const MemberEvidence& evidence) {
    if (member.state == MemberState::candidate) {
        return evidence.record ? MemberRole::rebuild_continue : MemberRole::rebuild_fresh;
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

/// Why nobody may start the VD at all; empty when somebody may.
std::string forbidden(const ConfigVd& vd, const MemberRecords& records) {
    for (const auto& evidence : records) {
        const auto& superblock = evidence.superblock;
        if (!superblock || superblock->vd != vd.uuid) {
            continue;
        }
        if (superblock->tombstone) {
            return "a member says that it was deleted. Nothing was changed. Delete it";
        }
        if (superblock->owner != vd.engine) {
            return fmt::format(
                "its members belong to the engine {}, and the configuration says {}. Nothing was "
                "changed. Find out who changed it",
                to_string(superblock->owner), to_string(vd.engine));
        }
    }
    return "";
}

enum class Trust { in_sync, rebuild, absent, stale, unfinished, spoilt, out };

/// Whether its superblock is not that of its assignment.
bool is_spoilt(const ConfigVd& vd, const MemberRecords& records, std::size_t row) {
    const auto& superblock = records[row].superblock;
    return !superblock || superblock->vd != vd.uuid ||
           superblock->instance != vd.members[row].instance;
}

/// How far a member is to be believed, on dm-raid.
Trust judge(const ConfigVd& vd, const MemberRecords& records, SpanRows span, std::size_t row,
            bool present) {
    const auto& member = vd.members[row];
    const auto& record = records[row].record;
    if (!takes_part(member.state)) {
        return Trust::out;
    }
    if (!present) {
        return Trust::absent;
    }
    if (member.state == MemberState::candidate) {
        return Trust::rebuild;
    }
    if (vd.started && is_spoilt(vd, records, row)) {
        return Trust::spoilt;
    }
    if (!is_redundant(vd.level)) {
        return Trust::in_sync;
    }
    const auto newest = newest_events(vd, records, span);
    if (newest > 0 && !record) {
        return Trust::spoilt;
    }
    if ((record && record->events + events_tolerance < newest) ||
        called_failed(vd, records, span, row)) {
        return Trust::stale;
    }
    return record && !record->rebuilt ? Trust::unfinished : Trust::in_sync;
}

/// How far each member is to be believed, on Perch's own target. `plan` learns whether it was
/// stopped in order, and why nobody may start it.
std::vector<Trust> judge_by_epoch(const ConfigVd& vd, const MemberRecords& records,
                                  const std::vector<bool>& present, AssemblyPlan& plan) {
    std::vector<std::optional<SuperblockCopies>> found(vd.members.size());
    for (std::size_t row = 0; row < found.size(); ++row) {
        if (takes_part(vd.members[row].state) && present[row] && !is_spoilt(vd, records, row)) {
            found[row] = records[row].copies;
        }
    }
    const auto membership = find_membership(vd.uuid, found);
    if (membership.two_histories) {
        plan.reason =
            "its members ran apart from each other: each side was used without the other. Nothing "
            "was changed. Take the drives out whose content is not to count";
    }
    plan.dirty = vd.started && is_redundant(vd.level) && !membership.clean;
    std::vector<Trust> trust;
    for (std::size_t row = 0; row < found.size(); ++row) {
        const auto& state = membership.states[row];
        trust.push_back(!takes_part(vd.members[row].state) ? Trust::out
                        : !present[row]                    ? Trust::absent
                        : !state                           ? Trust::spoilt
                        : state == SyncState::in_sync      ? Trust::in_sync
                        : state == SyncState::rebuilding   ? Trust::rebuild
                                                           : Trust::stale);
    }
    return trust;
}

MemberRole rebuild_role(const ConfigVd& vd, const MemberRecords& records, SpanRows span,
                        std::size_t row) {
    // dm-raid resumes a rebuild by its own idea of what is dirty: only with a record that is beyond
    // doubt. Stale or empty metadata only costs the progress made so far.
    const auto& record = records[row].record;
    const bool doubtful = !record || record->events != newest_events(vd, records, span) ||
                          called_failed(vd, records, span, row);
    return doubtful ? MemberRole::rebuild_fresh : MemberRole::rebuild_continue;
}

std::optional<Drop> drop_of(const ConfigVd& vd, std::size_t row, Trust trust) {
    const auto place = static_cast<int>(row);
    switch (trust) {
        case Trust::absent:
            return Drop{place, MemberState::missing,
                        vd.members[row].state == MemberState::candidate
                            ? "absent during its rebuild"
                            : "absent"};
        case Trust::stale:
            return Drop{place, MemberState::failed, "its content is older than the others'"};
        case Trust::unfinished:
            return Drop{place, MemberState::failed, "its rebuild was never finished"};
        case Trust::spoilt:
            // The drive itself may be as good as new: something wrote over its beginning.
            return Drop{place, MemberState::offline, "its metadata is not that of this member"};
        default:
            return std::nullopt;
    }
}

/// After more members were lost than the span survives: which of those that are called failed were
/// lost last, so that the span is again what it was when it stopped. Empty when that cannot be
/// told.
std::vector<std::size_t> lost_last(const ConfigVd& vd, const MemberRecords& records, SpanRows span,
                                   const std::vector<Trust>& trust) {
    std::uint64_t newest = 0;
    for (auto row = span.first; row < span.end(); ++row) {
        if (trust[row] == Trust::stale && records[row].record && records[row].record->rebuilt) {
            newest = std::max(newest, records[row].record->events);
        }
    }
    std::vector<std::size_t> last;
    std::vector<bool> without_failed(vd.members.size(), false);
    for (auto row = span.first; row < span.end(); ++row) {
        const auto& record = records[row].record;
        if (trust[row] == Trust::stale && record && record->rebuilt && record->events == newest) {
            last.push_back(row);
        }
        // Whoever is absent may have stayed on after them.
        without_failed[row] = trust[row] != Trust::in_sync && trust[row] != Trust::absent;
    }
    auto lost = without_failed;
    for (auto row = span.first; row < span.end(); ++row) {
        lost[row] = trust[row] != Trust::in_sync;
    }
    for (const auto row : last) {
        lost[row] = false;
    }
    const auto shape = shape_of(vd);
    const bool enough = readable(shape, lost) && !readable(shape, without_failed);
    return enough ? last : std::vector<std::size_t>();
}

/// Takes back the members that were lost last, where a span cannot be read without them.
void revive(const ConfigVd& vd, const MemberRecords& records, std::vector<Trust>& trust,
            AssemblyPlan& plan) {
    const auto shape = shape_of(vd);
    for (const auto& span : spans_of(shape)) {
        std::vector<bool> lost(vd.members.size(), false);
        for (auto row = span.first; row < span.end(); ++row) {
            lost[row] = trust[row] != Trust::in_sync;
        }
        if (readable(shape, lost)) {
            continue;
        }
        const auto last = lost_last(vd, records, span, trust);
        if (last.empty()) {
            continue;
        }
        for (const auto row : last) {
            trust[row] = Trust::in_sync;
        }
        std::vector<int> failed;
        for (auto row = span.first; row < span.end(); ++row) {
            if (trust[row] != Trust::in_sync) {
                failed.push_back(static_cast<int>(row - span.first));
            }
        }
        for (auto row = span.first; row < span.end(); ++row) {
            if (trust[row] == Trust::in_sync) {
                plan.rewrites.push_back(
                    {static_cast<int>(row), newest_events(vd, records, span) + 1, failed});
            }
        }
        // Writes were under way when it stopped.
        plan.dirty = true;
    }
}

std::vector<Trust> judge_members(const ConfigVd& vd, const MemberRecords& records,
                                 const std::vector<FoundDrive>& drives, AssemblyPlan& plan) {
    std::vector<bool> present;
    for (const auto& member : vd.members) {
        present.push_back(find_by_uuid(drives, member.drive) != nullptr);
    }
    if (vd.engine == EngineKind::perch) {
        return judge_by_epoch(vd, records, present, plan);
    }
    std::vector<Trust> trust;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        trust.push_back(judge(vd, records, span_of(shape_of(vd), row), row, present[row]));
    }
    revive(vd, records, trust, plan);
    return trust;
}

std::string not_enough_text(const Configuration& configuration, const ConfigVd& vd,
                            const std::vector<FoundDrive>& drives,
                            const std::vector<Trust>& trust) {
    const auto missing = missing_text(configuration, vd, drives);
    const auto in_sync = std::count(trust.begin(), trust.end(), Trust::in_sync);
    std::string stale;
    for (std::size_t row = 0; row < trust.size(); ++row) {
        const auto* drive = find_drive(configuration, vd.members[row].drive);
        const auto drop = drop_of(vd, row, trust[row]);
        if (drop && trust[row] != Trust::absent && drive != nullptr) {
            stale += fmt::format("{}{}: {}", stale.empty() ? " Not used: " : "; ",
                                 describe_drive(*drive), drop->reason);
        }
    }
    return fmt::format(
        "{} of {} members are there and in sync, too few for {}.{}{} Nothing was changed. It "
        "starts "
        "by itself when those that were there last return",
        in_sync, vd.members.size(), to_string(vd.level),
        missing.empty() ? "" : fmt::format(" Missing: {}.", missing),
        stale.empty() ? "" : stale + ".");
}

}  // namespace

bool takes_part(MemberState state) {
    return state == MemberState::online || state == MemberState::candidate;
}

std::string describe_drive(const ConfigDrive& drive) {
    return drive.slot < 0 ? fmt::format("the drive with SN {}", drive.serial)
                          : fmt::format("s{} (SN {})", drive.slot, drive.serial);
}

std::string bay(const FoundDrive& drive) {
    return fmt::format("s{} (SN {})", drive.identity.slot, drive.identity.serial);
}

const FoundDrive* find_by_uuid(const std::vector<FoundDrive>& drives, const Uuid& uuid) {
    const auto found = std::find_if(drives.begin(), drives.end(), [&](const auto& drive) {
        return drive.answered && drive.label && drive.label->drive == uuid;
    });
    return found == drives.end() ? nullptr : &*found;
}

AssemblyPlan plan_assembly(const Configuration& configuration, const ConfigVd& vd,
                           const std::vector<FoundDrive>& drives, const MemberRecords& records) {
    AssemblyPlan plan;
    plan.vd = without_members(vd);
    if (plan.reason = forbidden(vd, records); !plan.reason.empty()) {
        return plan;
    }
    const bool recordless =
        is_redundant(vd.level) &&
        std::any_of(records.begin(), records.end(), [](const auto& row) { return !row.record; });
    if (vd.engine == EngineKind::dm_raid && !vd.started && recordless) {
        return plan_first_start(configuration, vd, drives);
    }
    const auto shape = shape_of(vd);
    const auto trust = judge_members(vd, records, drives, plan);
    if (!plan.reason.empty()) {
        return plan;
    }
    std::vector<bool> lost;
    bool resync_pending = false;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        const auto* drive = find_by_uuid(drives, member.drive);
        EngineMember engine;
        engine.instance = member.instance;
        if (trust[row] == Trust::in_sync) {
            engine = engine_member(member, *drive, MemberRole::in_sync);
            const auto& record = records[row].record;
            resync_pending = resync_pending || (record && record->resync_pending);
            plan.dirty = plan.dirty || (record && record->dirty);
        } else if (trust[row] == Trust::rebuild) {
            engine =
                engine_member(member, *drive, rebuild_role(vd, records, span_of(shape, row), row));
        } else if (auto drop = drop_of(vd, row, trust[row])) {
            plan.drops.push_back(std::move(*drop));
        }
        lost.push_back(trust[row] != Trust::in_sync);
        plan.vd.members.push_back(engine);
    }
    if (!readable(shape, lost)) {
        plan.reason = not_enough_text(configuration, vd, drives, trust);
        return plan;
    }
    if (resync_pending && has_parity(vd.level) &&
        std::find(lost.begin(), lost.end(), true) != lost.end()) {
        const auto missing = missing_text(configuration, vd, drives);
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
