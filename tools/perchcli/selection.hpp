// SPDX-License-Identifier: GPL-2.0-or-later
// From a path to the rows of the model it names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "object_path.hpp"
#include "rows.hpp"

namespace perch::cli {

/// What exists of what was named, and what was named one by one and does not.
template <typename Found>
struct Selection {
    Found found;
    std::vector<Row> missing;  ///< cells for Detailed Status
};
using DriveSelection = Selection<Drives>;
using VdSelection = Selection<Vds>;
using GroupSelection = Selection<Groups>;
using ForeignSelection = Selection<ForeignGroups>;

/// All drives the path names, for looking.
DriveSelection select_drives(const Snapshot& snapshot, const ObjectPath& path);
/// The drives the path names, for changing: one per slot, and a slot number without enclosure must
/// mean one drive. Everything named must be there.
Result<DriveSelection> select_drives_to_change(const Snapshot& snapshot, const ObjectPath& path);
VdSelection select_vds(const Snapshot& snapshot, const ObjectPath& path);
GroupSelection select_groups(const Snapshot& snapshot, const ObjectPath& path);
ForeignSelection select_foreign(const Snapshot& snapshot, const ObjectPath& path);
/// The drives of a list "0:0-3,1:2"; each slot of each range must hold a drive, none twice.
Result<Drives> select_drive_list(const Snapshot& snapshot, std::string_view list);

}  // namespace perch::cli
