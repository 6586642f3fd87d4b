// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/membership.hpp"

#include <memory>

extern "C" {
#include "core/superblock.h"
}

namespace perch {

namespace {

/// A copy that could not be read is as good as one that is damaged.
perch_superblock raw_copy(const Bytes& bytes) {
    perch_superblock copy;
    if (bytes.size() >= sizeof(copy)) {
        std::memcpy(&copy, bytes.data(), sizeof(copy));
    } else {
        std::memset(&copy, 0xff, sizeof(copy));
    }
    return copy;
}

/// What the core is given to choose from; by row.
struct Found {
    std::vector<perch_superblock> copies;  ///< those that count
    std::vector<const perch_superblock*> superblocks;
    std::unique_ptr<bool[]> damaged;  // NOLINT(*-avoid-c-arrays): vector<bool> has no bools
};

Found pick(const Uuid& vd, const std::vector<std::optional<SuperblockCopies>>& members) {
    const auto count = members.size();
    Found found{std::vector<perch_superblock>(count),
                std::vector<const perch_superblock*>(count, nullptr),
                std::make_unique<bool[]>(count)};  // NOLINT(*-avoid-c-arrays)
    for (std::size_t row = 0; row < count; ++row) {
        if (!members[row]) {
            continue;
        }
        const std::array copies{raw_copy(members[row]->at(0)), raw_copy(members[row]->at(1))};
        const auto picked = superblock_pick(&copies[0], &copies[1], vd.bytes.data(),
                                            static_cast<u32>(row), static_cast<u32>(count));
        if (picked.counts < 0) {
            continue;
        }
        found.copies[row] = copies.at(static_cast<std::size_t>(picked.counts));
        found.superblocks[row] = &found.copies[row];
        found.damaged[row] = picked.damaged;
    }
    return found;
}

}  // namespace

Membership find_membership(const Uuid& vd,
                           const std::vector<std::optional<SuperblockCopies>>& found) {
    const auto members = static_cast<u32>(found.size());
    const auto read = pick(vd, found);
    Membership membership;
    u32 chosen = 0;
    const auto choice =
        superblock_choose(read.superblocks.data(), read.damaged.get(), members, &chosen);
    membership.two_histories = choice == SUPERBLOCK_TWO_HISTORIES;
    for (u32 row = 0; row < members; ++row) {
        const auto* superblock = read.superblocks[row];
        if (superblock == nullptr) {
            membership.states.emplace_back();
        } else if (choice == SUPERBLOCK_CHOSEN) {
            membership.states.emplace_back(static_cast<SyncState>(
                superblock_start_state(read.superblocks[chosen], superblock, row)));
        } else {
            membership.states.emplace_back(SyncState::absent);
        }
    }
    membership.clean =
        choice == SUPERBLOCK_CHOSEN && superblock_clean(read.superblocks.data(), members, chosen);
    return membership;
}

}  // namespace perch
