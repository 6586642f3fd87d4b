// SPDX-License-Identifier: GPL-2.0-or-later
// Changing several objects by one command: all names must be right, a destructive change is
// confirmed, then each object is one request to perchd and one row of Detailed Status.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "follow.hpp"
#include "grammar.hpp"
#include "outcomes.hpp"
#include "selection.hpp"

namespace perch::cli {

inline constexpr const char* storage_uri = "/redfish/v1/Systems/1/Storage/c0";
std::string drive_uri(const Drive& drive);
std::string vd_uri(const VirtualDrive& vd);

/// One object and what perchd is asked for.
struct Change {
    Row cells;  ///< which object, in Detailed Status
    std::string method = "POST";
    std::string uri;
    nlohmann::json body = nlohmann::json::object();  ///< null for none
    std::optional<Watched> watched;                  ///< follow what it begins
    /// What to show after the end of what was watched.
    std::function<std::vector<Block>(const Snapshot&)> afterwards = {};
};

struct ChangePlan {
    Outcomes outcomes;      ///< empty, with the right columns
    std::string succeeded;  ///< the description: "Set PD Offline Succeeded."
    std::string failed;     ///< "Set PD Offline Failed."
    std::vector<Change> changes = {};
    /// What the user should know; not empty: ask before going on.
    std::vector<std::string> facts = {};
    bool list_successes = false;  ///< Detailed Status also when all went well, as `set` has it
};

/// Stops at nothing: an object that perchd refuses is a row, and the others follow.
Reply carry_out(Session& session, const Invocation& invocation, ChangePlan plan);

/// Runs `plan` over the drives that the command names. Nothing is changed when one of them is not
/// there: the user may mean something else.
Reply change_drives(Session& session, const Invocation& invocation,
                    const std::function<Result<ChangePlan>(const Snapshot&, const Drives&)>& plan);
/// The same over VDs. `nothing` describes the failure when one of them is not there.
Reply change_vds(Session& session, const Invocation& invocation, const std::string& nothing,
                 const std::function<Result<ChangePlan>(const Snapshot&, const Vds&)>& plan);

}  // namespace perch::cli
