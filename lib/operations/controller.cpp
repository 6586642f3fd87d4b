// SPDX-License-Identifier: GPL-2.0-or-later
// Looking at the drives, and the one way to change the configuration; the crash argument is in
// controller.hpp.
#include "operations/controller.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "util/units.hpp"

namespace perch {

namespace {

bool same_drive(const FoundDrive& a, const FoundDrive& b) {
    return a.identity.name == b.identity.name && a.identity.identity == b.identity.identity;
}

/// Writes to one drive without an answer that are kept in mind; from then on it gets no more until
/// it could be read.
constexpr std::size_t max_attempts = 16;

void note_attempted(Configuration& configuration, const Uuid& drive, const Uuid& id) {
    for (auto& known : configuration.drives) {
        if (known.uuid == drive && std::find(known.attempted.begin(), known.attempted.end(), id) ==
                                       known.attempted.end()) {
            known.attempted.push_back(id);
        }
    }
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
    if (history_.refusal) {
        // Nothing is changed, but what runs is shown as it is.
        for (const auto& vd : configuration_.vds) {
            const auto status = engine_.status(vd.uuid);
            runtimes_[vd.uuid].status = status ? *status : std::nullopt;
            note_state(vd);
        }
        return;
    }
    repair_tables();
    update_drives();
    std::vector<int> ids;
    for (const auto& vd : configuration_.vds) {
        ids.push_back(vd.id);
    }
    for (const int id : ids) {
        refresh_vd(id);
    }
    foreign_ = find_foreign();
}

void Controller::look() {
    auto before = std::move(drives_);
    drives_ = access_.look();
    note_arrivals(before);
    auto history = choose_history(drives_, configuration_, policy_.only_writer);
    if (history.refusal && history_.refusal != history.refusal) {
        events_.emit(EventKind::configuration_trouble, *history.refusal);
    }
    history_ = std::move(history);
    auto followed = history_.configuration;
    if (followed.id.is_nil()) {
        // Without any drive of ours the settings chosen so far are all there is.
        followed.settings = configuration_.settings;
        followed.jbods = configuration_.jbods;
    }
    configuration_ = std::move(followed);
    settle_identities(drives_, history_);
    note_held();
    std::erase_if(runtimes_, [&](const auto& entry) {
        return std::none_of(configuration_.vds.begin(), configuration_.vds.end(),
                            [&](const auto& vd) { return vd.uuid == entry.first; });
    });
}

/// What our drives were seen to hold is what they are known to hold.
void Controller::note_held() {
    for (const auto& drive : drives_) {
        if (!drive.label || !drive.configuration) {
            continue;
        }
        attempted_ = std::max(attempted_, drive.configuration->sequence);
        for (auto& known : configuration_.drives) {
            if (known.uuid == drive.label->drive &&
                accounts_for(configuration_, *drive.configuration, known.uuid)) {
                known.acknowledged = drive.configuration->id;
                known.attempted.clear();
            }
        }
    }
}

/// A damaged partition table hides the partition from the kernel at the next start, or already now.
void Controller::repair_tables() {
    bool repaired = false;
    std::string trouble;
    for (const auto& drive : drives_) {
        if (!drive.table_damaged || !drive.users.empty()) {
            continue;
        }
        if (auto done = access_.repair_table(drive.identity); !done) {
            trouble = fmt::format(
                "the partition table of {} is damaged and could not be repaired: "
                "{}",
                bay(drive), done.error().message);
            continue;
        }
        repaired = true;
        events_.emit(EventKind::table_repaired,
                     fmt::format("The partition table of {} was damaged; it was restored from its "
                                 "backup or Perch's label. Find out what wrote there.",
                                 bay(drive)));
    }
    if (!trouble.empty() && trouble != repair_trouble_) {
        events_.emit(EventKind::drive_trouble, trouble);
    }
    repair_trouble_ = trouble;
    if (repaired) {
        look();
    }
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

/// Brings the drives to what the configuration says and the configuration to where the drives are:
/// slots that have changed, drives that hold an older state, labels of drives just imported.
void Controller::update_drives() {
    if (configuration_.id.is_nil()) {
        return;
    }
    auto next = configuration_;
    bool behind = false;
    for (const auto& drive : drives_) {
        if (!is_ours(drive, configuration_)) {
            continue;
        }
        behind = behind || (!drive.trouble &&
                            (!drive.configuration || drive.configuration->id != configuration_.id));
        if (const auto* known = find_drive(configuration_, drive.label->drive); known != nullptr) {
            // Only the place moves; who a drive is was settled when it was taken.
            auto moved = *known;
            moved.enclosure = drive.identity.enclosure;
            moved.slot = drive.identity.slot;
            upsert_drive(next, moved);
        }
    }
    constexpr double retry_seconds = 60;
    const auto now = clock_.steady_seconds();
    const bool wait = update_failed_ && now - *update_failed_ < retry_seconds;
    if ((behind && !wait) || !(next == configuration_)) {
        // A slot is shown, never relied on: a failure here is no reason to stop.
        auto done = commit(next);
        update_failed_ = done ? std::nullopt : std::optional(now);
        if (!done) {
            events_.emit(EventKind::configuration_trouble, done.error().message);
            return;
        }
    }
    for (const auto& drive : drives_) {
        if (is_ours(drive, configuration_) &&
            drive.label->controller != configuration_.controller) {
            if (auto done =
                    access_.adopt(drive.identity, drive.label->drive, configuration_.controller);
                !done) {
                events_.emit(EventKind::drive_trouble, done.error().message);
            }
        }
    }
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

/// Writes the next state to every drive of the controller. It counts once more than half of them
/// have it durably, and among them every in-sync member of each VD that changes: what a VD's own
/// members do not know, they cannot tell after a restart without the others.
Result<void> Controller::commit(Configuration next) {
    next.sequence = std::max(configuration_.sequence, attempted_);
    next.id = configuration_.id;
    next = successor(next);
    attempted_ = next.sequence;
    const auto targets = commit_targets(next);
    for (const auto& target : targets) {
        note_attempted(next, target.label->drive, next.id);
    }
    auto answers = access_.write_configuration(targets, next);
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
        note_attempt(targets, answers, configuration_);
        return {};
    }
    // What took it would win after a restart: they get the old state once more, with a higher
    // number.
    note_attempt(targets, answers, next);
    auto back = configuration_;
    back.sequence = attempted_;
    back.id = next.id;
    back = successor(back);
    attempted_ = back.sequence;
    for (const auto& target : targets) {
        note_attempted(back, target.label->drive, back.id);
    }
    answers = access_.write_configuration(targets, back);
    if (std::any_of(answers.begin(), answers.end(),
                    [](const auto& answer) { return answer.has_value(); })) {
        configuration_ = back;
    }
    note_attempt(targets, answers, back);
    return fail(good.error().code, "{}. {}", good.error().message, trouble);
}

/// The drives that the next state goes to: ours, and those that it lists, as far as what they hold
/// is our own past.
std::vector<FoundDrive> Controller::commit_targets(const Configuration& next) const {
    std::vector<FoundDrive> targets;
    for (const auto& drive : drives_) {
        if (!drive.answered || !drive.label) {
            continue;
        }
        const auto* known = find_drive(next, drive.label->drive);
        const bool fits =
            known == nullptr
                ? drive.label->controller == next.controller && drive.content.empty()
                : !drive.configuration || accounts_for(next, *drive.configuration, known->uuid);
        if (fits && (known == nullptr || known->attempted.size() < max_attempts)) {
            targets.push_back(drive);
        }
    }
    return targets;
}

/// Remembers, in memory, what the drives hold by their answers, or may hold without one.
void Controller::note_attempt(const std::vector<FoundDrive>& targets,
                              const std::vector<Result<void>>& answers,
                              const Configuration& written) {
    const auto id = written.id;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        const auto& uuid = targets[i].label->drive;
        for (auto& found : drives_) {
            if (answers[i] && found.label && found.label->drive == uuid) {
                found.configuration = written;
            }
        }
        for (auto& known : configuration_.drives) {
            if (known.uuid == uuid && answers[i]) {
                known.acknowledged = id;
                known.attempted.clear();
            }
        }
        if (!answers[i]) {
            note_attempted(configuration_, uuid, id);
        }
    }
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
    return !history_.refusal &&
           std::all_of(configuration_.vds.begin(), configuration_.vds.end(), [&](const auto& vd) {
               const auto* runtime = runtime_of(vd);
               return runtime != nullptr && runtime->status;
           });
}

bool Controller::busy() const {
    return std::any_of(configuration_.vds.begin(), configuration_.vds.end(), [&](const auto& vd) {
        const auto* runtime = runtime_of(vd);
        if (runtime == nullptr || !runtime->status) {
            return false;
        }
        // A resync so short that no look fell into it still has to be confirmed.
        return runtime->status->task != EngineTask::none ||
               (vd.needs_resync && vd_state(vd) == VdState::optimal);
    });
}

}  // namespace perch
