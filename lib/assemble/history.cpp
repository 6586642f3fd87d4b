// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/history.hpp"

#include <algorithm>

#include "assemble/assemble.hpp"
#include "util/collections.hpp"

namespace perch {

namespace {

const ConfigMember* member_on(const ConfigVd& vd, const Uuid& drive) {
    const auto found = std::find_if(vd.members.begin(), vd.members.end(),
                                    [&](const auto& row) { return row.drive == drive; });
    return found == vd.members.end() ? nullptr : &*found;
}

/// Whose configuration a drive carries. An import writes the configuration before the label.
Uuid controller_of(const FoundDrive& drive) {
    return drive.configuration ? drive.configuration->controller : drive.label->controller;
}

/// `ours` while it has a drive, else the controller most drives belong to; nil without labels.
Uuid our_controller(const std::vector<FoundDrive>& drives, const Uuid& ours) {
    std::map<Uuid, int> votes;
    for (const auto& drive : drives) {
        if (drive.label) {
            ++votes[controller_of(drive)];
        }
    }
    if (!ours.is_nil() && votes.contains(ours)) {
        return ours;
    }
    // std::map is ordered, and max_element keeps the first of equals: the lower UUID.
    const auto best =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return best == votes.end() ? Uuid{} : best->first;
}

/// The states that drives of one controller hold, by id.
std::vector<OtherHistory> states_of(const std::vector<FoundDrive>& drives, const Uuid& controller) {
    std::vector<OtherHistory> states;
    for (const auto& drive : drives) {
        if (!drive.label || !drive.configuration || controller_of(drive) != controller) {
            continue;
        }
        auto found = std::find_if(states.begin(), states.end(), [&](const auto& state) {
            return state.configuration.id == drive.configuration->id;
        });
        if (found == states.end()) {
            found = states.insert(found, {*drive.configuration, {}, {}});
        }
        auto& state = *found;
        state.drives.push_back(drive.label->drive);
        state.held.emplace(drive.label->drive, drive.configuration->id);
    }
    return states;
}

/// Whether `ours` has the state in its own past, by what it noted of the drive.
bool descends_from(const Configuration& ours, const Configuration& held, const Uuid& drive) {
    const auto* known = find_drive(ours, drive);
    return held.id == ours.id || held.id == ours.parent ||
           (known != nullptr &&
            (known->acknowledged == held.id || contains(known->attempted, held.id)));
}

template <typename Relation>
bool all_drives(const Configuration& a, const OtherHistory& b, Relation relation) {
    return std::all_of(b.drives.begin(), b.drives.end(),
                       [&](const auto& drive) { return relation(a, b.configuration, drive); });
}

/// Whether `other` is to be followed rather than `state`: it descends from it; or, where neither
/// descends from the other, nothing of `state` is lost with it, and it is the later one.
bool supersedes(const OtherHistory& other, const OtherHistory& state) {
    const bool after = all_drives(other.configuration, state, descends_from);
    const bool before = all_drives(state.configuration, other, descends_from);
    if (after || before) {
        return after && !before;
    }
    return all_drives(other.configuration, state, accounts_for) &&
           (!all_drives(state.configuration, other, accounts_for) ||
            other.configuration.sequence > state.configuration.sequence);
}

/// The state that none supersedes; of several the one that most drives hold (ties: the later, then
/// the lower id).
const OtherHistory* newest(const std::vector<OtherHistory>& states) {
    const OtherHistory* best = nullptr;
    const auto rank = [](const OtherHistory& state) {
        return std::tuple(state.drives.size(), state.configuration.sequence);
    };
    for (const auto& state : states) {
        const bool contained = std::any_of(states.begin(), states.end(), [&](const auto& other) {
            return &other != &state && supersedes(other, state);
        });
        if (contained) {
            continue;
        }
        if (best == nullptr || rank(state) > rank(*best) ||
            (rank(state) == rank(*best) && state.configuration.id < best->configuration.id)) {
            best = &state;
        }
    }
    return best;
}

/// Joins to each state the drives that hold an older state of its past: what is left are histories
/// that do not contain each other.
std::vector<OtherHistory> separate_histories(std::vector<OtherHistory> states) {
    std::vector<OtherHistory> histories;
    while (!states.empty()) {
        const auto best = static_cast<std::size_t>(newest(states) - states.data());
        auto history = std::move(states[best]);
        states.erase(states.begin() + static_cast<std::ptrdiff_t>(best));
        for (auto& state : states) {
            std::erase_if(state.drives, [&](const auto& drive) {
                if (!accounts_for(history.configuration, state.configuration, drive)) {
                    return false;
                }
                history.drives.push_back(drive);
                history.held.emplace(drive, state.configuration.id);
                state.held.erase(drive);
                return true;
            });
        }
        std::erase_if(states, [](const auto& state) { return state.drives.empty(); });
        histories.push_back(std::move(history));
    }
    return histories;
}

/// Whether a history that some drive follows forbids our group to start by itself: it went on with
/// a VD of the group, and the drive is a member, or it dropped a member that we count on.
bool forbids(const OtherHistory& other, const ConfigVd& vd) {
    const auto* theirs = find_vd(other.configuration, vd.uuid);
    if (theirs == nullptr) {
        return false;
    }
    const bool member = std::any_of(other.drives.begin(), other.drives.end(), [&](const auto& row) {
        return member_on(vd, row) != nullptr || member_on(*theirs, row) != nullptr;
    });
    const bool dropped_ours =
        std::any_of(vd.members.begin(), vd.members.end(), [&](const auto& ours) {
            const auto* row = member_on(*theirs, ours.drive);
            return takes_part(ours.state) && (row == nullptr || !takes_part(row->state));
        });
    return member || dropped_ours;
}

/// True if every member of the group that is there follows `other`: then nobody here has done
/// anything with our version of it.
bool all_members_follow(const Configuration& ours, int group, const OtherHistory& other,
                        const std::vector<FoundDrive>& drives) {
    bool any = false;
    for (const auto* vd : vds_of_group(ours, group)) {
        const auto* theirs = find_vd(other.configuration, vd->uuid);
        if (theirs == nullptr || theirs->deleting || vd->deleting) {
            return false;
        }
        for (const auto& drive : drives) {
            if (!drive.label || (member_on(*vd, drive.label->drive) == nullptr &&
                                 member_on(*theirs, drive.label->drive) == nullptr)) {
                continue;
            }
            if (!contains(other.drives, drive.label->drive)) {
                return false;
            }
            any = true;
        }
    }
    return any;
}

std::string free_name(const Configuration& configuration, const std::string& wanted) {
    const auto taken = [&](const std::string& name) {
        return std::any_of(configuration.vds.begin(), configuration.vds.end(),
                           [&](const auto& vd) { return vd.name == name; });
    };
    auto name = wanted;
    for (int number = 2; taken(name); ++number) {
        const auto suffix = fmt::format("-{}", number);
        name = wanted.substr(0, max_vd_name - suffix.size()) + suffix;
    }
    return name;
}

}  // namespace

bool accounts_for(const Configuration& ours, const Configuration& held, const Uuid& drive) {
    if (descends_from(ours, held, drive)) {
        return true;
    }
    // Else it went on without us. That matters only if it is a member of a VD, and of one that we
    // neither know to be just like that nor have deleted.
    return std::all_of(held.vds.begin(), held.vds.end(), [&](const auto& vd) {
        const auto* member = member_on(vd, drive);
        if (member == nullptr) {
            return true;
        }
        const auto* mine = find_vd(ours, vd.uuid);
        return mine == nullptr ? contains(ours.tombstones, vd.uuid) : mine->members == vd.members;
    });
}

bool is_ours(const FoundDrive& drive, const Configuration& configuration) {
    return drive.answered && drive.label && drive.content.empty() &&
           (drive.label->controller == configuration.controller ||
            find_drive(configuration, drive.label->drive) != nullptr);
}

History choose_history(const std::vector<FoundDrive>& drives, const Configuration& current,
                       bool only_writer) {
    History history;
    auto& ours = history.configuration;
    ours.controller = our_controller(drives, current.controller);
    const auto states = states_of(drives, ours.controller);
    if (only_writer && !current.id.is_nil()) {
        ours = current;
    } else if (const auto* state = newest(states); state != nullptr) {
        ours = state->configuration;
    }
    for (const auto& drive : drives) {
        if (drive.trouble && drive.trouble->code == Errc::incompatible &&
            (!drive.label || drive.label->controller == ours.controller)) {
            history.refusal = fmt::format("{}: {}", bay(drive), drive.trouble->message);
        }
        if (drive.label && drive.label->controller == ours.controller && !drive.configuration &&
            !drive.trouble) {
            history.behind.push_back(drive.label->drive);
        }
    }
    std::vector<OtherHistory> apart;
    for (const auto& state : states) {
        if (state.configuration.id == ours.id) {
            continue;
        }
        OtherHistory other{state.configuration, {}, {}};
        for (const auto& drive : state.drives) {
            if (accounts_for(ours, state.configuration, drive)) {
                history.behind.push_back(drive);
            } else {
                other.drives.push_back(drive);
                other.held.emplace(drive, state.configuration.id);
            }
        }
        if (!other.drives.empty()) {
            apart.push_back(std::move(other));
        }
    }
    history.others = separate_histories(std::move(apart));
    std::set<int> groups;
    for (const auto& vd : ours.vds) {
        groups.insert(vd.group);
    }
    for (const int group : groups) {
        const auto follows = std::find_if(
            history.others.begin(), history.others.end(),
            [&](const auto& other) { return all_members_follow(ours, group, other, drives); });
        if (follows != history.others.end() && !only_writer) {
            // Nobody here has done anything with our version of it: theirs is the later one.
            if (auto merged = with_group(ours, *follows, group)) {
                for (const auto& drive : follows->drives) {
                    if (accounts_for(*merged, follows->configuration, drive)) {
                        history.behind.push_back(drive);
                    }
                }
                std::erase_if(follows->drives,
                              [&](const auto& drive) { return contains(history.behind, drive); });
                ours = std::move(*merged);
                continue;
            }
        }
        for (const auto* vd : vds_of_group(ours, group)) {
            if (std::any_of(history.others.begin(), history.others.end(),
                            [&](const auto& other) { return forbids(other, *vd); })) {
                history.diverged.insert(group);
            }
        }
    }
    std::erase_if(history.others, [](const auto& other) { return other.drives.empty(); });
    std::set<Uuid> foreign;
    for (const auto& drive : drives) {
        if (drive.label && drive.configuration && controller_of(drive) != ours.controller) {
            foreign.insert(controller_of(drive));
        }
    }
    for (const auto& controller : foreign) {
        for (auto& other : separate_histories(states_of(drives, controller))) {
            // What an import has already taken over is ours.
            std::erase_if(other.drives, [&](const auto& drive) {
                const auto* known = find_drive(ours, drive);
                return known != nullptr && (known->acknowledged == other.held.at(drive) ||
                                            contains(known->attempted, other.held.at(drive)));
            });
            if (!other.drives.empty()) {
                history.others.push_back(std::move(other));
            }
        }
    }
    return history;
}

void settle_identities(std::vector<FoundDrive>& drives, const History& history) {
    std::map<Uuid, std::vector<FoundDrive*>> by_label;
    for (auto& drive : drives) {
        if (drive.label) {
            by_label[drive.label->drive].push_back(&drive);
        }
    }
    for (const auto& [uuid, holders] : by_label) {
        const auto* known = find_drive(history.configuration, uuid);
        for (auto* drive : holders) {
            const bool original = known != nullptr && known->identity == drive->identity.identity;
            if (holders.size() > 1 && !original) {
                drive->label.reset();
                drive->configuration.reset();
                drive->trouble = Error{
                    Errc::corrupt,
                    "it carries the label of another drive that is there too: a copy. If it is "
                    "not needed, erase it; it is never used"};
            }
        }
    }
    for (auto& drive : drives) {
        if (!drive.label) {
            continue;
        }
        for (const auto& other : history.others) {
            if (!contains(other.drives, drive.label->drive)) {
                continue;
            }
            const bool ours = other.configuration.controller == history.configuration.controller;
            drive.content = ours ? "part of another history of this controller"
                                 : "a configuration of another controller";
            for (const auto& vd : other.configuration.vds) {
                if (member_on(vd, drive.label->drive) != nullptr) {
                    drive.content += fmt::format("; member of the VD '{}'", vd.name);
                }
            }
        }
    }
}

Result<Configuration> with_group(const Configuration& ours, const OtherHistory& other, int group) {
    auto merged = ours;
    const auto incoming = vds_of_group(other.configuration, group);
    std::optional<int> replaced;
    std::vector<ConfigVd> previous;
    for (const auto* vd : incoming) {
        if (contains(ours.tombstones, vd->uuid)) {
            return fail(Errc::wrong_state, "the VD '{}' was deleted on this controller", vd->name);
        }
        if (const auto* mine = find_vd(ours, vd->uuid); mine != nullptr) {
            if (replaced && *replaced != mine->group) {
                return fail(Errc::wrong_state,
                            "its VDs belong to several drive groups of this controller");
            }
            replaced = mine->group;
        }
    }
    if (replaced) {
        for (const auto* vd : vds_of_group(ours, *replaced)) {
            previous.push_back(*vd);
        }
        std::erase_if(merged.vds, [&](const auto& vd) { return vd.group == *replaced; });
    }
    const auto number_used = [&](int id) { return find_vd(merged, id) != nullptr; };
    const auto group_used = [&](int id) { return !vds_of_group(merged, id).empty(); };
    const int place = replaced ? *replaced : group_used(group) ? first_free(0, group_used) : group;
    for (const auto* vd : incoming) {
        auto taken = *vd;
        const auto before = std::find_if(previous.begin(), previous.end(),
                                         [&](const auto& row) { return row.uuid == vd->uuid; });
        taken.id = before != previous.end() ? before->id : vd->id;
        if (number_used(taken.id)) {
            taken.id = first_free(1, number_used);
        }
        taken.group = place;
        taken.name = free_name(merged, vd->name);
        merged.vds.push_back(std::move(taken));
        for (const auto& member : vd->members) {
            const auto* drive = find_drive(other.configuration, member.drive);
            if (drive != nullptr && find_drive(ours, member.drive) == nullptr) {
                upsert_drive(merged, *drive);
            }
        }
    }
    // What they held is our past from now on; what others of the group hold is what it was.
    for (auto& drive : merged.drives) {
        if (contains(other.drives, drive.uuid)) {
            drive.attempted.push_back(other.held.at(drive.uuid));
        }
    }
    if (merged.vds.size() > max_vds || merged.drives.size() > max_drives || place >= max_groups) {
        return fail(Errc::limit, "this controller has no room for {} more VDs and their drives",
                    incoming.size());
    }
    return merged;
}

}  // namespace perch
