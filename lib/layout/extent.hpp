// SPDX-License-Identifier: GPL-2.0-or-later
// Typed extents: the pieces of a partition that a VD's member holds (kmod/uapi/perch_format.h), and
// the allocator that places them. All in bytes from the start of the partition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/error.hpp"

namespace perch {

enum class ExtentType {
    superblock,
    dirty_map,
    bad_ranges,
    dm_raid,  ///< dm-raid's superblock and bitmap
    reshape,
    log,
    checksums,  ///< reserved
    data,
};

std::string to_string(ExtentType type);
std::optional<ExtentType> parse_extent_type(std::string_view text);

struct Extent {
    ExtentType type = ExtentType::data;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    [[nodiscard]] std::uint64_t end() const { return offset + bytes; }
    bool operator==(const Extent&) const = default;
};

/// A piece of space without a type.
struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Range&) const = default;
};

/// What is free of a partition of that length when `used` is taken, in order of place. Pieces
/// smaller than the extent alignment are not listed.
std::vector<Range> free_ranges(std::uint64_t partition_bytes, std::vector<Extent> used);

/// The extents of one member of a VD: all metadata, then `data_bytes` of data, in one piece of the
/// free space (the first one that is large enough). Errc::too_small says what the largest would
/// hold.
Result<std::vector<Extent>> allocate_member(const std::vector<Range>& free,
                                            std::uint64_t data_bytes);
/// The most data that a member can hold in the largest free piece; 0: none.
std::uint64_t most_data(const std::vector<Range>& free);
/// What a member with that much data takes in all.
std::uint64_t member_bytes(std::uint64_t data_bytes);

}  // namespace perch
