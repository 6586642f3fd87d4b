// SPDX-License-Identifier: GPL-2.0-or-later
// From a path to the rows of the model it names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "object_path.hpp"
#include "rows.hpp"

namespace perch::cli {

struct DriveSelection {
    Drives found;
    std::vector<std::string> missing;  ///< "0:99": named one by one, and not there
};

struct VdSelection {
    Vds found;
    std::vector<int> missing;
};

/// All drives the path names, for looking.
DriveSelection select_drives(const Snapshot& snapshot, const ObjectPath& path);
/// The drives the path names, for changing: one per slot, and a slot number without enclosure must
/// mean one drive. Everything named must be there.
Result<DriveSelection> select_drives_to_change(const Snapshot& snapshot, const ObjectPath& path);
VdSelection select_vds(const Snapshot& snapshot, const ObjectPath& path);
/// The drives of a list "0:0-3,1:2"; each slot of each range must hold a drive, none twice.
Result<Drives> select_drive_list(const Snapshot& snapshot, std::string_view list);

/// Rows of Detailed Status: {EID:Slt, PID, Status, ErrType, ErrCd, ErrMsg}.
class DriveOutcomes {
  public:
    DriveOutcomes();
    void success(const Drive& drive);
    /// type is "CLI" for what perchcli found out, "Perch" for perchd's answer.
    void failure(std::string slot, Value pid, std::string_view type, const Error& error);
    [[nodiscard]] const Table& table() const { return table_; }

  private:
    Table table_;
};

/// Rows of Detailed Status for VDs: {VD, Status, ErrType, ErrCd, ErrMsg}.
class VdOutcomes {
  public:
    VdOutcomes();
    void success(int id);
    void failure(int id, std::string_view type, const Error& error);
    [[nodiscard]] const Table& table() const { return table_; }

  private:
    Table table_;
};

}  // namespace perch::cli
