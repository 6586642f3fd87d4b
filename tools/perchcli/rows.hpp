// SPDX-License-Identifier: GPL-2.0-or-later
// The model as the dialect's rows and columns; every table that is shown is made here, once.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/snapshot.hpp"
#include "value.hpp"

namespace perch::cli {

using Drives = std::vector<const Drive*>;
using Vds = std::vector<const VirtualDrive*>;
using Groups = std::vector<const DriveGroup*>;
using ForeignGroups = std::vector<const ForeignGroup*>;

/// All drives by enclosure and slot (drives without a slot last in theirs); the others by id.
Drives all_drives(const Snapshot& snapshot);
Vds all_vds(const Snapshot& snapshot);
Groups all_groups(const Snapshot& snapshot);
ForeignGroups all_foreign(const Snapshot& snapshot);

/// Drives by id, for tables over all members of all VDs. Refers to the snapshot.
class DriveIndex {
  public:
    explicit DriveIndex(const Snapshot& snapshot);
    /// nullptr for an id that no drive has, such as that of an empty place.
    [[nodiscard]] const Drive* find(const std::string& id) const;

  private:
    std::unordered_map<std::string_view, const Drive*> drives_;
};

/// "0:3", or "-" for a drive without slot.
std::string slot_text(const Drive& drive);
/// The member's row in its span: what TOPOLOGY shows and insert takes.
int row_in_span(const DriveGroup& group, const Member& member);
/// "v1 (data)", or "v1" without a name.
std::string vd_text(const VirtualDrive& vd);
/// "mounted on /mnt, swap", or "nothing".
std::string users_text(const VirtualDrive& vd);
/// "Rebuild (36%)", or "None".
std::string operation_text(const std::optional<Operation>& operation);
/// "3 Minutes", or "-" while there is no speed.
std::string time_left_text(const Operation& operation);
/// "Optl", "Pdgd", "Dgrd", "OfLn".
std::string vd_state_text(VdState state);
/// "2 (1 GiB)", the value of the property "Drive Coercion Mode".
std::string coercion_text(const std::string& coercion);
/// ISO 8601 UTC as local "2026/11/30 15:05:16", or as it came when it cannot be read.
std::string local_time_text(const std::string& iso);
/// ISO 8601 UTC as local "Mon Nov 30 15:05:16 2026".
std::string event_time_text(const std::string& iso);

Table drive_table(std::string title, const Drives& drives);
Table lu_table(std::string title, const Drives& drives, bool with_index);
Table vd_table(std::string title, const Vds& vds);
/// The drives of a VD in member order; a member that has left the controller keeps a row.
Table member_table(std::string title, const DriveIndex& drives, const VirtualDrive& vd);
/// Groups, their spans, and the places in these, with dedicated spares; global spares only beside
/// all groups.
Table topology_table(const Snapshot& snapshot, const Groups& groups);
/// Members and dedicated spares of groups.
Drives drives_of_groups(const Snapshot& snapshot, const Groups& groups);
Table free_space_table(const Groups& groups);
Table foreign_table(const ForeignGroups& groups);
/// Enclosures that have drives (or places of missing members).
std::vector<int> enclosure_ids(const Snapshot& snapshot);
Table enclosure_table(std::string title, const Snapshot& snapshot, const std::vector<int>& ids);
Table rebuild_table(const Drives& drives);
/// Progress of a VD operation of that kind: "VD Operation Status".
Table vd_operation_table(const Vds& vds, OperationKind kind);
/// {Ctrl_Prop, Value}.
Table controller_properties_table(std::vector<Row> rows);

Text drive_legend();
Text vd_legend();
Text topology_legend();
Text enclosure_legend();
Text foreign_legend();
Text free_space_legend();

/// How many failures each VD survives and who uses it.
Notes vd_notes(const Vds& vds);
/// What the last check of each VD found; a VD that was not checked has no line.
Notes check_notes(const Vds& vds);
/// What is on the drives that Perch will not touch.
Notes drive_notes(const Drives& drives);
/// All problems as data; in text, all of them when listed is true.
Notes problem_notes(const Snapshot& snapshot, bool listed);
/// A line that says so when the model was made without perchd.
std::vector<std::string> daemon_banner(const Snapshot& snapshot);
/// That line and the worst problem, for the very top: what, what Perch does, what to do, how many
/// more.
std::vector<std::string> worst_problem(const Snapshot& snapshot);

}  // namespace perch::cli
