// SPDX-License-Identifier: GPL-2.0-or-later
// VDs on the kernel's dm-raid and striped targets.
//
// Below each VD lie two linear devices per member (metadata and data extent of its partition; RAID0
// has data only). Above them:
//   RAID1, 10, 5, 6   one raid device, the VD
//   RAID0             one striped device, the VD
//   RAID50, 60        a raid device per span, and the VD striped over these, its chunk being one
//                     span's full row of data
// A change of members is a reload of the raid device that has them: the new table is loaded beside
// the live one, then suspend and resume swap them. A kill between the two leaves the device
// suspended with a loaded table that says what the configuration said before the load;
// Engine::resume_suspended() puts it right.
#pragma once

#include <string>

#include "engine/engine.hpp"

namespace perch::dm {

/// As Engine::apply.
Result<void> apply_dmraid(const EngineVd& vd);
/// Members, task and mismatches of a VD that runs.
Result<EngineStatus> dmraid_status(const Uuid& vd);
/// Sends a message to each of its raid devices. Errc::wrong_state: it does not run.
Result<void> message_dmraid(const Uuid& vd, const std::string& text);
/// Removes what lies below a VD that is gone.
Result<void> remove_below_dmraid(const Uuid& vd);

}  // namespace perch::dm
