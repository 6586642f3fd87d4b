// SPDX-License-Identifier: GPL-2.0-or-later
// Who is in sync in a VD of Perch's own target, by the superblocks of its members: the same code as
// the kernel's decides (kmod/core/superblock.c), so that what is expected of a start is what
// happens.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ondisk/superblock.hpp"
#include "util/bytes.hpp"

namespace perch {

/// The raw copies of a member's superblock. Empty: it could not be read.
using SuperblockCopies = std::array<Bytes, PERCH_SUPERBLOCK_COPIES>;

struct Membership {
    /// By row: what the member is if the VD starts with those that were found. nullopt: its
    /// superblock cannot be used.
    std::vector<std::optional<SyncState>> states;
    bool clean = false;          ///< it was stopped in order
    bool two_histories = false;  ///< members ran apart: nobody but a person may decide
};

/// `found`: by row; nullopt: the member is not there, or must not be looked at. Nobody in sync:
/// none of them was ever part of the VD, or they ran apart.
Membership find_membership(const Uuid& vd,
                           const std::vector<std::optional<SuperblockCopies>>& found);

}  // namespace perch
