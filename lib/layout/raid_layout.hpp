// SPDX-License-Identifier: GPL-2.0-or-later
// The arithmetic of a virtual drive: how large it is and what it survives. Only RAID5 so far.
#pragma once

#include <cstdint>

#include "util/error.hpp"

namespace perch {

inline constexpr int raid5_min_members = 3;
inline constexpr int max_members = 32;  ///< of one VD in this version
inline constexpr std::uint64_t min_strip_bytes = 4096;
inline constexpr std::uint64_t max_strip_bytes = 1024ULL * 1024;
inline constexpr std::uint64_t default_strip_bytes = 64ULL * 1024;

/// dm-raid's metadata of one member: a superblock and a write-intent bitmap (dm-raid.md). 4 MiB
/// hold a bitmap for more regions than dm-raid allows (2^21 at one bit on disk each, plus header).
inline constexpr std::uint64_t dmraid_metadata_bytes = 4ULL * 1024ULL * 1024;

/// Where a VD's data and metadata lie on one member, and how large the VD is.
struct VdLayout {
    std::uint64_t metadata_offset = 0;  ///< in the partition
    std::uint64_t metadata_bytes = 0;
    std::uint64_t data_offset = 0;  ///< in the partition
    std::uint64_t data_bytes = 0;   ///< per member, a multiple of the strip
    std::uint64_t vd_bytes = 0;
};

/// A VD that takes whole drives: the same layout on each member, sized by the smallest partition.
/// Checks member count and strip (a power of two, 4 KiB to 1 MiB, at least one logical block).
Result<VdLayout> raid5_layout(int members, std::uint64_t smallest_partition_bytes,
                              std::uint64_t strip_bytes, std::uint32_t block_bytes);

}  // namespace perch
