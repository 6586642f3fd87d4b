// SPDX-License-Identifier: GPL-2.0-or-later
// Looking and reconciling; the crash argument is in controller.hpp. What an administrator asks for
// is in controller_requests.cpp, the picture for others in controller_snapshot.cpp.
#include "operations/controller.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

bool same_drive(const FoundDrive& a, const FoundDrive& b) {
    return a.identity.name == b.identity.name && a.identity.identity == b.identity.identity;
}

std::string bay(const FoundDrive& drive) {
    return fmt::format("s{} (SN {})", drive.identity.slot, drive.identity.serial);
}

/// dm-raid's status shows a rebuild as done a moment before it is recorded (dm-raid.md 5.2); only
/// the member's own record confirms it.
bool rebuild_proven(const EngineStatus& status, std::size_t row,
                    const std::optional<MemberRecord>& record) {
    return status.task == EngineTask::none && status.members[row] == MemberHealth::in_sync &&
           record && record->rebuilt;
}

}  // namespace

Clock Clock::system() {
    return {[] {
                return std::chrono::duration<double>(
                           std::chrono::steady_clock::now().time_since_epoch())
                    .count();
            },
            [] {
                return std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                    .count();
            }};
}

ControllerPolicy ControllerPolicy::from_kernel_command_line(const std::string& path) {
    ControllerPolicy policy;
    std::ifstream file(path);
    for (std::string word; file >> word;) {
        if (word == "perch.degraded=no") {
            policy.start_degraded = false;
        }
    }
    return policy;
}

Controller::Controller(DriveAccess& drives, Engine& engine, EventSink& events, Clock clock,
                       ControllerPolicy policy)
    : access_(drives),
      engine_(engine),
      events_(events),
      clock_(std::move(clock)),
      policy_(policy) {}

Result<void> Controller::start() {
    last_arrival_ = clock_.steady_seconds();
    const auto resumed = engine_.resume_suspended();
    if (!resumed) {
        return tl::make_unexpected(resumed.error());
    }
    if (*resumed > 0) {
        events_.emit(EventKind::resumed_suspended,
                     fmt::format("{} device-mapper devices were left suspended by a daemon that "
                                 "was killed; they were resumed.",
                                 *resumed));
    }
    refresh();
    return {};
}

void Controller::refresh() {
    look();
    if (refusal_) {
        // Nothing is changed, but what runs is shown as it is.
        for (const auto& vd : configuration_.vds) {
            const auto status = engine_.status(vd.uuid);
            runtimes_[vd.uuid].status = status ? *status : std::nullopt;
            note_state(vd);
        }
        return;
    }
    update_drive_places();
    std::vector<int> ids;
    for (const auto& vd : configuration_.vds) {
        ids.push_back(vd.id);
    }
    for (const int id : ids) {
        refresh_vd(id);
    }
}

void Controller::look() {
    auto before = std::move(drives_);
    drives_ = access_.look();
    note_arrivals(before);
    auto chosen = choose_configuration(drives_, configuration_.controller);
    const bool older = !configuration_.id.is_nil() &&
                       chosen.configuration.controller == configuration_.controller &&
                       chosen.configuration.sequence < configuration_.sequence;
    const bool gone = !configuration_.id.is_nil() && chosen.configuration.id.is_nil();
    if (chosen.refusal && refusal_ != chosen.refusal) {
        events_.emit(EventKind::configuration_trouble, *chosen.refusal);
    }
    refusal_ = chosen.refusal;
    // Drives that are away must not take us back to an older state.
    if (!older && !gone) {
        configuration_ = std::move(chosen.configuration);
    }
    settle_identities(drives_, configuration_);
    std::erase_if(runtimes_, [&](const auto& entry) {
        return std::none_of(configuration_.vds.begin(), configuration_.vds.end(),
                            [&](const auto& vd) { return vd.uuid == entry.first; });
    });
}

void Controller::note_arrivals(const std::vector<FoundDrive>& before) {
    const auto had = [](const std::vector<FoundDrive>& list, const FoundDrive& drive) {
        return std::any_of(list.begin(), list.end(),
                           [&](const auto& other) { return same_drive(other, drive); });
    };
    for (const auto& drive : drives_) {
        if (!had(before, drive)) {
            last_arrival_ = clock_.steady_seconds();
            if (looked_) {
                events_.emit(
                    EventKind::drive_inserted,
                    fmt::format("{} was inserted: {}, {}.", bay(drive), drive.identity.model,
                                format_size(drive.identity.size_bytes)));
            }
        }
    }
    for (const auto& drive : before) {
        if (!had(drives_, drive)) {
            events_.emit(EventKind::drive_removed, fmt::format("{} is gone.", bay(drive)));
        }
    }
    looked_ = true;
}

void Controller::update_drive_places() {
    auto next = configuration_;
    for (const auto& drive : drives_) {
        if (drive.label && find_drive(configuration_, drive.label->drive) != nullptr) {
            // Only the place moves; who a drive is was settled when it was taken.
            auto known = *find_drive(configuration_, drive.label->drive);
            known.enclosure = drive.identity.enclosure;
            known.slot = drive.identity.slot;
            upsert_drive(next, known);
        }
    }
    if (!(next == configuration_)) {
        // A slot is shown, never relied on: a failure here is no reason to stop.
        if (auto done = commit(next); !done) {
            events_.emit(EventKind::configuration_trouble, done.error().message);
        }
    }
}

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
        reconcile_parity(id);
    } else {
        try_start(id);
    }
    update_progress(runtime);
    note_state(*find_vd(configuration_, id));
}

Result<MemberRecords> Controller::read_records(const ConfigVd& vd) {
    MemberRecords records(vd.members.size());
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr || !takes_part(member.state)) {
            continue;
        }
        const auto length = std::min(engine_.record_bytes(), member.metadata_bytes);
        const auto record =
            access_
                .read(drive->identity, drive->label->partition.offset + member.metadata_offset,
                      length)
                .and_then([&](const Bytes& raw) { return engine_.decode_record(raw); });
        if (!record) {
            return fail_with(bay(*drive), record.error());
        }
        records[row] = *record;
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
    if (plan.reset_metadata) {
        for (const auto& member : vd.members) {
            if (auto done = zero_metadata(member); !done) {
                runtime.reason = done.error().message;
                return;
            }
        }
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
        events_.emit(EventKind::vd_started_degraded,
                     fmt::format("{} was started degraded ({}). It survives 0 more drive failures. "
                                 "Replace the drive or bring it back, then start its rebuild.",
                                 vd_title(vd), plan.reason));
    } else {
        events_.emit(EventKind::vd_started, fmt::format("{} was started.", vd_title(vd)));
    }
    if (plan.dirty) {
        events_.emit(EventKind::vd_unclean,
                     fmt::format("{} was not stopped cleanly: its parity is recomputed. Until that "
                                 "is done a lost drive can cost data.",
                                 vd_title(vd)));
    }
    reconcile_running(id);
    reconcile_parity(id);
}

/// Parity that is not known to match is recomputed as soon as all members are there, and counts as
/// known only when that was seen to run to its end. (dm-raid does not do it by itself after a
/// crash.)
void Controller::reconcile_parity(int id) {
    const auto& vd = *find_vd(configuration_, id);
    auto& runtime = runtimes_[vd.uuid];
    if (!vd.needs_resync || !runtime.status) {
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
            return !record || record->resync_pending;
        });
    if (pending) {
        runtime.resync_seen = false;
        runtime.resync_asked.reset();
        return;
    }
    auto next = configuration_;
    find_vd(next, id)->needs_resync = false;
    if (auto done = commit(next); !done) {
        runtime.reason = done.error().message;
        return;
    }
    events_.emit(EventKind::resync_done,
                 fmt::format("The resync of {} is done: its parity matches everywhere.",
                             vd_title(*find_vd(configuration_, id))));
}

/// Nobody with that drive's identity is in any slot. One that does not answer, or cannot be read,
/// is not gone: the kernel may be using it well.
bool Controller::is_gone(const Uuid& drive) const {
    const auto* known = find_drive(configuration_, drive);
    return std::none_of(drives_.begin(), drives_.end(), [&](const auto& found) {
        return (known != nullptr && found.identity.identity == known->identity) ||
               (found.label && found.label->drive == drive);
    });
}

void Controller::reconcile_running(int id) {
    auto next = configuration_;
    auto& vd = *find_vd(next, id);
    auto& runtime = runtimes_[vd.uuid];
    const auto& status = *runtime.status;
    const bool candidates = std::any_of(vd.members.begin(), vd.members.end(), [](const auto& row) {
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
    // A second loss is not recorded: the last in-sync set must stay recognisable.
    std::size_t trusted = 0;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        trusted += vd.members[row].state == MemberState::online &&
                           status.members[row] == MemberHealth::in_sync &&
                           !is_gone(vd.members[row].drive)
                       ? 1
                       : 0;
    }
    const bool enough = trusted + 1 >= vd.members.size();
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
            }
        } else if (member.state == MemberState::candidate &&
                   rebuild_proven(status, row, runtime.records[row])) {
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
    if (!enough) {
        runtime.reason =
            "more members are gone than RAID5 survives. Bring back the drives that were there "
            "last; nothing more is recorded until then";
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

/// Writes the next state to every drive of the controller. It counts once more than half of them
/// have it durably, and among them every in-sync member of each VD that changes: what a VD's own
/// members do not know, they cannot tell after a restart without the others.
Result<void> Controller::commit(Configuration next) {
    next.sequence = std::max(configuration_.sequence, attempted_);
    next.id = configuration_.id;
    next = successor(next);
    attempted_ = next.sequence;
    std::vector<FoundDrive> targets;
    for (const auto& drive : drives_) {
        if (drive.answered && drive.label && drive.label->controller == next.controller &&
            drive.content.empty()) {
            targets.push_back(drive);
        }
    }
    const auto answers = access_.write_configuration(targets, next);
    std::vector<Uuid> held;
    std::string trouble;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (answers[i]) {
            held.push_back(targets[i].label->drive);
            continue;
        }
        trouble = fmt::format("{}: {}", bay(targets[i]), answers[i].error().message);
        events_.emit(EventKind::drive_trouble, trouble);
    }
    auto good = held.size() * 2 > targets.size()
                    ? check_held(next, held)
                    : fail(Errc::io, "the configuration could be written to {} of {} drives only",
                           held.size(), targets.size());
    if (good) {
        configuration_ = std::move(next);
        return {};
    }
    // What took it would win after a restart: they get the old state once more, with a higher
    // number.
    auto back = configuration_;
    back.sequence = attempted_;
    back.id = next.id;
    back = successor(back);
    attempted_ = back.sequence;
    for (const auto& answer : access_.write_configuration(targets, back)) {
        if (answer) {
            configuration_ = back;
        }
    }
    return fail(good.error().code, "{}. {}", good.error().message, trouble);
}

Result<void> Controller::check_held(const Configuration& next,
                                    const std::vector<Uuid>& held) const {
    for (const auto& vd : next.vds) {
        const auto* before = find_vd(configuration_, vd.id);
        if (before != nullptr && *before == vd) {
            continue;
        }
        for (const auto& member : vd.members) {
            if (member.state == MemberState::online &&
                std::find(held.begin(), held.end(), member.drive) == held.end() &&
                !is_gone(member.drive)) {
                return fail(Errc::io, "{}, a member of {}, did not take the configuration",
                            drive_title(member.drive), vd_title(vd));
            }
        }
    }
    return {};
}

Result<void> Controller::finish_delete(int id) {
    const auto vd = *find_vd(configuration_, id);
    if (auto stopped = engine_.stop(vd.uuid); !stopped) {
        return stopped;
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
    if (state == VdState::degraded) {
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

VdState Controller::vd_state(const ConfigVd& vd) const {
    const auto* runtime = runtime_of(vd);
    if (runtime == nullptr || !runtime->status) {
        return VdState::offline;
    }
    std::size_t good = 0;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        good += vd.members[row].state == MemberState::online &&
                        row < runtime->status->members.size() &&
                        runtime->status->members[row] == MemberHealth::in_sync &&
                        !is_gone(vd.members[row].drive)
                    ? 1
                    : 0;
    }
    if (good == vd.members.size()) {
        return VdState::optimal;
    }
    return good + 1 == vd.members.size() ? VdState::degraded : VdState::offline;
}

int Controller::survives(const ConfigVd& vd) const {
    const auto* runtime = runtime_of(vd);
    // While parity is being made consistent a lost member's content cannot be computed everywhere.
    const bool resync = vd.needs_resync || (runtime != nullptr && runtime->status &&
                                            runtime->status->task == EngineTask::resync);
    return vd_state(vd) == VdState::optimal && !resync ? 1 : 0;
}

const Controller::Runtime* Controller::runtime_of(const ConfigVd& vd) const {
    const auto found = runtimes_.find(vd.uuid);
    return found == runtimes_.end() ? nullptr : &found->second;
}

std::string Controller::vd_title(const ConfigVd& vd) const {
    return fmt::format("v{} ({})", vd.id, vd.name);
}

std::string Controller::drive_title(const Uuid& drive) const {
    const auto* known = find_drive(configuration_, drive);
    return known == nullptr ? drive.str() : describe_drive(*known);
}

bool Controller::all_started() const {
    return !refusal_ &&
           std::all_of(configuration_.vds.begin(), configuration_.vds.end(), [&](const auto& vd) {
               const auto* runtime = runtime_of(vd);
               return runtime != nullptr && runtime->status;
           });
}

bool Controller::busy() const {
    return std::any_of(runtimes_.begin(), runtimes_.end(), [](const auto& entry) {
        return entry.second.status && entry.second.status->task != EngineTask::none;
    });
}

}  // namespace perch
