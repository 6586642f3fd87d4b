// SPDX-License-Identifier: GPL-2.0-or-later
// What is on a drive: Perch's table, label and configuration, or what else.
#pragma once

#include <string>

#include "drives/drive_access.hpp"

namespace perch {

/// Looks at the drive (or, in tests, the regular file) at `path` without ever writing, and fills in
/// all that FoundDrive says of its content. The identity must be there already. `want_content`:
/// also what others have put on it, which takes a few hundred reads.
void probe_content(FoundDrive& found, const std::string& path, bool want_content);

}  // namespace perch
