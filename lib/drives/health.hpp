// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "model/snapshot.hpp"
#include "util/error.hpp"

namespace perch {

/// The SMART log of an NVMe controller ("nvme3"), through libnvme. Waits for the drive: call it
/// from the drive's worker only.
Result<DriveHealth> read_health(const std::string& controller);

}  // namespace perch
