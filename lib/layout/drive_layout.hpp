// SPDX-License-Identifier: GPL-2.0-or-later
// Where things lie on a drive: coercion, the partition, and the extents inside it
// (kmod/uapi/perch_format.h). Pure arithmetic, all in bytes.
#pragma once

#include <cstdint>

#include "util/error.hpp"

namespace perch {

/// The partition that Perch makes on a drive. Offsets from the start of the drive.
struct PartitionLayout {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool operator==(const PartitionLayout&) const = default;
};

/// Where the partition goes on a drive of that size. The end is coerced (size less 256 MiB, rounded
/// down to 1 GiB), so that a replacement of the same class that is a little smaller still fits.
/// Errc::too_small when nothing usable is left.
Result<PartitionLayout> partition_layout(std::uint64_t device_bytes);

/// Bytes for extents in a partition of that length: what lies between the second configuration
/// slot and the last MiB.
std::uint64_t extent_space(std::uint64_t partition_bytes);

}  // namespace perch
