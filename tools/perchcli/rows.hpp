// SPDX-License-Identifier: GPL-2.0-or-later
// The model as the dialect's rows and columns; every table that is shown is made here, once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"
#include "value.hpp"

namespace perch::cli {

using Drives = std::vector<const Drive*>;
using Vds = std::vector<const VirtualDrive*>;

/// All drives by enclosure and slot (drives without a slot last in theirs); all VDs by id.
Drives all_drives(const Snapshot& snapshot);
Vds all_vds(const Snapshot& snapshot);

/// "0:3", or "-" for a drive without slot.
std::string slot_text(const Drive& drive);
/// "v1 (data)", or "v1" without a name.
std::string vd_text(const VirtualDrive& vd);
/// "mounted on /mnt, swap", or "nothing".
std::string users_text(const VirtualDrive& vd);
/// "Rebuild (36%)", or "None".
std::string operation_text(const std::optional<Operation>& operation);
/// "3 Minutes", or "-" while there is no speed.
std::string time_left_text(const Operation& operation);
/// "Optl", "Pdgd", "Dgrd", "OfLn".
std::string vd_state_text(const VirtualDrive& vd);
/// ISO 8601 UTC as local "2026/11/30 15:05:16", or as it came when it cannot be read.
std::string local_time_text(const std::string& iso);
/// ISO 8601 UTC as local "Mon Nov 30 15:05:16 2026".
std::string event_time_text(const std::string& iso);

Table drive_table(std::string title, const Drives& drives);
Table lu_table(std::string title, const Drives& drives, bool with_index);
Table vd_table(std::string title, const Vds& vds);
/// The drives of a VD in member order; a member that has left the controller keeps a row.
Table member_table(std::string title, const Snapshot& snapshot, const VirtualDrive& vd);
Table topology_table(const Snapshot& snapshot);
/// Enclosures that have drives (or places of missing members).
std::vector<int> enclosure_ids(const Snapshot& snapshot);
Table enclosure_table(std::string title, const Snapshot& snapshot, const std::vector<int>& ids);
Table rebuild_table(const Drives& drives);

Text drive_legend();
Text vd_legend();
Text topology_legend();
Text enclosure_legend();

/// How many failures each VD survives and who uses it.
Notes vd_notes(const Vds& vds);
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
