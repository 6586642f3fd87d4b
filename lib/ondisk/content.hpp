// SPDX-License-Identifier: GPL-2.0-or-later
// Does a drive carry data? A drive is blank only if blkid knows nothing on it and the first and
// last 16 MiB and 64 sampled blocks between read zero: raw databases and detached LUKS headers have
// no signature.
#pragma once

#include <string>

#include "util/error.hpp"

namespace perch {

/// Empty for a blank drive, else what was found, for a person: "ext4 filesystem 'old'",
/// "GPT with 3 partitions", "data without a signature at 1.500 GiB".
Result<std::string> find_content(const std::string& path);

/// As find_content, for a drive with Perch's own partition table and no label: what a create that
/// was killed leaves. Looks everywhere but at the first and last MiB, where the table is.
Result<std::string> find_content_beside_table(const std::string& path);

}  // namespace perch
