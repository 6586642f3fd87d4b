// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/drive_layout.hpp"

#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

Result<PartitionLayout> partition_layout(std::uint64_t device_bytes) {
    const auto end = device_bytes < PERCH_SLACK_BYTES
                         ? 0
                         : round_down(device_bytes - PERCH_SLACK_BYTES, PERCH_COERCION_BYTES);
    if (end <= PERCH_FRONT_RESERVE_BYTES) {
        return fail(Errc::too_small,
                    "the drive has {}; Perch needs at least 2.250 GiB (1 GiB is kept free in "
                    "front, the end is rounded down)",
                    format_size(device_bytes));
    }
    return PartitionLayout{PERCH_FRONT_RESERVE_BYTES, end - PERCH_FRONT_RESERVE_BYTES};
}

std::uint64_t extent_space(std::uint64_t partition_bytes) {
    const auto overhead = PERCH_EXTENTS_OFFSET + PERCH_EDGE_BYTES;
    return partition_bytes < overhead ? 0 : partition_bytes - overhead;
}

}  // namespace perch
