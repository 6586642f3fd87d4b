// SPDX-License-Identifier: GPL-2.0-or-later
// The text and the bytes of the kernel's dm-raid target: table line, status line, superblock.
// Sources: Documentation/admin-guide/device-mapper/dm-raid.rst and drivers/md/dm-raid.c (6.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace perch::dm {

/// Device numbers ("253:4") of one member's parts; empty strings for an absent member.
struct RaidDevices {
    std::string metadata;
    std::string data;
    bool rebuild = false;  ///< start its rebuild from the beginning
    bool operator==(const RaidDevices&) const = default;
};

/// The parameters of a "raid" table line for one span of a VD. RAID50 and 60 are RAID5 and 6 here;
/// RAID0 is not dm-raid's (striped_params).
std::string raid_params(RaidLevel level, std::uint64_t strip_bytes,
                        const std::vector<RaidDevices>& devices);
/// The parameters of a "striped" table line.
std::string striped_params(std::uint64_t chunk_bytes, const std::vector<std::string>& devices);
/// The devices that a "striped" table line names.
Result<std::vector<std::string>> parse_striped_devices(std::string_view params);
/// The devices that a table line names, by row ("rebuild" is not read back).
Result<std::vector<RaidDevices>> parse_raid_devices(std::string_view params);
/// Fills members, task and mismatches from a status line.
Result<EngineStatus> parse_raid_status(std::string_view params);
/// The superblock's 4 KiB, md's bitmap header (256 bytes) and at most 2^21 bits, in 4 KiB units.
inline constexpr std::uint64_t superblock_and_bitmap_bytes = 4096 + 4096 + 256ULL * 1024;

/// Superblock and bitmap (struct dm_raid_superblock, struct bitmap_super_s). Shorter input is read
/// without the bitmap. nullopt: zeros, a member that dm-raid has not written yet. Errc::corrupt:
/// something else.
Result<std::optional<MemberRecord>> decode_superblock(std::span<const std::byte> bytes);
/// The superblock's 4 KiB with these rows, and no others, failed, that event count, and everything
/// else as it is.
Result<Bytes> rewrite_superblock(std::span<const std::byte> bytes, std::uint64_t events,
                                 const std::vector<int>& failed_rows);

}  // namespace perch::dm
