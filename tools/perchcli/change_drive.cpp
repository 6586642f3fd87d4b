// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>

#include "change.hpp"
#include "handlers.hpp"
#include "layout/raid_level.hpp"
#include "rows.hpp"

namespace perch::cli {

namespace {

/// A change of drives: what it is called and what perchd is asked for.
struct DriveChange {
    std::string name;    ///< "Set PD Offline": the description is this and " Succeeded."
    std::string action;  ///< "SetState"
    nlohmann::json body = nlohmann::json::object();
    bool watch = false;  ///< follow the rebuild that it begins
};

/// What the VDs of the drive's group survive now.
std::vector<Block> protection_of(const Snapshot& snapshot, const std::string& drive_id) {
    const auto* drive = find_drive(snapshot, drive_id);
    Vds vds;
    for (const auto* vd : all_vds(snapshot)) {
        if (drive != nullptr && drive->group == vd->group) {
            vds.push_back(vd);
        }
    }
    if (vds.empty()) {
        return {};
    }
    return {{vd_notes(vds)}};
}

ChangePlan plan_of(const DriveChange& wanted, const Drives& drives) {
    ChangePlan plan{drive_outcomes(), wanted.name + " Succeeded.", wanted.name + " Failed."};
    for (const auto* drive : drives) {
        Change one{drive_cells(*drive), "POST",
                   fmt::format("{}/Actions/Oem/PerchDrive.{}", drive_uri(*drive), wanted.action),
                   wanted.body, std::nullopt};
        if (wanted.watch) {
            one.watched = rebuild_of(*drive);
            one.afterwards = [id = drive->id](const Snapshot& after) {
                return protection_of(after, id);
            };
        }
        plan.changes.push_back(std::move(one));
    }
    return plan;
}

Reply run_change(Session& session, const Invocation& invocation, const DriveChange& wanted) {
    return change_drives(session, invocation,
                         [&](const Snapshot&, const Drives& drives) -> Result<ChangePlan> {
                             return plan_of(wanted, drives);
                         });
}

std::string drive_fact(const Drive& drive) {
    return fmt::format("  {} (SN {}, {})", slot_text(drive), drive.serial, drive.model);
}

/// What the user should know before a drive goes offline.
std::string offline_fact(const Snapshot& snapshot, const Drive& drive) {
    auto fact = drive_fact(drive);
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

/// What would be erased with the drive; nothing for a drive that carries no data of anybody.
std::string data_on(const Drive& drive) {
    if (drive.state == DriveState::foreign) {
        return "a foreign configuration of Perch, with its VDs";
    }
    return drive.content;
}

/// To unconfigured or to JBOD: both leave the drive blank, so a person decides about data on it.
Reply blank_drives(Session& session, const Invocation& invocation, const std::string& name,
                   const std::string& state) {
    return change_drives(
        session, invocation, [&](const Snapshot&, const Drives& drives) -> Result<ChangePlan> {
            auto plan = plan_of({name, "SetState", {{"State", state}}, false}, drives);
            std::vector<std::string> facts;
            for (std::size_t i = 0; i < drives.size(); ++i) {
                const bool is_so = drives[i]->state == DriveState::jbod && state == "JBOD";
                const auto data = is_so ? std::string() : data_on(*drives[i]);
                // Perchd looks again; force reaches it only where a person said yes to data.
                plan.changes[i].body["Force"] = invocation.has("force") || !data.empty();
                if (!data.empty()) {
                    facts.push_back(fmt::format("{}: {}", drive_fact(*drives[i]), data));
                }
            }
            if (!facts.empty()) {
                facts.insert(facts.begin(), "This erases for ever what is on these drives:");
                plan.facts = std::move(facts);
            }
            return plan;
        });
}

/// The drive groups of dgs=, each of them there and with redundancy to spare for.
Result<std::vector<int>> spare_groups(const Snapshot& snapshot, const std::string& text) {
    const auto wanted = parse_ids(text, "");
    if (!wanted) {
        return tl::make_unexpected(wanted.error());
    }
    std::vector<int> groups;
    for (const auto* group : all_groups(snapshot)) {
        if (!wanted->contains(group->id)) {
            continue;
        }
        const auto level = parse_raid_level(group->level);
        if (level && !is_redundant(*level)) {
            return fail(Errc::invalid_argument,
                        "Drive group {} is {}: a spare could not take over anything there.",
                        group->id, group->level);
        }
        groups.push_back(group->id);
    }
    for (const int id : wanted->singles()) {
        if (std::find(groups.begin(), groups.end(), id) == groups.end()) {
            return fail(Errc::not_found, "There is no drive group {}.", id);
        }
    }
    if (groups.empty()) {
        return fail(Errc::not_found, "There is no such drive group.");
    }
    return groups;
}

}  // namespace

Reply set_offline(Session& session, const Invocation& invocation) {
    return change_drives(
        session, invocation,
        [&](const Snapshot& snapshot, const Drives& drives) -> Result<ChangePlan> {
            auto plan =
                plan_of({"Set PD Offline", "SetState", {{"State", "Offline"}}, false}, drives);
            plan.facts = {"This takes redundancy away:"};
            for (const auto* drive : drives) {
                plan.facts.push_back(offline_fact(snapshot, *drive));
            }
            return plan;
        });
}

Reply set_online(Session& session, const Invocation& invocation) {
    return run_change(session, invocation,
                      {"Set PD Online", "SetState", {{"State", "Online"}}, false});
}

Reply set_missing(Session& session, const Invocation& invocation) {
    return run_change(session, invocation,
                      {"Set PD Missing", "SetState", {{"State", "Missing"}}, false});
}

Reply set_unconfigured(Session& session, const Invocation& invocation) {
    return blank_drives(session, invocation, "Set PD UConf", "Unconfigured");
}

Reply set_jbod(Session& session, const Invocation& invocation) {
    return blank_drives(session, invocation, "Set PD JBOD", "JBOD");
}

Reply add_spare(Session& session, const Invocation& invocation) {
    return change_drives(
        session, invocation,
        [&](const Snapshot& snapshot, const Drives& drives) -> Result<ChangePlan> {
            auto body = nlohmann::json::object();
            if (invocation.has("dgs")) {
                const auto groups = spare_groups(snapshot, invocation.value("dgs"));
                if (!groups) {
                    return tl::make_unexpected(groups.error());
                }
                body["DriveGroups"] = *groups;
            }
            return plan_of({"Add Hot Spare", "AddSpare", std::move(body), false}, drives);
        });
}

Reply delete_spare(Session& session, const Invocation& invocation) {
    return run_change(session, invocation,
                      {"Delete Hot Spare", "DeleteSpare", nlohmann::json::object(), false});
}

Reply start_rebuild(Session& session, const Invocation& invocation) {
    return run_change(
        session, invocation,
        {"Start PD Rebuild", "StartRebuild", nlohmann::json::object(), invocation.has("watch")});
}

Reply stop_rebuild(Session& session, const Invocation& invocation) {
    return run_change(session, invocation,
                      {"Stop PD Rebuild", "StopRebuild", nlohmann::json::object(), false});
}

Reply insert_drive(Session& session, const Invocation& invocation) {
    const auto number = [&](std::string_view name) {
        return parse_number(invocation.value(name)).value_or(0);
    };
    return run_change(session, invocation,
                      {"Insert PD",
                       "InsertMember",
                       {{"DriveGroup", number("dg")},
                        {"Array", number("array")},
                        {"Row", number("row")},
                        {"Force", invocation.has("force")}},
                       invocation.has("watch")});
}

}  // namespace perch::cli
