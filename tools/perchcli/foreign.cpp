// SPDX-License-Identifier: GPL-2.0-or-later
// Foreign drive groups: what they are, what an import would make of them, import, clear.
#include <algorithm>
#include <set>

#include "change.hpp"
#include "confirm.hpp"
#include "handlers.hpp"
#include "rows.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

constexpr const char* none_found = "No foreign configuration found.";

/// The groups that the path names, or the reply that says why there are none.
struct Chosen {
    Snapshot snapshot;
    ForeignGroups groups;  ///< refer to the snapshot
    std::optional<Reply> instead;
};

/// `looking`: an empty answer is no failure.
std::unique_ptr<Chosen> choose(Session& session, const Invocation& invocation, bool looking) {
    auto chosen = std::make_unique<Chosen>();
    auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        chosen->instead = failure_reply(snapshot.error());
        return chosen;
    }
    chosen->snapshot = std::move(*snapshot);
    const auto selection = select_foreign(chosen->snapshot, invocation.path);
    Reply reply;
    reply.preface = daemon_banner(chosen->snapshot);
    reply.description = none_found;
    if (chosen->snapshot.foreign.empty() && looking && selection.missing.empty()) {
        chosen->instead = std::move(reply);
    } else if (chosen->snapshot.foreign.empty()) {
        Outcomes outcomes({{"Controller", Align::number}}, "Failure");
        outcomes.failure({std::int64_t{0}}, "CLI", {Errc::wrong_state, "No foreign configuration"});
        reply.error = outcomes.error();
        reply.description_is_final = true;
        reply.detailed_status = outcomes.table();
        chosen->instead = std::move(reply);
    } else if (!selection.missing.empty() || selection.found.empty()) {
        auto missing = selection.missing;
        if (missing.empty()) {
            missing.push_back({std::int64_t{invocation.path.foreign->ranges.front().from}});
        }
        report_missing(reply, group_outcomes(), missing, "There is no such foreign drive group",
                       none_found);
        chosen->instead = std::move(reply);
    } else {
        chosen->groups = selection.found;
    }
    return chosen;
}

Table foreign_vd_table(const ForeignGroup& group, bool preview) {
    Table table{"VD LIST", {{"Name"}, {"TYPE"}, {"Size", Align::right}}, {}, false, {}};
    if (preview) {
        table.columns.insert(table.columns.end(), {{"Name after import"}, {"State after import"}});
    }
    table.columns.push_back({"UUID"});
    for (const auto& vd : group.vds) {
        Row row{vd.name, group.level, format_size(vd.size_bytes)};
        if (preview) {
            row.emplace_back(vd.import_name);
            row.emplace_back(vd.state);
        }
        row.emplace_back(vd.uuid);
        table.rows.push_back(std::move(row));
    }
    return table;
}

/// Why VDs would not be Optimal after an import: sentences, too long for a column.
Notes reason_notes(const ForeignGroup& group) {
    Notes notes{{"Reasons", {{"Name"}, {"Reason"}}, {}, false, {}}, {}};
    for (const auto& vd : group.vds) {
        if (!vd.reason.empty()) {
            notes.data.rows.push_back({vd.name, vd.reason});
            notes.lines.push_back(fmt::format("{} would be {}: {}", vd.name, vd.state, vd.reason));
        }
    }
    return notes;
}

std::string missing_text(const ForeignGroup& group) {
    return group.missing.empty() ? "None" : fmt::format("{}", fmt::join(group.missing, ", "));
}

/// One foreign group in full; preview adds what an import would make of it.
std::vector<Block> foreign_entry(const DriveIndex& index, const ForeignGroup& group, bool preview) {
    Drives drives;
    for (const auto& id : group.drives) {
        if (const auto* drive = index.find(id)) {
            drives.push_back(drive);
        }
    }
    Properties properties{"Foreign Drive Group",
                          {{"DG", std::int64_t{group.id}},
                           {"Type", group.level},
                           {"Import possible", yes_no(group.complete)},
                           {"Missing drives", missing_text(group)},
                           {"Why foreign", group.note.empty() ? "-" : group.note},
                           {"From controller", group.source},
                           {"Drive group there", std::int64_t{group.original_group}}},
                          {}};
    auto vds = foreign_vd_table(group, preview);
    vds.text_title = fmt::format("VDs of /c0/f{}", group.id);
    auto table = drive_table("Drives", drives);
    table.text_title = fmt::format("Drives of /c0/f{}", group.id);
    std::vector<Block> blocks{{std::move(properties)}, {std::move(vds)}};
    if (preview) {
        blocks.push_back({reason_notes(group)});
    }
    blocks.push_back({std::move(table)});
    return blocks;
}

/// "f0: v3 (data), RAID5, 21.000 GiB: would be Degraded (s3 is missing)", for each VD.
std::vector<std::string> vd_facts(const ForeignGroup& group, bool import) {
    std::vector<std::string> facts;
    for (const auto& vd : group.vds) {
        auto fact = fmt::format("  f{}: {}, {}, {}", group.id, vd.name, group.level,
                                format_size(vd.size_bytes));
        if (import) {
            fact += fmt::format(": will be {}", vd.state);
            fact += vd.reason.empty() ? "" : fmt::format(" ({})", vd.reason);
            fact += vd.import_name == vd.name ? "" : fmt::format(", named {}", vd.import_name);
        }
        facts.push_back(std::move(fact));
    }
    if (import && !group.note.empty()) {
        facts.push_back("      " + group.note);
    }
    return facts;
}

/// Names each group by more than its number, which may mean another one when drives come or go
/// between the look and the request.
nlohmann::json choices_of(const ForeignGroups& groups) {
    auto list = nlohmann::json::array();
    for (const auto* group : groups) {
        list.push_back({{"Id", group->id},
                        {"History", group->history},
                        {"OriginalGroup", group->original_group}});
    }
    return {{"Groups", std::move(list)}};
}

Result<Outcome> request(Session& session, const std::string& action, const ForeignGroups& groups) {
    return change(session, "POST",
                  fmt::format("{}/Actions/Oem/PerchStorage.{}", storage_uri, action),
                  choices_of(groups));
}

Reply show_reply(Session& session, const Invocation& invocation, bool full, bool preview) {
    auto chosen = choose(session, invocation, true);
    if (chosen->instead) {
        return std::move(*chosen->instead);
    }
    const auto& groups = chosen->groups;
    Reply reply;
    reply.preface = daemon_banner(chosen->snapshot);
    reply.description = "Operation on foreign configuration Succeeded";
    reply.blocks = {{foreign_table(groups)},
                    {foreign_legend()},
                    {Pair{"Total foreign Drive Groups", static_cast<std::int64_t>(groups.size())}}};
    if (full) {
        const DriveIndex index(chosen->snapshot);
        Group list{preview ? "Foreign Import Preview" : "Foreign Drive Groups", {}};
        for (const auto* group : groups) {
            list.entries.push_back(foreign_entry(index, *group, preview));
        }
        reply.blocks.push_back({std::move(list)});
    } else {
        Notes notes{{"Foreign Notes", {{"DG"}, {"Note"}, {"Missing drives"}}, {}, false, {}}, {}};
        for (const auto* group : groups) {
            notes.data.rows.push_back({std::int64_t{group->id}, group->note, missing_text(*group)});
            notes.lines.push_back(fmt::format("f{}: {}", group->id, group->note));
        }
        reply.blocks.push_back({std::move(notes)});
    }
    return reply;
}

/// The VDs of a model that an earlier one did not have.
Vds new_vds(const Snapshot& before, const Snapshot& after) {
    std::set<std::string> known;
    for (const auto& vd : before.vds) {
        known.insert(vd.uuid);
    }
    Vds vds;
    for (const auto* vd : all_vds(after)) {
        if (known.count(vd->uuid) == 0) {
            vds.push_back(vd);
        }
    }
    return vds;
}

Error incomplete_error(const ForeignGroup& group) {
    std::string why;
    for (const auto& vd : group.vds) {
        if (vd.state == "Offline") {
            why += fmt::format("{}{} would be Offline{}", why.empty() ? "" : "; ", vd.name,
                               vd.reason.empty() ? "" : fmt::format(" ({})", vd.reason));
        }
    }
    return {Errc::wrong_state,
            fmt::format("Incomplete foreign configuration: f{0} cannot be imported: {1}. Missing: "
                        "{2}. Put what is missing in, or clear it ('/c0/f{0} del').",
                        group.id, why, missing_text(group))};
}

}  // namespace

Reply show_foreign(Session& session, const Invocation& invocation) {
    return show_reply(session, invocation, false, false);
}

Reply show_foreign_all(Session& session, const Invocation& invocation) {
    return show_reply(session, invocation, true, false);
}

Reply preview_foreign(Session& session, const Invocation& invocation) {
    return show_reply(session, invocation, true, true);
}

Reply import_foreign(Session& session, const Invocation& invocation) {
    auto chosen = choose(session, invocation, false);
    if (chosen->instead) {
        return std::move(*chosen->instead);
    }
    // "All" means those that can be imported; one that was named must be.
    ForeignGroups groups;
    std::vector<std::string> left_out;
    const auto named = invocation.path.foreign->singles();
    for (const auto* group : chosen->groups) {
        const auto error = incomplete_error(*group);
        const bool by_name = std::find(named.begin(), named.end(), group->id) != named.end();
        if (!group->complete && (by_name || chosen->groups.size() == 1)) {
            return failure_reply(error);
        }
        if (group->complete) {
            groups.push_back(group);
        } else {
            left_out.push_back(error.message);
        }
    }
    if (groups.empty()) {
        return failure_reply(incomplete_error(*chosen->groups.front()));
    }
    Notes imported{{"Imported", {{"DG"}, {"Name"}, {"Name after import"}}, {}, false, {}}, {}};
    for (const auto* group : groups) {
        for (const auto& vd : group->vds) {
            imported.data.rows.push_back({std::int64_t{group->id}, vd.name, vd.import_name});
        }
        if (session.terminal.interactive()) {
            session.terminal.err(fmt::format("Importing f{}:\n", group->id));
            for (const auto& fact : vd_facts(*group, true)) {
                session.terminal.err(fact + "\n");
            }
        }
    }
    const auto outcome = request(session, "ImportForeign", groups);
    if (!outcome) {
        return failure_reply(outcome.error());
    }
    const auto vds = new_vds(chosen->snapshot, outcome->snapshot);
    imported.lines = std::move(left_out);
    Reply reply;
    reply.description = "Successfully imported foreign configuration";
    reply.blocks = {{vd_table("VD LIST", vds)}, {vd_legend()}, {vd_notes(vds)}, {imported}};
    return reply;
}

Reply clear_foreign(Session& session, const Invocation& invocation) {
    auto chosen = choose(session, invocation, false);
    if (chosen->instead) {
        return std::move(*chosen->instead);
    }
    std::vector<std::string> facts{"This erases for ever, with all data on it:"};
    const DriveIndex index(chosen->snapshot);
    for (const auto* group : chosen->groups) {
        std::vector<std::string> slots;
        for (const auto& id : group->drives) {
            const auto* drive = index.find(id);
            slots.push_back(drive == nullptr
                                ? id
                                : fmt::format("{} (SN {})", slot_text(*drive), drive->serial));
        }
        for (auto& fact : vd_facts(*group, false)) {
            facts.push_back(std::move(fact));
        }
        facts.push_back(fmt::format("      on {}", fmt::join(slots, ", ")));
    }
    if (const auto confirmed = confirm(session, invocation, facts); !confirmed) {
        return failure_reply(confirmed.error());
    }
    const auto outcome = request(session, "ClearForeign", chosen->groups);
    if (!outcome) {
        return failure_reply(outcome.error());
    }
    Reply reply;
    reply.description = "Successfully deleted foreign configuration";
    return reply;
}

}  // namespace perch::cli
