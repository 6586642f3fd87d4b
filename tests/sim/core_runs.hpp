// SPDX-License-Identifier: GPL-2.0-or-later
// What the simulations of the core share.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "sim/core_cuts.hpp"

namespace perch::test {

inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Members that each span may lose.
inline unsigned redundancy(const CoreShape& shape) {
    switch (shape.level) {
        case GEOMETRY_RAID0:
            return 0;
        case GEOMETRY_RAID1:
        case GEOMETRY_RAID10:
            return shape.per_span - 1;
        case GEOMETRY_RAID6:
        case GEOMETRY_RAID60:
            return 2;
        default:
            return 1;
    }
}

/// Whether every span has lost no more of these than the level survives.
inline bool survives(const CoreShape& shape, const std::set<unsigned>& lost) {
    for (unsigned first = 0; first < shape.members; first += shape.per_span) {
        const auto from = lost.lower_bound(first);
        const auto to = lost.lower_bound(first + shape.per_span);
        if (std::distance(from, to) > static_cast<std::ptrdiff_t>(redundancy(shape))) {
            return false;
        }
    }
    return true;
}

/// Of a mirror, only copies that were out before would be there: they cannot know that.
inline bool only_stale_halves(const CoreShape& shape, const std::set<unsigned>& lost) {
    const bool mirror = shape.level == GEOMETRY_RAID1 || shape.level == GEOMETRY_RAID10;
    return mirror && !survives(shape, lost);
}

inline std::set<unsigned> members_out(const CoreWorld& world) {
    std::set<unsigned> out;
    for (unsigned member = 0; member < world.shape().members; ++member) {
        if (world.is_out(member)) {
            out.insert(member);
        }
    }
    return out;
}

/// A clean stop, blank drives in the place of members that are out, and a new start.
inline std::unique_ptr<CoreWorld> restart_with_blanks(CoreWorld& world) {
    world.settle();
    world.stop();
    world.settle();
    const auto out = members_out(world);
    auto remains = world.remains();
    CoreWorld::replace(remains, out);
    return std::make_unique<CoreWorld>(std::move(remains));
}

}  // namespace perch::test
