// SPDX-License-Identifier: GPL-2.0-or-later
#include "selection.hpp"

#include <algorithm>
#include <set>

namespace perch::cli {

namespace {

std::int64_t error_code(const Error& error) {
    return errc_info(error.code).exit_status;
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
            selection.missing.push_back(fmt::format("{}:-", enclosure));
        }
        for (const int slot : slots.singles()) {
            if (!has(enclosure, slot)) {
                selection.missing.push_back(fmt::format("{}:{}", enclosure, slot));
            }
        }
    }
    for (const int slot : slots.singles()) {
        if (enclosures.singles().empty() && !has({}, slot)) {
            selection.missing.push_back(fmt::format("-:{}", slot));
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
    VdSelection selection;
    const auto& ids = *path.vds;
    for (const auto* vd : all_vds(snapshot)) {
        if (ids.contains(vd->id)) {
            selection.found.push_back(vd);
        }
    }
    for (const int id : ids.singles()) {
        if (find_vd(snapshot, id) == nullptr) {
            selection.missing.push_back(id);
        }
    }
    return selection;
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

DriveOutcomes::DriveOutcomes()
    : table_{"Detailed Status",
             {{"EID:Slt"},
              {"PID", Align::number},
              {"Status"},
              {"ErrType"},
              {"ErrCd", Align::number},
              {"ErrMsg"}},
             {},
             false,
             {}} {}

void DriveOutcomes::success(const Drive& drive) {
    table_.rows.push_back({slot_text(drive), std::int64_t{drive.pid}, "Success", "-", "-", "-"});
}

void DriveOutcomes::failure(std::string slot, Value pid, std::string_view type,
                            const Error& error) {
    table_.rows.push_back({std::move(slot), std::move(pid), "Failure", std::string(type),
                           error_code(error), error.message});
}

VdOutcomes::VdOutcomes()
    : table_{"Detailed Status",
             {{"VD", Align::number}, {"Status"}, {"ErrType"}, {"ErrCd", Align::number}, {"ErrMsg"}},
             {},
             false,
             {}} {}

void VdOutcomes::success(int id) {
    table_.rows.push_back({std::int64_t{id}, "Success", "-", "-", "-"});
}

void VdOutcomes::failure(int id, std::string_view type, const Error& error) {
    table_.rows.push_back(
        {std::int64_t{id}, "Failed", std::string(type), error_code(error), error.message});
}

}  // namespace perch::cli
