// SPDX-License-Identifier: GPL-2.0-or-later
#include "selection.hpp"

#include <algorithm>
#include <set>

namespace perch::cli {

namespace {

/// The rows whose ids are named, in order of ids, and the ids named one by one that no row has.
template <typename Item>
Selection<std::vector<const Item*>> select_ids(const std::vector<Item>& rows, const IdSet& ids) {
    Selection<std::vector<const Item*>> selection;
    std::set<int> known;
    for (const auto& row : rows) {
        known.insert(row.id);
        if (ids.contains(row.id)) {
            selection.found.push_back(&row);
        }
    }
    std::sort(selection.found.begin(), selection.found.end(),
              [](const auto* left, const auto* right) { return left->id < right->id; });
    for (const int id : ids.singles()) {
        if (known.find(id) == known.end()) {
            selection.missing.push_back({std::int64_t{id}});
        }
    }
    return selection;
}

/// The drive in a slot of a list, or why there is none.
Result<const Drive*> drive_in_slot(const Snapshot& snapshot, const std::optional<int>& enclosure,
                                   int slot) {
    if (enclosure) {
        const auto* drive = find_slot(snapshot, *enclosure, slot);
        if (drive == nullptr) {
            return fail(Errc::not_found, "There is no drive in {}:{}.", *enclosure, slot);
        }
        return drive;
    }
    Drives candidates;
    for (const int id : enclosure_ids(snapshot)) {
        if (const auto* drive = find_slot(snapshot, id, slot)) {
            candidates.push_back(drive);
        }
    }
    if (candidates.empty()) {
        return fail(Errc::not_found, "There is no drive in slot {}.", slot);
    }
    if (candidates.size() > 1) {
        return fail(Errc::invalid_argument,
                    "Slot {} exists in several enclosures; write the one you mean, such as {}.",
                    slot, slot_text(*candidates.front()));
    }
    return candidates.front();
}

}  // namespace

DriveSelection select_drives(const Snapshot& snapshot, const ObjectPath& path) {
    DriveSelection selection;
    const IdSet everything{true, {}};
    const auto& enclosures = path.enclosures ? *path.enclosures : everything;
    const auto& slots = path.slots ? *path.slots : everything;
    for (const auto* drive : all_drives(snapshot)) {
        const bool slot_fits = slots.all || (drive->slot >= 0 && slots.contains(drive->slot));
        if (enclosures.contains(drive->enclosure) && slot_fits) {
            selection.found.push_back(drive);
        }
    }
    const auto has = [&](std::optional<int> enclosure, std::optional<int> slot) {
        return std::any_of(selection.found.begin(), selection.found.end(), [&](const auto* drive) {
            return (!enclosure || drive->enclosure == *enclosure) &&
                   (!slot || drive->slot == *slot);
        });
    };
    for (const int enclosure : enclosures.singles()) {
        if (slots.singles().empty() && !has(enclosure, {})) {
            selection.missing.push_back({fmt::format("{}:-", enclosure), "-"});
        }
        for (const int slot : slots.singles()) {
            if (!has(enclosure, slot)) {
                selection.missing.push_back({fmt::format("{}:{}", enclosure, slot), "-"});
            }
        }
    }
    for (const int slot : slots.singles()) {
        if (enclosures.singles().empty() && !has({}, slot)) {
            selection.missing.push_back({fmt::format("-:{}", slot), "-"});
        }
    }
    return selection;
}

Result<DriveSelection> select_drives_to_change(const Snapshot& snapshot, const ObjectPath& path) {
    auto selection = select_drives(snapshot, path);
    std::set<std::pair<int, int>> places;
    Drives unique;
    for (const auto* drive : selection.found) {
        // A missing member's old slot may hold another drive: that one is meant.
        const auto* owner = find_slot(snapshot, drive->enclosure, drive->slot);
        const auto* meant = owner == nullptr ? drive : owner;
        if (places.emplace(meant->enclosure, meant->slot).second || meant->slot < 0) {
            unique.push_back(meant);
        }
    }
    selection.found = std::move(unique);
    if (!path.enclosures && path.slots && !path.slots->all) {
        std::set<int> slots;
        for (const auto* drive : selection.found) {
            if (!slots.insert(drive->slot).second) {
                return fail(Errc::invalid_argument,
                            "Slot {0} exists in several enclosures; write the one you mean, such "
                            "as /c0/e{1}/s{0}.",
                            drive->slot, drive->enclosure);
            }
        }
    }
    return selection;
}

VdSelection select_vds(const Snapshot& snapshot, const ObjectPath& path) {
    return select_ids(snapshot.vds, *path.vds);
}

GroupSelection select_groups(const Snapshot& snapshot, const ObjectPath& path) {
    return select_ids(snapshot.groups, *path.groups);
}

ForeignSelection select_foreign(const Snapshot& snapshot, const ObjectPath& path) {
    return select_ids(snapshot.foreign, *path.foreign);
}

Result<Drives> select_drive_list(const Snapshot& snapshot, std::string_view list) {
    const auto ranges = parse_drive_list(list);
    if (!ranges) {
        return tl::make_unexpected(ranges.error());
    }
    Drives drives;
    for (const auto& range : *ranges) {
        for (int slot = range.slots.from; slot <= range.slots.to; ++slot) {
            const auto drive = drive_in_slot(snapshot, range.enclosure, slot);
            if (!drive) {
                return tl::make_unexpected(drive.error());
            }
            if (std::find(drives.begin(), drives.end(), *drive) != drives.end()) {
                return fail(Errc::invalid_argument, "The drive in {} is named twice.",
                            slot_text(**drive));
            }
            drives.push_back(*drive);
        }
    }
    return drives;
}

}  // namespace perch::cli
