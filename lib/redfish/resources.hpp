// SPDX-License-Identifier: GPL-2.0-or-later
// Resource bodies, each a pure function of the snapshot. Schema versions and properties:
// DMTF Storage v1_15, Volume v1_9, Drive v1_17, Task v1_7 (the newest that clients in the field
// read).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/snapshot.hpp"

namespace perch::redfish {

/// The RAIDTypes that a Volume may have.
std::vector<std::string> raid_types();
/// The states that a drive's SetState takes.
std::vector<std::string> drive_states();

nlohmann::json service_root(const Snapshot& snapshot);
nlohmann::json systems();
nlohmann::json system(const Snapshot& snapshot);
nlohmann::json storage_collection();
nlohmann::json storage(const Snapshot& snapshot);
nlohmann::json controller_collection();
nlohmann::json storage_controller(const Snapshot& snapshot);
nlohmann::json volume_collection(const Snapshot& snapshot);
nlohmann::json volume(const Snapshot& snapshot, const VirtualDrive& vd);
nlohmann::json drive(const Snapshot& snapshot, const Drive& drive);
nlohmann::json task_service();
nlohmann::json task_collection(const Snapshot& snapshot);
nlohmann::json task(const TaskInfo& task);

}  // namespace perch::redfish
