// SPDX-License-Identifier: GPL-2.0-or-later
// Waiting: for a change that perchd accepted, and for a rebuild.
#pragma once

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

/// Shows a drive's rebuild until it ends: one moving line on a terminal, else a line for every 5 %.
/// The result is the model at the end, or why the rebuild did not complete.
Result<Snapshot> watch_rebuild(Session& session, const std::string& drive_id);

}  // namespace perch::cli
