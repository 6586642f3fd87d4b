// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/raid_layout.hpp"

#include <bit>

#include "layout/drive_layout.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

Result<VdLayout> raid5_layout(int members, std::uint64_t smallest_partition_bytes,
                              std::uint64_t strip_bytes, std::uint32_t block_bytes) {
    if (members < raid5_min_members) {
        return fail(Errc::invalid_argument, "RAID5 needs at least {} drives, {} given",
                    raid5_min_members, members);
    }
    if (members > max_members) {
        return fail(Errc::limit, "a VD has at most {} members in this version, {} given",
                    max_members, members);
    }
    if (!std::has_single_bit(strip_bytes) || strip_bytes < min_strip_bytes ||
        strip_bytes > max_strip_bytes || strip_bytes < block_bytes) {
        return fail(Errc::invalid_argument,
                    "a strip is a power of two from 4 to 1024 KiB, {} given",
                    format_block(strip_bytes));
    }
    VdLayout layout;
    layout.metadata_offset = PERCH_EXTENTS_OFFSET;
    layout.metadata_bytes = dmraid_metadata_bytes;
    layout.data_offset = layout.metadata_offset + layout.metadata_bytes;
    const auto space = extent_space(smallest_partition_bytes);
    if (space < layout.metadata_bytes + PERCH_EXTENT_ALIGN) {
        return fail(Errc::too_small, "a partition of {} has no room for a VD",
                    format_size(smallest_partition_bytes));
    }
    // 1 MiB is the extent alignment and a multiple of every legal strip.
    layout.data_bytes = round_down(space - layout.metadata_bytes, PERCH_EXTENT_ALIGN);
    layout.vd_bytes = layout.data_bytes * static_cast<std::uint64_t>(members - 1);
    return layout;
}

}  // namespace perch
