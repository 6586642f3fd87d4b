// SPDX-License-Identifier: GPL-2.0-or-later
#include "change.hpp"
#include "handlers.hpp"
#include "rows.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

/// "v1 (data): RAID5, 11.250 GiB; used by: nothing"
std::string loss_fact(const VirtualDrive& vd) {
    auto fact = fmt::format("  {}: {}, {}; used by: {}", vd_text(vd), vd.level,
                            format_size(vd.size_bytes), users_text(vd));
    if (!vd.users.empty()) {
        fact += " (perchd will refuse until that has ended)";
    }
    return fact;
}

std::vector<std::string> loss_facts(std::string head, const Vds& vds) {
    std::vector<std::string> facts{std::move(head)};
    for (const auto* vd : vds) {
        facts.push_back(loss_fact(*vd));
    }
    return facts;
}

/// An operation on VDs: how the dialect calls it and what starts or stops it.
struct VdOperation {
    std::string verb;       ///< "Start"
    std::string operation;  ///< "INIT"
    std::string action;     ///< "Volume.Initialize"
    nlohmann::json body;    ///< of the request
    bool watch = false;     ///< follow it
    OperationKind kind = OperationKind::init;
};

/// What is to be said of a VD after an operation on it.
std::vector<Block> state_of(const Snapshot& snapshot, int id, OperationKind kind) {
    const auto* vd = find_vd(snapshot, id);
    if (vd == nullptr) {
        return {};
    }
    if (kind == OperationKind::check) {
        return {{check_notes({vd})}};
    }
    return {{vd_notes({vd})}};
}

Result<ChangePlan> plan_of(const VdOperation& wanted, const Vds& vds) {
    const auto name = fmt::format("{} {} Operation ", wanted.verb, wanted.operation);
    ChangePlan plan{Outcomes({{"VD", Align::number}, {"Operation"}}, "Failed"), name + "Success",
                    name + "Failed"};
    for (const auto* vd : vds) {
        Change one{{std::int64_t{vd->id}, wanted.operation},
                   "POST",
                   fmt::format("{}/Actions/{}", vd_uri(*vd), wanted.action),
                   wanted.body,
                   std::nullopt};
        if (wanted.watch) {
            one.watched = operation_of(*vd, wanted.kind);
            one.afterwards = [id = vd->id, kind = wanted.kind](const Snapshot& after) {
                return state_of(after, id, kind);
            };
        }
        plan.changes.push_back(std::move(one));
    }
    return plan;
}

Reply run_operation(Session& session, const Invocation& invocation, const VdOperation& wanted) {
    return change_vds(session, invocation, "None",
                      [&](const Snapshot&, const Vds& vds) -> Result<ChangePlan> {
                          return plan_of(wanted, vds);
                      });
}

}  // namespace

Reply delete_vd(Session& session, const Invocation& invocation) {
    return change_vds(
        session, invocation, "Delete VD failed",
        [](const Snapshot&, const Vds& vds) -> Result<ChangePlan> {
            ChangePlan plan{vd_outcomes(), "Delete VD succeeded", "Delete VD failed"};
            for (const auto* vd : vds) {
                plan.changes.push_back(
                    {{std::int64_t{vd->id}}, "DELETE", vd_uri(*vd), nullptr, std::nullopt});
            }
            plan.facts = loss_facts("This deletes for ever, with all data on it:", vds);
            return plan;
        });
}

Reply set_vd(Session& session, const Invocation& invocation) {
    return change_vds(
        session, invocation, "None",
        [&](const Snapshot& snapshot, const Vds& vds) -> Result<ChangePlan> {
            const auto name = invocation.value("name");
            if (vds.size() > 1) {
                return fail(Errc::invalid_argument,
                            "{} VDs cannot have one name; rename them one by one.", vds.size());
            }
            for (const auto& other : snapshot.vds) {
                if (other.name == name && other.id != vds.front()->id) {
                    return fail(Errc::invalid_argument, "{} has that name already.",
                                vd_text(other));
                }
            }
            ChangePlan plan{Outcomes({{"VD", Align::number}, {"Property"}, {"Value"}}, "Failed"),
                            "None", "None"};
            plan.list_successes = true;
            plan.changes.push_back({{std::int64_t{vds.front()->id}, "Name", name},
                                    "PATCH",
                                    vd_uri(*vds.front()),
                                    {{"Name", name}},
                                    std::nullopt});
            return plan;
        });
}

Reply start_init(Session& session, const Invocation& invocation) {
    const bool full = invocation.has("full");
    return change_vds(session, invocation, "None",
                      [&](const Snapshot&, const Vds& vds) -> Result<ChangePlan> {
                          // A fast one has ended when perchd answers.
                          auto plan = plan_of({"Start",
                                               "INIT",
                                               "Volume.Initialize",
                                               {{"InitializeType", full ? "Slow" : "Fast"}},
                                               full && invocation.has("watch"),
                                               OperationKind::init},
                                              vds);
                          plan->facts = loss_facts("This erases all data on:", vds);
                          return plan;
                      });
}

Reply stop_init(Session& session, const Invocation& invocation) {
    return run_operation(session, invocation,
                         {"Stop", "INIT", "Oem/PerchVolume.StopInitialize",
                          nlohmann::json::object(), false, OperationKind::init});
}

Reply start_check(Session& session, const Invocation& invocation) {
    return run_operation(session, invocation,
                         {"Start", "CC", "Volume.CheckConsistency", nlohmann::json::object(),
                          invocation.has("watch"), OperationKind::check});
}

Reply stop_check(Session& session, const Invocation& invocation) {
    return run_operation(session, invocation,
                         {"Stop", "CC", "Oem/PerchVolume.StopCheckConsistency",
                          nlohmann::json::object(), false, OperationKind::check});
}

}  // namespace perch::cli
