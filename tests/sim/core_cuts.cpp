// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_cuts.hpp"

#include <algorithm>
#include <random>
#include <string_view>

namespace perch::test {

std::size_t for_each_cut(const CoreWorld& world, unsigned most, std::uint64_t seed, bool& capped,
                         Seen& seen,
                         const std::function<void(const std::vector<Content>&)>& action) {
    struct Pending {
        std::size_t member;
        const Media::Write* write;
    };
    std::vector<Content> base;
    std::vector<Pending> pending;
    for (std::size_t member = 0; member < world.media().size(); ++member) {
        base.push_back(world.media()[member].durable());
        for (const auto* write : world.media()[member].volatile_writes()) {
            pending.push_back({member, write});
        }
    }
    std::size_t images = 0;
    const auto knowledge = world.knowledge();
    const auto emit = [&](const auto& bytes_of) {
        auto image = base;
        std::size_t hash = knowledge;
        for (std::size_t i = 0; i < pending.size(); ++i) {
            const auto& [member, write] = pending[i];
            std::copy_n(write->data.begin(), bytes_of(i, write->data.size()),
                        image[member].begin() + static_cast<std::ptrdiff_t>(write->offset));
        }
        for (const auto& content : image) {
            hash =
                mixed(hash ^ std::hash<std::string_view>{}(std::string_view(
                                 reinterpret_cast<const char*>(content.data()), content.size())));
        }
        ++images;
        if (seen.insert(hash).second) {
            action(image);
        }
    };
    const auto subset = [&](std::uint64_t mask) {
        emit([&](std::size_t i, std::size_t size) { return (mask >> i & 1U) != 0 ? size : 0; });
    };
    capped = pending.size() > most;
    if (!capped) {
        for (std::uint64_t mask = 0; mask < 1ULL << pending.size(); ++mask) {
            subset(mask);
        }
    } else {
        std::mt19937_64 random(seed);
        subset(0);
        for (unsigned i = 0; i < 1U << most; ++i) {
            subset(random());
        }
    }
    // All torn at the same place.
    std::size_t longest = 0;
    for (const auto& one : pending) {
        longest = std::max(longest, one.write->data.size());
    }
    for (std::size_t kept = SECTOR_BYTES; pending.size() > 1 && kept < longest;
         kept += SECTOR_BYTES) {
        emit([&](std::size_t, std::size_t size) { return std::min(kept, size); });
    }
    // Each write torn alone, the others all there or not at all.
    for (std::size_t torn = 0; torn < pending.size(); ++torn) {
        for (std::size_t kept = SECTOR_BYTES; kept < pending[torn].write->data.size();
             kept += SECTOR_BYTES) {
            for (const bool others : {false, true}) {
                emit([&](std::size_t i, std::size_t size) {
                    return i == torn ? kept : others ? size : 0;
                });
            }
        }
    }
    return images;
}

}  // namespace perch::test
