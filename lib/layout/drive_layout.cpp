// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/drive_layout.hpp"

#include <algorithm>
#include <array>

#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

struct CoercionFacts {
    Coercion coercion;
    std::string_view name;
    std::uint64_t slack;  ///< taken off first; at least what the backup GPT needs
    std::uint64_t step;
};

constexpr std::array<CoercionFacts, 3> coercions{{
    {Coercion::none, "None", MiB, MiB},
    {Coercion::mib_128, "128M", MiB, 128 * MiB},
    {Coercion::gib_1, "1G", PERCH_SLACK_BYTES, PERCH_COERCION_BYTES},
}};

const CoercionFacts& facts_of(Coercion coercion) {
    return *std::find_if(coercions.begin(), coercions.end(),
                         [&](const auto& row) { return row.coercion == coercion; });
}

}  // namespace

std::string to_string(Coercion coercion) {
    return std::string(facts_of(coercion).name);
}

std::optional<Coercion> parse_coercion(std::string_view text) {
    const auto* found = std::find_if(coercions.begin(), coercions.end(),
                                     [&](const auto& row) { return row.name == text; });
    return found == coercions.end() ? std::nullopt : std::optional(found->coercion);
}

Result<PartitionLayout> partition_layout(std::uint64_t device_bytes, Coercion coercion) {
    const auto& facts = facts_of(coercion);
    const auto end =
        device_bytes < facts.slack ? 0 : round_down(device_bytes - facts.slack, facts.step);
    if (end <= PERCH_FRONT_RESERVE_BYTES || extent_space(end - PERCH_FRONT_RESERVE_BYTES) == 0) {
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
