// SPDX-License-Identifier: GPL-2.0-or-later
// Other histories: drive groups of another controller, and groups of ours that have gone two ways.
// Nothing of them is touched until somebody imports or clears them.
#include <algorithm>

#include "operations/controller.hpp"
#include "util/collections.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

std::set<int> groups_of(const Configuration& configuration) {
    std::set<int> groups;
    for (const auto& vd : configuration.vds) {
        if (!vd.deleting) {
            groups.insert(vd.group);
        }
    }
    return groups;
}

bool any_member_in(const Configuration& configuration, int group, const std::vector<Uuid>& drives) {
    const auto vds = vds_of_group(configuration, group);
    return std::any_of(vds.begin(), vds.end(), [&](const auto* vd) {
        return std::any_of(vd->members.begin(), vd->members.end(),
                           [&](const auto& member) { return contains(drives, member.drive); });
    });
}

}  // namespace

std::vector<Controller::Foreign> Controller::find_foreign() {
    std::vector<Foreign> found;
    const auto add = [&](const OtherHistory& history, int group, bool own_version) {
        Foreign foreign;
        foreign.history = history;
        foreign.own_version = own_version;
        auto& shown = foreign.shown;
        shown.id = static_cast<int>(found.size());
        shown.source = history.configuration.controller.str();
        shown.history = history.configuration.id.str();
        shown.original_group = group;
        shown.level = to_string(vds_of_group(history.configuration, group).front()->level);
        preview(foreign);
        found.push_back(std::move(foreign));
    };
    for (const auto& history : history_.others) {
        for (const int group : groups_of(history.configuration)) {
            if (any_member_in(history.configuration, group, history.drives)) {
                add(history, group, false);
            }
        }
    }
    for (const int group : history_.diverged) {
        const auto vds = vds_of_group(configuration_, group);
        const bool running = std::any_of(vds.begin(), vds.end(), [&](const auto* vd) {
            const auto* runtime = runtime_of(*vd);
            return runtime != nullptr && runtime->status;
        });
        OtherHistory own{configuration_, {}, {}};
        for (const auto& drive : drives_) {
            if (is_ours(drive, configuration_)) {
                own.drives.push_back(drive.label->drive);
            }
        }
        if (!running && any_member_in(configuration_, group, own.drives)) {
            add(own, group, true);
        }
    }
    for (const auto& foreign : found) {
        const bool known = std::any_of(foreign_.begin(), foreign_.end(), [&](const auto& before) {
            return before.shown.history == foreign.shown.history &&
                   before.shown.original_group == foreign.shown.original_group;
        });
        if (!known) {
            events_.emit(
                EventKind::foreign_found,
                fmt::format("A foreign drive group was found ({}, {} drives). {} "
                            "'perchcli /c0/fall show' lists it.",
                            foreign.shown.level, foreign.shown.drives.size(), foreign.shown.note));
        }
    }
    return found;
}

/// `base` with the foreign group taken over. Members that follow another history than the one that
/// is imported are counted on no more: their content is older or other, and is rebuilt.
Result<Configuration> Controller::imported(const Configuration& base,
                                           const Foreign& foreign) const {
    auto merged = foreign.own_version
                      ? Result<Configuration>(base)
                      : with_group(base, foreign.history, foreign.shown.original_group);
    if (!merged) {
        return merged;
    }
    std::set<Uuid> vds;
    for (const auto* vd :
         vds_of_group(foreign.history.configuration, foreign.shown.original_group)) {
        vds.insert(vd->uuid);
    }
    for (auto& vd : merged->vds) {
        if (!vds.contains(vd.uuid)) {
            continue;
        }
        for (auto& member : vd.members) {
            const bool there = find_by_uuid(drives_, member.drive) != nullptr;
            if (there && takes_part(member.state) &&
                !contains(foreign.history.drives, member.drive)) {
                member.state = MemberState::offline;
            }
        }
    }
    if (foreign.own_version) {
        // The other side is our past from now on, and no other history.
        for (const auto& other : history_.others) {
            if (other.configuration.controller != base.controller) {
                continue;
            }
            for (auto& drive : merged->drives) {
                if (contains(other.drives, drive.uuid) &&
                    group_of_drive(*merged, drive.uuid) == foreign.shown.original_group) {
                    drive.attempted.push_back(other.held.at(drive.uuid));
                }
            }
        }
    }
    return merged;
}

/// What an import would make of the group, and what it would lose.
void Controller::preview(Foreign& foreign) {
    auto& shown = foreign.shown;
    const auto& theirs = foreign.history.configuration;
    const auto vds = vds_of_group(theirs, shown.original_group);
    for (const auto& member : vds.front()->members) {
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive != nullptr && contains(foreign.history.drives, member.drive)) {
            shown.drives.push_back(drive->identity.id());
        } else if (const auto* known = find_drive(theirs, member.drive); known != nullptr) {
            shown.missing.push_back(
                drive == nullptr ? describe_drive(*known)
                                 : fmt::format("{}, which follows another history", bay(*drive)));
        }
    }
    const bool ours = theirs.controller == configuration_.controller;
    if (ours) {
        shown.note = fmt::format(
            "Its drives went two ways: each side was used without the other. Importing this side "
            "({}) loses what was written on the other one since they parted.",
            fmt::join(shown.drives, ", "));
    } else {
        shown.note = fmt::format("It belongs to the controller {}.", shown.source);
        if (!shown.missing.empty()) {
            shown.note += fmt::format(" Missing of it: {}.", fmt::join(shown.missing, ", "));
        }
    }
    const auto merged = imported(configuration_, foreign);
    shown.complete = merged.has_value();
    for (const auto* vd : vds) {
        ForeignVd row;
        row.uuid = vd->uuid.str();
        row.name = vd->name;
        row.import_name = vd->name;
        row.size_bytes = vd->vd_bytes;
        row.state = "Offline";
        if (!merged) {
            row.reason = merged.error().message;
            shown.vds.push_back(std::move(row));
            continue;
        }
        const auto* after = find_vd(*merged, vd->uuid);
        row.import_name = after->name;
        const auto records = read_records(*after);
        AssemblyPlan plan;
        if (records) {
            plan = plan_assembly(*merged, *after, drives_, *records);
        } else {
            plan.reason = records.error().message;
        }
        row.reason = plan.reason;
        if (plan.readiness != Readiness::impossible) {
            const bool whole =
                std::all_of(plan.vd.members.begin(), plan.vd.members.end(),
                            [](const auto& member) { return member.role == MemberRole::in_sync; });
            row.state = whole ? "Optimal" : "Degraded";
        }
        shown.complete = shown.complete && row.state != "Offline";
        shown.vds.push_back(std::move(row));
    }
}

Result<void> Controller::import_foreign(const std::vector<int>& groups) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    std::vector<Foreign> chosen;
    for (const auto& foreign : foreign_) {
        if (groups.empty() ? foreign.shown.complete : contains(groups, foreign.shown.id)) {
            chosen.push_back(foreign);
        }
    }
    if (chosen.empty() || (!groups.empty() && chosen.size() != groups.size())) {
        return fail(Errc::not_found, "{}",
                    foreign_.empty() ? "no foreign configuration found"
                    : groups.empty()
                        ? "no foreign drive group is complete; 'perchcli /c0/fall "
                          "import preview' says what is missing"
                        : "no such foreign drive group; 'perchcli /c0/fall show' lists "
                          "them");
    }
    std::set<std::string> taken;
    auto next = configuration_;
    for (const auto& foreign : chosen) {
        const auto& shown = foreign.shown;
        if (!shown.complete) {
            return fail(Errc::wrong_state, "incomplete foreign configuration: {} of f{}. {}",
                        shown.vds.front().reason, shown.id, shown.note);
        }
        for (const auto& vd : shown.vds) {
            if (!taken.insert(vd.uuid).second) {
                return fail(Errc::wrong_state,
                            "two histories of the VD '{}' are there; import one of them by its "
                            "number ('perchcli /c0/fall import preview' shows what each would "
                            "lose)",
                            vd.name);
            }
        }
        auto merged = imported(next, foreign);
        if (!merged) {
            return tl::make_unexpected(merged.error());
        }
        next = std::move(*merged);
    }
    for (const auto& vd : next.vds) {
        const auto* runtime = runtime_of(vd);
        if (taken.contains(vd.uuid.str()) && runtime != nullptr && runtime->status) {
            return fail(Errc::wrong_state,
                        "{} runs with our version of it; the other side can only be cleared",
                        vd_title(vd));
        }
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    for (const auto& foreign : chosen) {
        const auto* vd = find_vd(configuration_, *Uuid::parse(foreign.shown.vds.front().uuid));
        events_.emit(EventKind::foreign_imported,
                     fmt::format("A foreign drive group was imported as drive group {} ({}, {} "
                                 "VDs).",
                                 vd->group, foreign.shown.level, foreign.shown.vds.size()));
    }
    refresh();
    return {};
}

Result<void> Controller::clear_foreign(const std::vector<int>& groups) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    std::vector<const FoundDrive*> drives;
    std::size_t chosen = 0;
    for (const auto& foreign : foreign_) {
        if (!groups.empty() ? !contains(groups, foreign.shown.id) : foreign.own_version) {
            continue;
        }
        if (foreign.own_version) {
            return fail(Errc::wrong_state,
                        "f{} is this controller's own version of its VDs; delete the VDs, or clear "
                        "the other side",
                        foreign.shown.id);
        }
        ++chosen;
        for (const auto& id : foreign.shown.drives) {
            const auto drive = found_drive(id);
            if (!drive) {
                return tl::make_unexpected(drive.error());
            }
            if (!(*drive)->users.empty()) {
                return fail(Errc::in_use, "{} is in use ({}); it is refused even with force",
                            bay(**drive), (*drive)->users.front());
            }
            drives.push_back(*drive);
        }
    }
    if (chosen == 0 || (!groups.empty() && chosen != groups.size())) {
        return fail(Errc::not_found, "{}",
                    foreign_.empty()
                        ? "no foreign configuration found"
                        : "no such foreign drive group; 'perchcli /c0/fall show' lists "
                          "them");
    }
    std::string cleared;
    for (const auto* drive : drives) {
        if (auto taken = access_.take(drive->identity, configuration_.controller,
                                      configuration_.settings.coercion);
            !taken) {
            return tl::make_unexpected(taken.error());
        }
        cleared += (cleared.empty() ? "" : ", ") + bay(*drive);
    }
    events_.emit(
        EventKind::foreign_cleared,
        fmt::format("Foreign configurations were erased by an administrator from {}.", cleared));
    refresh();
    return {};
}

}  // namespace perch
