// SPDX-License-Identifier: GPL-2.0-or-later
// Waiting: for a change that perchd accepted, and for a long operation.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "session.hpp"

namespace perch::cli {

/// What became of a change.
struct Outcome {
    TaskInfo task;
    Snapshot snapshot;  ///< a model in which the change is visible
};

/// Sends a change and waits until its task has ended. A task that failed is its error.
Result<Outcome> change(Session& session, std::string_view method, std::string_view target,
                       const nlohmann::json& body);

/// "[##########----------]  50.0 %  1.200 GiB/s  3 Minutes left"
std::string progress_line(const Operation& operation);

/// How a long operation stands in one model.
struct Sighting {
    enum class Phase {
        running,  ///< with figures
        pending,  ///< under way, no figures yet
        done,     ///< ended, and well
        over,     ///< not there: ended, or not begun yet
        failed,   ///< not there, and the state is not that of a good end
    };
    Phase phase = Phase::over;
    std::optional<Operation> operation;  ///< when running
    std::string state;                   ///< when failed: "the drive is Missing now"
};

/// A long operation that can be followed.
struct Watched {
    std::string name;   ///< "rebuild"
    std::string title;  ///< "Rebuild of 0:3"
    std::function<Sighting(const Snapshot&)> look;
};

/// The rebuild onto a drive.
Watched rebuild_of(const Drive& drive);
/// The operation of that kind on a VD.
Watched operation_of(const VirtualDrive& vd, OperationKind kind);

/// Shows an operation until it ends: one moving line on a terminal, else a line for every 5 %.
/// The result is the model at the end, or why it did not complete.
Result<Snapshot> watch(Session& session, const Watched& watched);

}  // namespace perch::cli
