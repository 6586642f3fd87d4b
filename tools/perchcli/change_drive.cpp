// SPDX-License-Identifier: GPL-2.0-or-later
#include <functional>
#include <nlohmann/json.hpp>

#include "confirm.hpp"
#include "follow.hpp"
#include "handlers.hpp"
#include "rows.hpp"
#include "selection.hpp"

namespace perch::cli {

namespace {

/// A change of drives: what it is called and what perchd is asked for.
struct DriveChange {
    std::string name;    ///< "Set PD Offline": the description is this and " Succeeded."
    std::string action;  ///< "PerchDrive.SetState"
    nlohmann::json body;
    bool ask = false;    ///< redundancy is lost: confirm
    bool watch = false;  ///< follow the rebuild that it begins
};

/// What the user should know before a drive goes offline.
std::string offline_fact(const Snapshot& snapshot, const Drive& drive) {
    auto fact = fmt::format("  {} (SN {}, {})", slot_text(drive), drive.serial, drive.model);
    for (const auto& vd : snapshot.vds) {
        for (const auto& member : vd.members) {
            if (member.drive == drive.id) {
                fact += fmt::format(", member of {}, which survives {} failure{} now; used by: {}",
                                    vd_text(vd), vd.survives, vd.survives == 1 ? "" : "s",
                                    users_text(vd));
            }
        }
    }
    return fact;
}

class DriveChanger {
  public:
    DriveChanger(Session& session, const Invocation& invocation, const DriveChange& wanted)
        : session_(session), invocation_(invocation), wanted_(wanted) {}

    Reply run() {
        const auto snapshot = session_.connection.snapshot();
        if (!snapshot) {
            return failure_reply(snapshot.error());
        }
        const auto selection = select_drives_to_change(*snapshot, invocation_.path);
        if (!selection) {
            return failure_reply(selection.error());
        }
        reply_.description_is_final = true;
        // Nothing is changed when one of the names is wrong: the user may mean something else.
        for (const auto& slot : selection->missing) {
            add_failure(slot, "-", "CLI", {Errc::not_found, "Drive not found"});
        }
        if (selection->found.empty() && selection->missing.empty()) {
            return failure_reply({Errc::not_found, "No PD found."});
        }
        if (!selection->missing.empty()) {
            return finish("No PD found.");
        }
        if (const auto confirmed = ask(*snapshot, selection->found); !confirmed) {
            for (const auto* drive : selection->found) {
                add_failure(*drive, "CLI", confirmed.error());
            }
            return finish(wanted_.name + " Failed.");
        }
        for (const auto* drive : selection->found) {
            apply(*drive);
        }
        return finish(wanted_.name + (reply_.error ? " Failed." : " Succeeded."));
    }

  private:
    Result<void> ask(const Snapshot& snapshot, const Drives& drives) {
        if (!wanted_.ask) {
            return {};
        }
        std::vector<std::string> facts{"This takes redundancy away:"};
        for (const auto* drive : drives) {
            facts.push_back(offline_fact(snapshot, *drive));
        }
        return confirm(session_, invocation_, facts);
    }
    void apply(const Drive& drive) {
        const auto target = fmt::format("/redfish/v1/Systems/1/Storage/c0/Drives/{}/Actions/Oem/{}",
                                        drive.id, wanted_.action);
        const auto outcome = change(session_, "POST", target, wanted_.body);
        if (!outcome) {
            add_failure(drive, "Perch", outcome.error());
            return;
        }
        if (wanted_.watch) {
            const auto end = watch_rebuild(session_, drive.id);
            if (!end) {
                add_failure(drive, "Perch", end.error());
                return;
            }
            for (const auto& vd : end->vds) {
                if (vd.group == find_drive(*end, drive.id)->group) {
                    reply_.blocks.push_back({vd_notes({&vd})});
                }
            }
        }
        outcomes_.success(drive);
    }
    void add_failure(const Drive& drive, std::string_view type, const Error& error) {
        add_failure(slot_text(drive), std::int64_t{drive.pid}, type, error);
    }
    void add_failure(std::string slot, Value pid, std::string_view type, const Error& error) {
        outcomes_.failure(std::move(slot), std::move(pid), type, error);
        reply_.error = reply_.error ? reply_.error : error;
    }
    Reply finish(std::string description) {
        reply_.description = std::move(description);
        if (reply_.error) {
            reply_.detailed_status = outcomes_.table();
        }
        return std::move(reply_);
    }

    Session& session_;
    const Invocation& invocation_;
    const DriveChange& wanted_;
    Reply reply_;
    DriveOutcomes outcomes_;
};

Reply run_change(Session& session, const Invocation& invocation, const DriveChange& wanted) {
    return DriveChanger(session, invocation, wanted).run();
}

}  // namespace

Reply set_offline(Session& session, const Invocation& invocation) {
    return run_change(
        session, invocation,
        {"Set PD Offline", "PerchDrive.SetState", {{"State", "Offline"}}, true, false});
}

Reply set_online(Session& session, const Invocation& invocation) {
    return run_change(
        session, invocation,
        {"Set PD Online", "PerchDrive.SetState", {{"State", "Online"}}, false, false});
}

Reply start_rebuild(Session& session, const Invocation& invocation) {
    return run_change(session, invocation,
                      {"Start PD Rebuild", "PerchDrive.StartRebuild", nlohmann::json::object(),
                       false, invocation.has("watch")});
}

Reply stop_rebuild(Session& session, const Invocation& invocation) {
    return run_change(
        session, invocation,
        {"Stop PD Rebuild", "PerchDrive.StopRebuild", nlohmann::json::object(), false, false});
}

Reply insert_drive(Session& session, const Invocation& invocation) {
    const auto number = [&](std::string_view name) {
        return parse_number(invocation.value(name)).value_or(0);
    };
    return run_change(session, invocation,
                      {"Insert PD",
                       "PerchDrive.InsertMember",
                       {{"DriveGroup", number("dg")},
                        {"Array", number("array")},
                        {"Row", number("row")},
                        {"Force", invocation.has("force")}},
                       false,
                       invocation.has("watch")});
}

}  // namespace perch::cli
