// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/extent.hpp"

#include <algorithm>
#include <array>

#include "layout/drive_layout.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

constexpr std::array<std::pair<ExtentType, std::string_view>, 8> names{{
    {ExtentType::superblock, PERCH_EXTENT_SUPERBLOCK},
    {ExtentType::dirty_map, PERCH_EXTENT_DIRTY_MAP},
    {ExtentType::bad_ranges, PERCH_EXTENT_BAD_RANGES},
    {ExtentType::dm_raid, PERCH_EXTENT_DMRAID},
    {ExtentType::reshape, PERCH_EXTENT_RESHAPE},
    {ExtentType::log, PERCH_EXTENT_LOG},
    {ExtentType::checksums, PERCH_EXTENT_CHECKSUMS},
    {ExtentType::data, PERCH_EXTENT_DATA},
}};

/// The log is 1/64 of the data, within its bounds.
std::uint64_t log_bytes(std::uint64_t data_bytes) {
    constexpr std::uint64_t data_per_log = 64;
    return std::clamp<std::uint64_t>(round_up(data_bytes / data_per_log, PERCH_EXTENT_ALIGN),
                                     PERCH_LOG_MIN_BYTES, PERCH_LOG_MAX_BYTES);
}

/// Room for a CRC32C of each 4 KiB block.
std::uint64_t checksum_bytes(std::uint64_t data_bytes) {
    constexpr std::uint64_t data_per_checksum = 1024;
    return round_up(data_bytes / data_per_checksum, PERCH_EXTENT_ALIGN);
}

/// Every level gets every kind, so that a level migration finds its room.
std::vector<std::pair<ExtentType, std::uint64_t>> member_parts(std::uint64_t data_bytes) {
    return {{ExtentType::superblock, PERCH_SUPERBLOCK_EXTENT_BYTES},
            {ExtentType::dirty_map, PERCH_DIRTY_MAP_EXTENT_BYTES},
            {ExtentType::bad_ranges, PERCH_BAD_RANGES_EXTENT_BYTES},
            {ExtentType::dm_raid, PERCH_DMRAID_EXTENT_BYTES},
            {ExtentType::reshape, PERCH_RESHAPE_EXTENT_BYTES},
            {ExtentType::log, log_bytes(data_bytes)},
            {ExtentType::checksums, checksum_bytes(data_bytes)},
            {ExtentType::data, data_bytes}};
}

std::uint64_t most_data_in(std::uint64_t bytes) {
    // What metadata takes never grows faster than data, so halving finds the most that fits.
    std::uint64_t low = 0;
    std::uint64_t high = bytes / PERCH_EXTENT_ALIGN;
    while (low < high) {
        const auto middle = low + (high - low + 1) / 2;
        if (member_bytes(middle * PERCH_EXTENT_ALIGN) <= bytes) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low * PERCH_EXTENT_ALIGN;
}

}  // namespace

std::string to_string(ExtentType type) {
    const auto* found = std::find_if(names.begin(), names.end(),
                                     [&](const auto& row) { return row.first == type; });
    return std::string(found->second);
}

std::optional<ExtentType> parse_extent_type(std::string_view text) {
    const auto* found = std::find_if(names.begin(), names.end(),
                                     [&](const auto& row) { return row.second == text; });
    return found == names.end() ? std::nullopt : std::optional(found->first);
}

std::vector<Range> free_ranges(std::uint64_t partition_bytes, std::vector<Extent> used) {
    std::sort(used.begin(), used.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::vector<Range> free;
    std::uint64_t place = PERCH_EXTENTS_OFFSET;
    const std::uint64_t end = PERCH_EXTENTS_OFFSET + extent_space(partition_bytes);
    const auto note = [&](std::uint64_t until) {
        if (until > place && until - place >= PERCH_EXTENT_ALIGN) {
            free.push_back({place, until - place});
        }
    };
    for (const auto& extent : used) {
        note(std::min(extent.offset, end));
        place = std::max(place, extent.end());
    }
    note(end);
    return free;
}

Result<std::vector<Extent>> allocate_member(const std::vector<Range>& free,
                                            std::uint64_t data_bytes) {
    const auto found = std::find_if(free.begin(), free.end(), [&](const auto& range) {
        return member_bytes(data_bytes) <= range.bytes;
    });
    if (data_bytes == 0 || found == free.end()) {
        return fail(Errc::too_small,
                    "not enough room: {} of data per drive do not fit, the largest free piece "
                    "holds {}",
                    format_size(data_bytes), format_size(most_data(free)));
    }
    std::vector<Extent> extents;
    auto place = found->offset;
    for (const auto& [type, bytes] : member_parts(data_bytes)) {
        if (bytes > 0) {
            extents.push_back({type, place, bytes});
            place += bytes;
        }
    }
    return extents;
}

std::uint64_t most_data(const std::vector<Range>& free) {
    std::uint64_t most = 0;
    for (const auto& range : free) {
        most = std::max(most, most_data_in(range.bytes));
    }
    return most;
}

std::uint64_t member_bytes(std::uint64_t data_bytes) {
    std::uint64_t total = 0;
    for (const auto& [type, bytes] : member_parts(data_bytes)) {
        total += bytes;
    }
    return total;
}

}  // namespace perch
