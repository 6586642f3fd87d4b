// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/raid_layout.hpp"

#include <bit>

#include "util/units.hpp"

namespace perch {

Result<void> check_strip(std::uint64_t strip_bytes, std::uint32_t block_bytes) {
    if (!std::has_single_bit(strip_bytes) || strip_bytes < min_strip_bytes ||
        strip_bytes > max_strip_bytes || strip_bytes < block_bytes) {
        return fail(Errc::invalid_argument,
                    "a strip is a power of two from 4 to 1024 KiB, {} given",
                    format_block(strip_bytes));
    }
    return {};
}

std::uint64_t region_bytes_for(std::uint64_t data_bytes) {
    constexpr std::uint64_t most_regions = 1ULL << 18;
    static_assert(most_regions <= max_regions);
    constexpr std::uint64_t least = 4 * MiB;
    static_assert(least >= max_strip_bytes);
    std::uint64_t region = least;
    while (region * most_regions < data_bytes) {
        region *= 2;
    }
    return region;
}

Result<VdLayout> vd_layout(const RaidShape& shape, const std::vector<Range>& free,
                           std::optional<std::uint64_t> size) {
    const auto data_members = static_cast<std::uint64_t>(shape.data_members());
    VdLayout layout;
    if (size) {
        // Rounded up: nobody gets less than asked for.
        const auto share = *size / data_members + (*size % data_members == 0 ? 0 : 1);
        if (share > UINT64_MAX / 2) {
            return fail(Errc::too_small, "no drive holds {}", format_size(*size));
        }
        layout.data_bytes = round_up(share, PERCH_EXTENT_ALIGN);
    } else {
        layout.data_bytes = most_data(free);
    }
    auto extents = allocate_member(free, layout.data_bytes);
    if (!extents) {
        return fail(
            extents.error().code, "{}; a VD of at most {} fits",
            size ? fmt::format("no room for a VD of {}", format_size(*size)) : "no room for a VD",
            format_size(most_data(free) * data_members));
    }
    layout.extents = std::move(*extents);
    layout.vd_bytes = layout.data_bytes * data_members;
    return layout;
}

}  // namespace perch
