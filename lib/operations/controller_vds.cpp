// SPDX-License-Identifier: GPL-2.0-or-later
// Makes VDs run as the configuration says: starts, drops, confirmations, parity, checks,
// initializations. The crash argument is in controller.hpp.
#include <algorithm>

#include "operations/controller.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

/// What is zeroed of each member's data at create and delete: no old signature shows through.
constexpr std::uint64_t wiped_bytes = MiB;

/// dm-raid's status shows a rebuild as done a moment before it is recorded (dm-raid.md 5.2); only
/// the member's own record confirms it. Perch's own target calls a member in sync once the epoch
/// that says so is durable.
bool rebuild_proven(EngineKind engine, const EngineStatus& status, std::size_t row,
                    const MemberEvidence& evidence) {
    if (engine == EngineKind::perch) {
        return status.members[row] == MemberHealth::in_sync;
    }
    return status.task == EngineTask::none && status.members[row] == MemberHealth::in_sync &&
           evidence.record && evidence.record->rebuilt;
}

/// Who is in sync when the VD is created: all. A member that is put in its place later is of no
/// epoch yet, and of nobody else's: the target rebuilds it. While dm-raid runs the VD, who is in
/// sync is dm-raid's to say (kmod/uapi/perch_format.h).
std::vector<SuperblockMember> first_members(const ConfigVd& vd, std::size_t row, bool first) {
    std::vector<SuperblockMember> members;
    if (vd.engine == EngineKind::dm_raid) {
        members.push_back({vd.members[row].instance, static_cast<std::uint32_t>(row),
                           SyncState::in_sync, false, 0});
        return members;
    }
    for (std::size_t other = 0; other < vd.members.size(); ++other) {
        members.push_back({first ? vd.members[other].instance : Uuid{},
                           static_cast<std::uint32_t>(other),
                           first ? SyncState::in_sync : SyncState::absent, false, 0});
    }
    return members;
}

/// What Perch writes in a member's superblock: whose it is, and which assignment.
Superblock superblock_of(const Uuid& controller, const ConfigVd& vd, std::size_t row,
                         bool tombstone) {
    const auto& member = vd.members[row];
    Superblock superblock;
    superblock.vd = vd.uuid;
    superblock.instance = member.instance;
    superblock.controller = controller;
    const bool first = vd.engine == EngineKind::dm_raid || member.state != MemberState::candidate;
    superblock.epoch = first ? Epoch{1, vd.uuid, {}} : Epoch{};
    superblock.row = static_cast<std::uint32_t>(row);
    superblock.shape = shape_of(vd);
    superblock.owner = vd.engine;
    superblock.tombstone = tombstone;
    superblock.strip_bytes = static_cast<std::uint32_t>(vd.strip_bytes);
    superblock.block_bytes = vd.block_bytes;
    superblock.data_bytes = find_extent(member, ExtentType::data)->bytes;
    superblock.data_offset = find_extent(member, ExtentType::data)->offset;
    superblock.vd_bytes = vd.vd_bytes;
    superblock.region_bytes = vd.region_bytes;
    superblock.members = first_members(vd, row, first);
    return superblock;
}

/// Spares of a drive group that is no more are free drives again.
void drop_spares_of(Configuration& configuration, int group) {
    for (auto& drive : configuration.drives) {
        std::erase(drive.spare_for, group);
        if (drive.role == DriveRole::dedicated_spare && drive.spare_for.empty()) {
            drive.role = DriveRole::none;
        }
    }
}

}  // namespace

void Controller::refresh_vd(int id) {
    const auto* vd = find_vd(configuration_, id);
    const auto uuid = vd->uuid;
    if (vd->deleting) {
        if (auto done = finish_delete(id); !done) {
            runtimes_[uuid].reason = "its deletion waits: " + done.error().message;
        }
        return;
    }
    auto& runtime = runtimes_[uuid];
    const auto status = engine_.status(uuid);
    if (!status) {
        runtime.status.reset();
        runtime.reason = status.error().message;
        note_state(*vd);
        return;
    }
    runtime.status = *status;
    runtime.reason.clear();
    if (runtime.status) {
        reconcile_running(id);
        restart_dead(id);
    } else if (history_.diverged.contains(vd->group)) {
        runtime.reason =
            "its members went two ways: each side was used without the other. Nothing was changed. "
            "See 'perchcli /c0/fall show' and import the side that counts";
    } else {
        try_start(id);
    }
    if (runtime.status) {
        reconcile_parity(id);
        reconcile_check(id);
        reconcile_init(id);
    }
    update_progress(runtime);
    note_state(*find_vd(configuration_, id));
}

/// What the members say of themselves. One whose metadata is spoilt or cannot be read says nothing;
/// it is not trusted then, and does not hold up the others.
Result<MemberRecords> Controller::read_records(const ConfigVd& vd) {
    const auto says_nothing = [](const Error& error) {
        return error.code == Errc::corrupt || error.code == Errc::io;
    };
    MemberRecords records(vd.members.size());
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr || !takes_part(member.state)) {
            continue;
        }
        const auto base = drive->label->partition.offset;
        const auto* superblock = find_extent(member, ExtentType::superblock);
        auto found = access_.read_superblock(drive->identity, base + superblock->offset);
        if (found) {
            records[row].superblock = std::move(*found);
        } else if (!says_nothing(found.error())) {
            return fail_with(bay(*drive), found.error());
        }
        if (vd.engine == EngineKind::perch) {
            for (unsigned copy = 0; copy < PERCH_SUPERBLOCK_COPIES; ++copy) {
                auto raw =
                    access_.read(drive->identity,
                                 base + superblock->offset + copy * PERCH_SUPERBLOCK_COPY_STRIDE,
                                 PERCH_SUPERBLOCK_BYTES);
                records[row].copies.at(copy) = raw ? std::move(*raw) : Bytes();
            }
            continue;
        }
        if (!is_redundant(vd.level)) {
            continue;
        }
        const auto* metadata = find_extent(member, ExtentType::dm_raid);
        const auto length = std::min(engine_.record_bytes(), metadata->bytes);
        auto record = access_.read(drive->identity, base + metadata->offset, length)
                          .and_then([&](const Bytes& raw) { return engine_.decode_record(raw); });
        if (record) {
            records[row].record = std::move(*record);
        } else if (!says_nothing(record.error())) {
            return fail_with(bay(*drive), record.error());
        }
    }
    return records;
}

void Controller::try_start(int id) {
    const auto vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    auto records = read_records(vd);
    if (!records) {
        runtime.reason = records.error().message;
        return;
    }
    runtime.records = std::move(*records);
    const auto plan = plan_assembly(configuration_, vd, drives_, runtime.records);
    runtime.reason = plan.reason;
    if (plan.readiness == Readiness::impossible) {
        return;
    }
    if (plan.readiness == Readiness::degraded) {
        const auto left = last_arrival_ + policy_.degraded_wait_seconds - clock_.steady_seconds();
        if (!policy_.start_degraded || left > 0) {
            runtime.reason += policy_.start_degraded
                                  ? fmt::format("; it starts degraded in {:.0f} s", left)
                                  : "; a degraded start is not allowed here";
            return;
        }
    }
    start_vd(id, plan);
}

/// Starts a VD by its plan. What the plan says is durable before the first write: whoever was away
/// must never be believed again, and an unclean stop is not forgotten before parity is right.
void Controller::start_vd(int id, const AssemblyPlan& plan) {
    const auto vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    auto next = configuration_;
    auto& changed = *find_vd(next, id);
    for (const auto& drop : plan.drops) {
        changed.members[static_cast<std::size_t>(drop.row)].state = drop.state;
    }
    changed.needs_resync = changed.needs_resync || plan.dirty;
    if (!(next == configuration_)) {
        if (auto done = commit(next); !done) {
            runtime.reason = "cannot record its start: " + done.error().message;
            return;
        }
    }
    if (auto done = prepare_start(vd, plan); !done) {
        runtime.reason = done.error().message;
        return;
    }
    runtime.resync_seen = false;
    runtime.resync_asked.reset();
    if (auto done = engine_.apply(plan.vd); !done) {
        runtime.reason = done.error().message;
        // It never ran without them: what was recorded for that is taken back.
        auto undo = configuration_;
        *find_vd(undo, id) = vd;
        if (!(undo == configuration_)) {
            if (auto undone = commit(undo); !undone) {
                runtime.reason += ". " + undone.error().message;
            }
        }
        return;
    }
    const auto status = engine_.status(vd.uuid);
    if (!status || !*status) {
        runtime.reason = status ? "it stopped as soon as it was started" : status.error().message;
        return;
    }
    runtime.status = *status;
    runtime.reason.clear();
    if (plan.readiness == Readiness::degraded) {
        events_.emit(
            EventKind::vd_started_degraded,
            fmt::format("{} was started degraded ({}). It survives {} more drive failures. "
                        "Replace the drive or bring it back, then start its rebuild.",
                        vd_title(vd), plan.reason, survives(*find_vd(configuration_, id))));
    } else {
        events_.emit(EventKind::vd_started, fmt::format("{} was started.", vd_title(vd)));
    }
    if (plan.dirty) {
        events_.emit(EventKind::vd_unclean,
                     fmt::format("{} was not stopped cleanly: its {}.", vd_title(vd),
                                 has_parity(vd.level)
                                     ? "parity is recomputed. Until that is done a lost drive can "
                                       "cost data"
                                     : "mirrors are made equal again"));
    }
    reconcile_running(id);
}

/// What must be on the members before the engine sees them.
Result<void> Controller::prepare_start(const ConfigVd& vd, const AssemblyPlan& plan) {
    if (plan.reset_metadata) {
        for (const auto& member : vd.members) {
            if (auto done = zero_extents(member, {ExtentType::dm_raid}); !done) {
                return done;
            }
        }
    }
    for (const auto& rewrite : plan.rewrites) {
        const auto& member = vd.members[static_cast<std::size_t>(rewrite.row)];
        const auto* drive = find_by_uuid(drives_, member.drive);
        const auto place =
            drive->label->partition.offset + find_extent(member, ExtentType::dm_raid)->offset;
        auto done = access_.read(drive->identity, place, engine_.record_bytes())
                        .and_then([&](const Bytes& raw) {
                            return engine_.rewrite_record(raw, rewrite.events, rewrite.failed_rows);
                        })
                        .and_then([&](const Bytes& record) {
                            return access_.write(drive->identity, member.drive, place, record);
                        });
        if (!done) {
            return fail_with(bay(*drive), done.error());
        }
    }
    if (!plan.rewrites.empty()) {
        events_.emit(EventKind::vd_unclean,
                     fmt::format("{} had lost more members than it survives. It is started again "
                                 "from those that were there last; check what was being written "
                                 "when it stopped.",
                                 vd_title(vd)));
    }
    return {};
}

/// A VD that lost too many members serves nothing any more, and the kernel does not take them back.
/// When they are there again, and nobody has it open, it is stopped and started from them.
void Controller::restart_dead(int id) {
    const auto vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (vd_state(vd) != VdState::offline || !runtime.status) {
        return;
    }
    const auto records = read_records(vd);
    if (!records ||
        plan_assembly(configuration_, vd, drives_, *records).readiness == Readiness::impossible) {
        return;
    }
    if (runtime.status->open_count > 0) {
        runtime.reason +=
            ". Enough members are back, but it is in use: unmount it, so that it can "
            "be started again";
        return;
    }
    if (auto stopped = engine_.stop(vd.uuid); !stopped) {
        runtime.reason += ". It cannot be stopped: " + stopped.error().message;
        return;
    }
    runtime.status.reset();
    try_start(id);
}

/// Parity (or mirrors) not known to match is recomputed as soon as all members are there, and
/// counts as known only when that was seen to run to its end. (dm-raid does not do it by itself
/// after a crash; Perch's own target does, and says when it is done.)
void Controller::reconcile_parity(int id) {
    const auto& vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (!vd.needs_resync || !runtime.status) {
        return;
    }
    if (runtime.status->synced) {
        if (*runtime.status->synced) {
            note_synced(id);
        }
        return;
    }
    if (vd_state(vd) != VdState::optimal) {
        runtime.resync_seen = false;
        runtime.resync_asked.reset();
        return;
    }
    constexpr double unseen_resync_seconds = 10;  // so short that no look fell into it
    const auto now = clock_.steady_seconds();
    if (runtime.status->task == EngineTask::resync) {
        runtime.resync_seen = true;
        return;
    }
    if (runtime.status->task != EngineTask::none) {
        return;
    }
    if (!runtime.resync_seen && !runtime.resync_asked) {
        if (auto asked = engine_.request_resync(vd.uuid); !asked) {
            runtime.reason = "its parity cannot be recomputed: " + asked.error().message;
            return;
        }
        runtime.resync_asked = now;
        const auto status = engine_.status(vd.uuid);
        runtime.resync_seen = status && *status && (*status)->task == EngineTask::resync;
        return;
    }
    if (!runtime.resync_seen && now - *runtime.resync_asked < unseen_resync_seconds) {
        return;
    }
    const auto records = read_records(vd);
    const bool pending =
        !records || std::any_of(records->begin(), records->end(), [](const auto& record) {
            return !record.record || record.record->resync_pending;
        });
    if (pending) {
        runtime.resync_seen = false;
        runtime.resync_asked.reset();
        return;
    }
    note_synced(id);
}

void Controller::note_synced(int id) {
    auto next = configuration_;
    find_vd(next, id)->needs_resync = false;
    if (auto done = commit(next); !done) {
        runtimes_[find_vd(configuration_, id)->uuid].reason = done.error().message;
        return;
    }
    events_.emit(EventKind::resync_done,
                 fmt::format("The resync of {} is done: its {} everywhere.",
                             vd_title(*find_vd(configuration_, id)),
                             has_parity(find_vd(configuration_, id)->level) ? "parity matches"
                                                                            : "mirrors are equal"));
}

/// Follows a check from its start, whoever started it, to its end and tells what it found.
void Controller::reconcile_check(int id) {
    const auto& vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (runtime.status->task == EngineTask::check) {
        runtime.check_seen = true;
        runtime.mismatches.reset();
        return;
    }
    if (!runtime.check_seen || runtime.status->task != EngineTask::none) {
        return;
    }
    runtime.check_seen = false;
    runtime.mismatches = runtime.status->mismatches;
    if (*runtime.mismatches == 0) {
        events_.emit(
            EventKind::check_done,
            fmt::format("The consistency check of {} is done: everything matches.", vd_title(vd)));
    } else {
        events_.emit(EventKind::check_mismatches,
                     fmt::format("The consistency check of {} is done: {} sectors do not match. "
                                 "Nothing was changed. Check the drives' health and the data.",
                                 vd_title(vd), *runtime.mismatches));
    }
}

/// Carries an initialization on after a restart, and notes how far it came.
void Controller::reconcile_init(int id) {
    const auto vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (!vd.initialized) {
        return;
    }
    if (!runtime.status->init) {
        if (auto done = engine_.start_init(vd.uuid, *vd.initialized); !done) {
            runtime.reason = "its initialization cannot go on: " + done.error().message;
        }
        return;
    }
    constexpr std::uint64_t steps = 16;  // how often, at most, the configuration is written for it
    const auto& init = *runtime.status->init;
    auto next = configuration_;
    auto& changed = *find_vd(next, id);
    if (init.running) {
        if (init.done_bytes < *vd.initialized + vd.vd_bytes / steps) {
            return;
        }
        changed.initialized = init.done_bytes;
    } else {
        changed.initialized.reset();
    }
    if (auto done = commit(next); !done) {
        runtime.reason = done.error().message;
        return;
    }
    if (init.running) {
        return;
    }
    const auto ended = engine_.stop_task(vd.uuid);
    if (init.done_bytes == vd.vd_bytes && ended) {
        events_.emit(
            EventKind::init_done,
            fmt::format("The initialization of {} is done: it reads zeros.", vd_title(vd)));
    } else {
        events_.emit(EventKind::init_stopped,
                     fmt::format("The initialization of {} failed at {}: writing to it failed.",
                                 vd_title(vd), format_size(init.done_bytes)));
    }
}

void Controller::reconcile_running(int id) {
    auto next = configuration_;
    auto& vd = *find_vd(next, id);
    auto& runtime = runtimes_[vd.uuid];
    const auto& status = *runtime.status;
    const bool candidates = vd.engine == EngineKind::dm_raid &&
                            std::any_of(vd.members.begin(), vd.members.end(), [](const auto& row) {
                                return row.state == MemberState::candidate;
                            });
    auto records = candidates ? read_records(vd) : MemberRecords(vd.members.size());
    if (!records) {
        runtime.reason = records.error().message;
        return;
    }
    runtime.records = std::move(*records);
    if (status.members.size() != vd.members.size()) {
        runtime.reason = "the kernel runs it with another number of members than configured";
        return;
    }
    vd.started = true;
    // One loss too many is not recorded: the last in-sync set must stay recognisable.
    const bool enough = readable(shape_of(vd), lost_rows(vd));
    std::vector<std::pair<EventKind, std::string>> notes;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        auto& member = vd.members[row];
        const auto health = status.members[row];
        const auto title = drive_title(member.drive);
        if (!takes_part(member.state)) {
            continue;
        }
        if (is_gone(member.drive)) {
            if (enough) {
                member.state = MemberState::missing;
                notes.emplace_back(
                    EventKind::drive_removed,
                    fmt::format("{} is gone and was dropped from {}.", title, vd_title(vd)));
            }
        } else if (health == MemberHealth::failed) {
            if (enough) {
                member.state = MemberState::failed;
                notes.emplace_back(
                    EventKind::drive_failed,
                    fmt::format("{} failed: the kernel dropped it from {} for errors. Replace it.",
                                title, vd_title(vd)));
                for (auto& drive : next.drives) {
                    drive.failed = drive.failed || drive.uuid == member.drive;
                }
            }
        } else if (member.state == MemberState::candidate &&
                   rebuild_proven(vd.engine, status, row, runtime.records[row])) {
            member.state = MemberState::online;
            notes.emplace_back(
                EventKind::rebuild_done,
                fmt::format("The rebuild of {} onto {} is done.", vd_title(vd), title));
        }
    }
    if (!(next == configuration_)) {
        if (auto done = commit(next); !done) {
            runtime.reason = done.error().message;
            return;
        }
        for (const auto& [kind, text] : notes) {
            events_.emit(kind, text);
        }
    }
    if (!status.trouble.empty()) {
        runtime.reason = status.trouble;
        return;
    }
    if (!enough) {
        runtime.reason = fmt::format(
            "more members are gone than {} survives. Bring back the drives that were "
            "there last; nothing more is recorded until then",
            to_string(vd.level));
        return;
    }
    const auto& now = *find_vd(configuration_, id);
    const bool unreadable =
        std::any_of(now.members.begin(), now.members.end(), [&](const auto& row) {
            return takes_part(row.state) && find_by_uuid(drives_, row.drive) == nullptr;
        });
    if (unreadable) {
        runtime.reason = "a member's metadata cannot be read now; the kernel goes on with it";
        return;
    }
    if (auto done = apply(id); !done) {
        runtime.reason = done.error().message;
    }
}

/// Makes the engine run what the configuration says and looks at the result.
Result<void> Controller::apply(int id) {
    const auto& vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (runtime.records.size() != vd.members.size()) {
        auto records = read_records(vd);
        if (!records) {
            return tl::make_unexpected(records.error());
        }
        runtime.records = std::move(*records);
    }
    if (auto done = engine_.apply(engine_vd(vd, drives_, runtime.records)); !done) {
        return done;
    }
    return engine_.status(vd.uuid).map(
        [&](const std::optional<EngineStatus>& status) { runtime.status = status; });
}

/// Zeroes the engine's metadata and both ends of the data on the members that are there.
Result<void> Controller::wipe(const ConfigVd& vd) {
    std::vector<DriveRange> ranges;
    for (const auto& member : vd.members) {
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr) {
            continue;
        }
        const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
            ranges.push_back(
                {drive->identity, member.drive, drive->label->partition.offset + offset, bytes});
        };
        for (const auto& extent : member.extents) {
            switch (extent.type) {
                case ExtentType::superblock:
                case ExtentType::checksums:
                case ExtentType::reshape:
                    break;
                case ExtentType::data:
                    add(extent.offset, wiped_bytes);
                    add(extent.end() - wiped_bytes, wiped_bytes);
                    break;
                default:
                    add(extent.offset, extent.bytes);
            }
        }
    }
    return access_.zero(ranges);
}

Result<void> Controller::zero_extents(const ConfigMember& member,
                                      const std::vector<ExtentType>& types) {
    const auto* drive = find_by_uuid(drives_, member.drive);
    if (drive == nullptr) {
        return fail(Errc::not_found, "{} is not there", drive_title(member.drive));
    }
    std::vector<DriveRange> ranges;
    for (const auto type : types) {
        const auto* extent = find_extent(member, type);
        ranges.push_back({drive->identity, member.drive,
                          drive->label->partition.offset + extent->offset, extent->bytes});
    }
    return access_.zero(ranges);
}

/// Writes the superblocks of those rows, over whatever another VD or assignment left there.
Result<void> Controller::write_superblocks(const ConfigVd& vd, const std::vector<std::size_t>& rows,
                                           bool tombstone) {
    std::vector<SuperblockWrite> writes;
    for (const auto row : rows) {
        const auto& member = vd.members[row];
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr) {
            return fail(Errc::not_found, "{} is not there", drive_title(member.drive));
        }
        const auto place =
            drive->label->partition.offset + find_extent(member, ExtentType::superblock)->offset;
        const auto found = access_.read_superblock(drive->identity, place);
        const bool ours =
            found && *found && (*found)->vd == vd.uuid && (*found)->instance == member.instance;
        if (!ours) {
            if (auto zeroed = zero_extents(member, {ExtentType::superblock}); !zeroed) {
                return zeroed;
            }
        }
        writes.push_back({drive->identity, member.drive, place,
                          superblock_of(configuration_.controller, vd, row, tombstone)});
    }
    return access_.write_superblocks(writes);
}

Result<void> Controller::finish_delete(int id) {
    const auto vd = *find_vd(configuration_, id);
    if (auto stopped = engine_.stop(vd.uuid); !stopped) {
        return stopped;
    }
    std::vector<std::size_t> present_rows;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        if (find_by_uuid(drives_, vd.members[row].drive) != nullptr) {
            present_rows.push_back(row);
        }
    }
    // A tombstone is worth more than zeros: should an old configuration turn up, it says why the VD
    // must not start.
    if (auto buried = write_superblocks(vd, present_rows, true); !buried) {
        return buried;
    }
    if (auto wiped = wipe(vd); !wiped) {
        return wiped;
    }
    auto next = configuration_;
    std::erase_if(next.vds, [&](const auto& other) { return other.id == id; });
    next.tombstones.push_back(vd.uuid);
    std::vector<Uuid> present;
    for (const auto& drive : drives_) {
        if (drive.label) {
            present.push_back(drive.label->drive);
        }
    }
    forget_absent_drives(next, present);
    if (vds_of_group(next, vd.group).empty()) {
        drop_spares_of(next, vd.group);
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    runtimes_.erase(vd.uuid);
    events_.emit(EventKind::vd_deleted, fmt::format("{} was deleted.", vd_title(vd)));
    return {};
}

void Controller::note_state(const ConfigVd& vd) {
    auto& runtime = runtimes_[vd.uuid];
    const auto state = vd_state(vd);
    if (runtime.seen && state == runtime.last_state) {
        return;
    }
    const bool known = runtime.seen;
    runtime.seen = true;
    runtime.last_state = state;
    if (state == VdState::degraded || state == VdState::partially_degraded) {
        // Also when we come up and find it so: still degraded is still worth an event.
        events_.emit(EventKind::vd_degraded,
                     fmt::format("{} is Degraded and survives {} more drive failures.",
                                 vd_title(vd), survives(vd)));
    } else if (state == VdState::offline) {
        events_.emit(EventKind::vd_offline,
                     fmt::format("{} is Offline: {}.", vd_title(vd), runtime.reason));
    } else if (known) {
        events_.emit(EventKind::vd_optimal, fmt::format("{} is Optimal.", vd_title(vd)));
    }
}

void Controller::update_progress(Runtime& runtime) const {
    const auto task = runtime.status ? runtime.status->task : EngineTask::none;
    auto& progress = runtime.progress;
    const auto now = clock_.steady_seconds();
    if (task != progress.task) {
        progress = {task, now, runtime.status ? runtime.status->task_done_sectors : 0, 0, 0};
    }
    if (runtime.status) {
        progress.seconds = now - progress.started;
        progress.sectors = runtime.status->task_done_sectors > progress.started_sectors
                               ? runtime.status->task_done_sectors - progress.started_sectors
                               : 0;
    }
}

/// Rows that hold nothing to be trusted now: not counted on, not in sync in the engine, or gone.
std::vector<bool> Controller::lost_rows(const ConfigVd& vd) const {
    const auto* runtime = runtime_of(vd);
    std::vector<bool> lost;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        lost.push_back(member.state != MemberState::online || runtime == nullptr ||
                       !runtime->status || row >= runtime->status->members.size() ||
                       runtime->status->members[row] != MemberHealth::in_sync ||
                       is_gone(member.drive));
    }
    return lost;
}

VdState Controller::vd_state(const ConfigVd& vd) const {
    const auto* runtime = runtime_of(vd);
    if (runtime == nullptr || !runtime->status) {
        return VdState::offline;
    }
    const auto lost = lost_rows(vd);
    const auto more = survives_more(shape_of(vd), lost);
    if (more < 0) {
        return VdState::offline;
    }
    if (std::find(lost.begin(), lost.end(), true) == lost.end()) {
        return VdState::optimal;
    }
    return more > 0 ? VdState::partially_degraded : VdState::degraded;
}

bool Controller::out_of_sync(const ConfigVd& vd) const {
    const auto& status = *runtime_of(vd)->status;
    return vd.needs_resync || status.task == EngineTask::resync || !status.synced.value_or(true);
}

int Controller::survives(const ConfigVd& vd) const {
    if (vd_state(vd) == VdState::offline) {
        return 0;
    }
    // While parity is being made consistent a lost member's content cannot be computed everywhere.
    return has_parity(vd.level) && out_of_sync(vd)
               ? 0
               : std::max(survives_more(shape_of(vd), lost_rows(vd)), 0);
}

}  // namespace perch
