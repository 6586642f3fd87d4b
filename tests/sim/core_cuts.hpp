// SPDX-License-Identifier: GPL-2.0-or-later
// What a power cut may leave.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>
#include <vector>

#include "sim/core_world.hpp"

namespace perch::test {

/// Images that were tried, with what was known then, by hash.
using Seen = std::unordered_set<std::size_t>;

/// What the members of a world may hold after a cut now: everything that is durable, and of what is
/// not any part. Calls `action` with each image that is not in `seen`; returns how many there were.
/// Subsets of more than `most` writes are sampled with `seed`, `capped` says so.
std::size_t for_each_cut(const CoreWorld& world, unsigned most, std::uint64_t seed, bool& capped,
                         Seen& seen,
                         const std::function<void(const std::vector<Content>&)>& action);

}  // namespace perch::test
