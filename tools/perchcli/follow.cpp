// SPDX-License-Identifier: GPL-2.0-or-later
#include "follow.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rows.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// How many models may pass without the task or the operation being seen in them.
constexpr int patience = 3;

const TaskInfo* find_task(const Snapshot& snapshot, std::uint64_t id) {
    const auto found = std::find_if(snapshot.tasks.begin(), snapshot.tasks.end(),
                                    [id](const TaskInfo& task) { return task.id == id; });
    return found == snapshot.tasks.end() ? nullptr : &*found;
}

/// perchd was there when the change began; say so when it is gone afterwards.
Error while_waiting(const Error& error) {
    if (error.code != Errc::no_daemon) {
        return error;
    }
    return {error.code, fmt::format("perchd went away while the change was under way, and will go "
                                    "on or undo it when it is back; look with 'perchcli show'. {}",
                                    error.message)};
}

Result<Outcome> wait_for_task(Session& session, std::uint64_t id) {
    auto snapshot = session.connection.snapshot();
    for (int unseen = 0; snapshot;) {
        const auto* task = find_task(*snapshot, id);
        if (task == nullptr && ++unseen > patience) {
            return fail(Errc::internal,
                        "perchd no longer knows task {} (was it restarted?); look at the outcome "
                        "with 'perchcli show'",
                        id);
        }
        if (task != nullptr && task->state == "Exception") {
            return fail(errc_from_name(task->error), "{}", task->message);
        }
        if (task != nullptr && task->state == "Completed") {
            const auto done = *task;
            return Outcome{done, std::move(*snapshot)};
        }
        snapshot = session.connection.snapshot(snapshot->generation);
    }
    return tl::make_unexpected(while_waiting(snapshot.error()));
}

bool runs(const std::optional<Operation>& operation, OperationKind kind) {
    return operation && operation->kind == kind;
}

Sighting look_at_rebuild(const Snapshot& snapshot, const std::string& id) {
    using Phase = Sighting::Phase;
    const auto* drive = find_drive(snapshot, id);
    if (drive == nullptr) {
        return {Phase::failed, {}, "the drive is gone"};
    }
    if (runs(drive->operation, OperationKind::rebuild)) {
        return {Phase::running, drive->operation, {}};
    }
    switch (drive->status) {
        case DriveStatus::online:
            return {Phase::done, {}, {}};
        case DriveStatus::rebuild:
            return {Phase::pending, {}, {}};
        default:
            return {
                Phase::failed, {}, fmt::format("the drive is {} now", to_string(drive->status))};
    }
}

Sighting look_at_vd(const Snapshot& snapshot, int id, OperationKind kind) {
    using Phase = Sighting::Phase;
    const auto* vd = find_vd(snapshot, id);
    if (vd == nullptr) {
        return {Phase::failed, {}, "the VD is gone"};
    }
    if (runs(vd->operation, kind)) {
        return {Phase::running, vd->operation, {}};
    }
    if (vd->state == VdState::offline) {
        return {Phase::failed, {}, "the VD is Offline now"};
    }
    // A check that came to its end has counted; one that was stopped has not.
    if (kind == OperationKind::check && !vd->mismatches) {
        return {Phase::failed, {}, "it has no result"};
    }
    return {Phase::over, {}, {}};
}

/// The line that moves, or the lines that follow each other.
class ProgressWriter {
  public:
    explicit ProgressWriter(Session& session)
        : session_(session), moving_(session.terminal.moving_output() && !session.json) {}

    void show(const std::string& title, const Operation& operation) {
        const auto line = title + " " + progress_line(operation);
        if (moving_) {
            session_.terminal.out("\r" + line + "\033[K");
            open_line_ = true;
            return;
        }
        const int step = static_cast<int>(std::floor(operation.percent / 5));
        if (step != last_step_) {
            last_step_ = step;
            if (session_.json) {
                session_.terminal.err(line + "\n");
            } else {
                session_.terminal.out(line + "\n");
            }
        }
    }
    void end() {
        if (open_line_) {
            session_.terminal.out("\r\033[K");
            open_line_ = false;
        }
    }

  private:
    Session& session_;
    bool moving_;
    bool open_line_ = false;
    int last_step_ = -1;
};

}  // namespace

Result<Outcome> change(Session& session, std::string_view method, std::string_view target,
                       const nlohmann::json& body) {
    const auto accepted = session.connection.send(method, target, body);
    if (!accepted) {
        return tl::make_unexpected(accepted.error());
    }
    if (accepted->task) {
        return wait_for_task(session, *accepted->task);
    }
    auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return tl::make_unexpected(while_waiting(snapshot.error()));
    }
    Outcome outcome{{}, std::move(*snapshot)};
    outcome.task.target = accepted->target;
    return outcome;
}

std::string progress_line(const Operation& operation) {
    constexpr std::size_t width = 20;
    const double percent = std::clamp(operation.percent, 0.0, 100.0);
    const auto filled = static_cast<std::size_t>(std::floor(percent / 100.0 * width));
    auto line = fmt::format("[{}{}] {:5.1f} %", std::string(filled, '#'),
                            std::string(width - filled, '-'), percent);
    if (operation.speed_bytes_per_second != 0) {
        line += fmt::format("  {}/s", format_size(operation.speed_bytes_per_second));
    }
    if (operation.seconds_left) {
        line += fmt::format("  {} left", format_duration(*operation.seconds_left));
    }
    return line;
}

Watched rebuild_of(const Drive& drive) {
    return {"rebuild", "Rebuild of " + slot_text(drive),
            [id = drive.id](const Snapshot& snapshot) { return look_at_rebuild(snapshot, id); }};
}

Watched operation_of(const VirtualDrive& vd, OperationKind kind) {
    const std::string name = kind == OperationKind::init ? "initialization" : "check";
    const auto title = kind == OperationKind::init ? "Initialization of " : "Check of ";
    return {name, title + vd_text(vd), [id = vd.id, kind](const Snapshot& snapshot) {
                return look_at_vd(snapshot, id, kind);
            }};
}

Result<Snapshot> watch(Session& session, const Watched& watched) {
    ProgressWriter writer(session);
    auto snapshot = session.connection.snapshot();
    bool begun = false;
    for (int unseen = 0; snapshot;) {
        const auto seen = watched.look(*snapshot);
        // What just began may not be in the model yet; what was seen and is no more has ended.
        const bool ended = begun || unseen >= patience;
        switch (seen.phase) {
            case Sighting::Phase::running:
                begun = true;
                writer.show(watched.title, *seen.operation);
                break;
            case Sighting::Phase::pending:
                break;
            case Sighting::Phase::done:
                writer.end();
                return snapshot;
            case Sighting::Phase::over:
                if (ended) {
                    writer.end();
                    return snapshot;
                }
                ++unseen;
                break;
            case Sighting::Phase::failed:
                if (ended) {
                    writer.end();
                    return fail(Errc::wrong_state, "The {} did not complete: {}.", watched.name,
                                seen.state);
                }
                ++unseen;
                break;
        }
        snapshot = session.connection.snapshot(snapshot->generation);
    }
    writer.end();
    return tl::make_unexpected(while_waiting(snapshot.error()));
}

}  // namespace perch::cli
