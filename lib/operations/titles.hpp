// SPDX-License-Identifier: GPL-2.0-or-later
// How the controller names things in texts.
#pragma once

#include <string>

#include "drives/drive_access.hpp"

namespace perch {

/// "s3 (SN PERCH00000003)", of a drive that is there.
inline std::string bay(const FoundDrive& drive) {
    return fmt::format("s{} (SN {})", drive.identity.slot, drive.identity.serial);
}

}  // namespace perch
