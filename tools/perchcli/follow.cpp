// SPDX-License-Identifier: GPL-2.0-or-later
#include "follow.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rows.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// How many models may pass without the task or the rebuild being seen in them.
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

const Operation* rebuild_of(const Drive* drive) {
    if (drive == nullptr || !drive->operation || drive->operation->kind != OperationKind::rebuild) {
        return nullptr;
    }
    return &*drive->operation;
}

/// The line that moves, or the lines that follow each other.
class ProgressWriter {
  public:
    explicit ProgressWriter(Session& session)
        : session_(session), moving_(session.terminal.moving_output() && !session.json) {}

    void show(const Drive& drive, const Operation& operation) {
        const auto line =
            fmt::format("Rebuild of {} {}", slot_text(drive), progress_line(operation));
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

Result<Snapshot> watch_rebuild(Session& session, const std::string& drive_id) {
    ProgressWriter writer(session);
    auto snapshot = session.connection.snapshot();
    bool begun = false;
    for (int unseen = 0; snapshot;) {
        const auto* drive = find_drive(*snapshot, drive_id);
        const auto* operation = rebuild_of(drive);
        if (operation != nullptr) {
            begun = true;
            writer.show(*drive, *operation);
        } else if (drive != nullptr && drive->status == DriveStatus::online) {
            writer.end();
            return snapshot;
        } else if (drive == nullptr || drive->status != DriveStatus::rebuild) {
            // A rebuild that just began may not be in the model yet; one that was seen has ended.
            if (begun || ++unseen > patience) {
                writer.end();
                return fail(Errc::wrong_state, "The rebuild did not complete: the drive is {} now.",
                            drive == nullptr ? "gone" : to_string(drive->status));
            }
        }
        snapshot = session.connection.snapshot(snapshot->generation);
    }
    writer.end();
    return tl::make_unexpected(while_waiting(snapshot.error()));
}

}  // namespace perch::cli
