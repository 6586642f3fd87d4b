// SPDX-License-Identifier: GPL-2.0-or-later
// What is on a simulated member: both copies of the superblock, one page of the dirty map, both
// halves of the bad ranges with one page each, data.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "sim/core_media.hpp"
#include "support/core.hpp"

namespace perch::test {

struct CoreShape {
    geometry_level level = GEOMETRY_RAID5;
    unsigned members = 3;
    unsigned per_span = 3;
    unsigned strip = 8;   ///< sectors
    unsigned rows = 2;    ///< of a span
    unsigned region = 8;  ///< sectors of a member
    unsigned lanes = 3;
    unsigned windows = 1;  ///< of a lane
    unsigned task_depth = 2;
};

/// Throws if there is none.
geometry make_geometry(const CoreShape& shape);

constexpr std::size_t superblock_bytes = sizeof(perch_superblock);
constexpr std::size_t map_offset = 2 * superblock_bytes;
constexpr std::size_t map_bytes = sizeof(perch_map_page);  ///< one page is enough here
constexpr std::size_t bad_offset = map_offset + map_bytes;
constexpr std::size_t bad_bytes = sizeof(perch_bad_page);
constexpr std::size_t data_offset = bad_offset + 2 * bad_bytes;
constexpr std::array<std::uint8_t, 16> vd_uuid{0x50, 0x65, 0x72, 0x63, 0x68};

template <typename Structure>
void put(Content& content, std::size_t offset, const Structure& structure) {
    std::memcpy(&content.at(offset), &structure, sizeof(structure));
}

template <typename Structure>
Structure get(const Content& content, std::size_t offset) {
    Structure structure;
    std::memcpy(&structure, &content.at(offset), sizeof(structure));
    return structure;
}

/// A hash of 64 bits.
std::uint64_t mixed(std::uint64_t value);

/// What write `id` puts in a sector: its id, and words that depend on both. Id 0: zeros.
void fill_sector(std::uint8_t* to, std::uint64_t id, std::uint64_t sector);
/// Which write's content it seems to be.
std::uint64_t get_id(const std::uint8_t* sector);

/// A drive that was just assigned, with whatever was on it before where data will be.
Disk blank_disk(const CoreShape& shape, unsigned member, std::uint64_t instance);
/// A member of a VD that was just made, and stopped in order: zeros, in sync.
Disk first_disk(const CoreShape& shape, unsigned member);

/// Where a command goes.
std::size_t offset_of(const io& command);

}  // namespace perch::test
