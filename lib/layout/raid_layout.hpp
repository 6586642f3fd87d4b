// SPDX-License-Identifier: GPL-2.0-or-later
// How large a VD is, and where its members' extents lie.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "layout/extent.hpp"
#include "layout/raid_level.hpp"
#include "uapi/perch_format.h"
#include "util/error.hpp"

namespace perch {

inline constexpr std::uint64_t min_strip_bytes = 4096;
inline constexpr std::uint64_t max_strip_bytes = 1024ULL * 1024;
inline constexpr std::uint64_t default_strip_bytes = 64ULL * 1024;

/// Where a VD's members lie (the same on each drive), and how large the VD is.
struct VdLayout {
    std::vector<Extent> extents;   ///< of each member
    std::uint64_t data_bytes = 0;  ///< per member, a multiple of 1 MiB and so of every strip
    std::uint64_t vd_bytes = 0;
};

/// A power of two, 4 KiB to 1 MiB, at least one logical block. Errc::invalid_argument otherwise.
Result<void> check_strip(std::uint64_t strip_bytes, std::uint32_t block_bytes);

/// Regions that a member's dirty map has room for.
inline constexpr std::uint64_t max_regions =
    PERCH_MAP_PAGES * static_cast<std::uint64_t>(PERCH_MAP_REGIONS_PER_PAGE);
/// How much of every member's data shares a bit of the dirty map: a power of two, at least 4 MiB,
/// and so large that a member has at most 2^18 of them. (Memory and the look for idle ones grow
/// with their number; what is resynced after a crash with their size.)
std::uint64_t region_bytes_for(std::uint64_t data_bytes);

/// Lays out a VD in the free space that all its drives have in common. `size`: at least that many
/// bytes; nullopt: as large as the largest free piece allows.
Result<VdLayout> vd_layout(const RaidShape& shape, const std::vector<Range>& free,
                           std::optional<std::uint64_t> size);

}  // namespace perch
