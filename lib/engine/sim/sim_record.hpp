// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel's dm-raid writes in a member's metadata extent: its superblock in the first 4 KiB
// (struct dm_raid_superblock, version 1.9, drivers/md/dm-raid.c of Linux 6.1), md's write-intent
// bitmap in the next (struct bitmap_super_s, drivers/md/md-bitmap.h). Written from those sources,
// and not from engine/dm, so that the two check each other.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>

#include "engine/engine.hpp"

namespace perch {

inline constexpr std::uint64_t max_sector = UINT64_MAX;  ///< nothing left to recover or resync
inline constexpr std::uint64_t sim_record_bytes = 8192;

struct SimRecord {
    std::uint32_t devices = 0;
    std::uint32_t position = 0;  ///< row of the member
    std::uint64_t events = 0;
    std::bitset<256> failed;
    std::uint64_t recovery_offset = max_sector;  ///< sectors of this member that are rebuilt
    std::uint64_t resync_offset = max_sector;    ///< sectors of all members that are resynced
    std::uint32_t level = 0;
    std::uint32_t layout = 0;
    std::uint32_t strip_sectors = 0;
    std::uint64_t array_sectors = 0;
    std::uint64_t member_sectors = 0;
    bool dirty = false;  ///< the bitmap marks a region
};

/// 8192 bytes.
Bytes encode_sim_record(const SimRecord& record);
/// Input shorter than the bitmap's page is read without it. nullopt: zeros. Errc::corrupt: anything
/// else.
Result<std::optional<SimRecord>> decode_sim_record(std::span<const std::byte> bytes);
MemberRecord member_record(const SimRecord& record);

}  // namespace perch
