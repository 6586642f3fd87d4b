// SPDX-License-Identifier: GPL-2.0-or-later
// Power cuts at every step of short scripts, and with every subset of what was not durable; and
// long random runs. tests/sim/README.md says what is enumerated, what is sampled, and what is not
// covered.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "catch.hpp"
#include "sim/core_world.hpp"

namespace perch::test {

namespace {

constexpr unsigned most_writes = 12;  ///< all subsets of that many; beyond, 4096 are sampled

struct Script {
    std::string name;
    CoreShape shape;
    /// Each group is begun at once; the next one when all is quiet.
    std::vector<std::vector<std::function<void(CoreWorld&)>>> groups;
    std::size_t least_images;  ///< fewer, and it no longer does what it is here for
};

std::function<void(CoreWorld&)> write(std::uint64_t sector, std::uint32_t sectors,
                                      bool fua = false) {
    return [=](CoreWorld& world) { world.write(sector, sectors, fua); };
}

std::function<void(CoreWorld&)> flush() {
    return [](CoreWorld& world) { world.flush(); };
}

std::function<void(CoreWorld&)> tick() {
    return [](CoreWorld& world) { world.tick(); };
}

const CoreShape raid5_of_3{};
const CoreShape raid5_of_5{GEOMETRY_RAID5, 5, 5};
const CoreShape raid6_of_4{GEOMETRY_RAID6, 4, 4};
const CoreShape raid6_of_6{GEOMETRY_RAID6, 6, 6};
const CoreShape raid50{GEOMETRY_RAID50, 6, 3};

std::vector<Script> scripts() {
    return {
        {"a bit is cleared, and set again",
         raid5_of_3,
         {{write(0, 4)}, {tick()}, {tick()}, {write(0, 4)}},
         2100},
        {"a write behind the flush before a bit is cleared",
         raid5_of_3,
         {{write(0, 16)}, {tick()}, {tick(), write(0, 16)}, {tick()}},
         6200},
        {"a bit is cleared beside a write",
         raid5_of_3,
         {{write(0, 4)}, {tick()}, {tick(), write(0, 4)}, {tick()}, {tick()}},
         2500},
        {"full row", raid5_of_3, {{write(0, 16)}}, 1500},
        {"full row, two parities", raid6_of_4, {{write(0, 16)}}, 2800},
        {"read-modify-write", raid5_of_5, {{write(0, 32)}, {write(3, 2)}}, 9600},
        {"read-modify-write, two parities", raid6_of_6, {{write(0, 32)}, {write(3, 2)}}, 24100},
        {"reconstruct-write", raid5_of_5, {{write(0, 32)}, {write(8, 20)}}, 24300},
        {"FUA", raid5_of_3, {{write(0, 16, true)}, {write(4, 8, true)}}, 1200},
        {"a flush behind a write", raid5_of_3, {{write(0, 8)}, {flush()}, {write(0, 8)}}, 1800},
        {"a flush beside writes", raid5_of_3, {{write(0, 8), flush(), write(8, 4), flush()}}, 2000},
        {"writes to the same sectors",
         raid5_of_3,
         {{write(0, 6), write(2, 6), write(4, 2, true)}},
         1500},
        {"writes that join",
         raid5_of_5,
         {{write(0, 8), write(8, 8), write(24, 8), write(16, 8)}},
         6200},
        {"two windows of a row",
         {GEOMETRY_RAID5, 3, 3, 256, 1, 256},
         {{write(120, 16), write(376, 8)}},
         5600},
        {"two rows, two regions", raid5_of_3, {{write(0, 16), write(16, 16)}}, 7600},
        {"two rows, one region",
         {GEOMETRY_RAID5, 3, 3, 8, 2, 16},
         {{write(0, 16), write(16, 16)}},
         6100},
        {"two spans", raid50, {{write(0, 16), write(16, 16), write(36, 4)}}, 19300},
    };
}

unsigned parities(const CoreShape& shape) {
    return shape.level == GEOMETRY_RAID6 || shape.level == GEOMETRY_RAID60 ? 2 : 1;
}

/// What must hold after any cut, now and when everything has been put right.
void check_image(const CoreWorld& before, const std::vector<Content>& image, std::size_t number) {
    const bool write_first = number % 2 == 0;
    if (number % 5 == 0) {
        // A member was lost with it: nothing is computed from what may match nothing.
        CoreWorld degraded(before.shape(), image, before.histories(),
                           {static_cast<unsigned>(number / 5 % before.shape().members)});
        degraded.check_after_cut_degraded();
    }
    CoreWorld after(before.shape(), image, before.histories());
    after.check_after_cut();
    if (write_first) {
        // Into a row whose parity may match nothing.
        after.write(1, 2);
    }
    after.settle();
    if (!after.in_sync()) {
        throw Violation("resync: it does not come to its end");
    }
    after.check_content();
    after.check_parity();
    after.check_no_errors();
}

struct Counts {
    std::size_t cuts = 0;
    std::size_t images = 0;
    std::size_t capped = 0;
    std::uint64_t commands = 0;
};

/// Who goes next: the oldest, the newest, flushes last, or anybody.
std::size_t next(const CoreWorld& world, std::uint64_t schedule, std::mt19937_64& random) {
    switch (schedule) {
        case 0:
            return 0;
        case 1:
            return world.choices() - 1;
        case 2:
            return world.choice_with_late_flushes();
        default:
            return random() % world.choices();
    }
}

/// Runs a script once, with a cut before every step.
void run(const Script& script, std::uint64_t seed, Counts& counts) {
    CoreWorld world(script.shape);
    std::mt19937_64 random(seed);
    const auto cut = [&] {
        bool capped = false;
        std::size_t number = 0;
        counts.images += for_each_cut(
            world, most_writes, seed + counts.cuts, capped,
            [&](const std::vector<Content>& image) { check_image(world, image, ++number); });
        counts.capped += capped ? 1 : 0;
        ++counts.cuts;
    };
    world.settle();
    for (const auto& group : script.groups) {
        for (const auto& begin : group) {
            begin(world);
        }
        while (world.choices() > 0) {
            cut();
            world.step(next(world, seed, random));
        }
    }
    cut();
    world.check_content();
    world.check_parity();
    world.check_no_errors();
    counts.commands += world.commands();
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// --- random

CoreShape random_shape(std::mt19937_64& random) {
    const auto from = [&](unsigned low, unsigned high) {
        return low + static_cast<unsigned>(random() % (high - low + 1));
    };
    CoreShape shape;
    const bool two = random() % 2 == 0;
    const bool spans = random() % 4 == 0;
    shape.level = two ? (spans ? GEOMETRY_RAID60 : GEOMETRY_RAID6)
                      : (spans ? GEOMETRY_RAID50 : GEOMETRY_RAID5);
    shape.per_span = from(two ? 4 : 3, 7);
    shape.members = shape.per_span * (spans ? 2 : 1);
    shape.strip = random() % 8 == 0 ? 256 : 8U << random() % 3;
    shape.rows = shape.strip == 256 ? 1 : from(1, 5);
    shape.region = shape.strip << random() % 2;
    shape.lanes = from(3, 5);
    shape.windows = from(1, 3);
    return shape;
}

/// What the host does next: mostly small writes, near each other.
void random_request(CoreWorld& world, std::mt19937_64& random) {
    const auto row = random() % (world.sectors() / world.row_sectors()) * world.row_sectors();
    const auto first = static_cast<std::uint32_t>(random() % world.row_sectors());
    const auto most = world.row_sectors() - first;
    switch (random() % 10) {
        case 0:
            world.write(row, world.row_sectors(), random() % 4 == 0);
            break;
        case 1:
            world.flush();
            break;
        case 2:
            world.tick();
            break;
        case 3:
        case 4:
            world.read(row + first, 1 + static_cast<std::uint32_t>(random() % most));
            break;
        default:
            world.write(row + first, 1 + static_cast<std::uint32_t>(random() % std::min(most, 12U)),
                        random() % 8 == 0);
    }
}

/// Lets anything happen for a while; in some runs flushes take very long.
void random_steps(CoreWorld& world, std::mt19937_64& random, unsigned steps) {
    const bool late = random() % 3 == 0;
    for (unsigned i = 0; i < steps; ++i) {
        if (world.choices() == 0 || random() % 6 == 0) {
            random_request(world, random);
        }
        if (world.choices() > 0) {
            world.step(late && random() % 8 != 0 ? world.choice_with_late_flushes()
                                                 : random() % world.choices());
        }
    }
}

/// One of the images that a cut may leave; each write kept, dropped or torn.
std::vector<Content> random_image(const CoreWorld& world, std::mt19937_64& random) {
    std::vector<Content> image;
    const bool all_torn = random() % 4 == 0;
    for (const auto& media : world.media()) {
        image.push_back(media.durable());
        for (const auto* one : media.volatile_writes()) {
            const auto sectors = one->data.size() / SECTOR_BYTES;
            const bool torn = all_torn || random() % 4 == 0;
            const bool kept = random() % 2 == 0;
            for (std::size_t sector = 0; sector < sectors; ++sector) {
                if (torn ? random() % 2 == 0 : kept) {
                    std::copy_n(
                        one->data.begin() + static_cast<std::ptrdiff_t>(sector * SECTOR_BYTES),
                        SECTOR_BYTES,
                        image.back().begin() +
                            static_cast<std::ptrdiff_t>(one->offset + sector * SECTOR_BYTES));
                }
            }
        }
    }
    return image;
}

/// The same members with up to as many lost as the level bears; what they hold is known and clean.
void run_degraded(CoreWorld& healthy, std::mt19937_64& random, Counts& counts) {
    healthy.settle_clean();
    const auto& shape = healthy.shape();
    const auto lose = [&](std::set<unsigned>& lost) {
        for (unsigned span = 0; span < shape.members / shape.per_span; ++span) {
            lost.insert(span * shape.per_span + static_cast<unsigned>(random() % shape.per_span));
        }
    };
    // One more lost after the other, with a clean stop between: what was written with one lost must
    // be there with two.
    std::set<unsigned> lost;
    auto members = healthy.current();
    auto histories = healthy.histories();
    for (unsigned losses = 0; losses <= parities(shape); ++losses) {
        CoreWorld degraded(shape, members, histories, lost, true);
        degraded.check_content();
        random_steps(degraded, random, 120);
        degraded.settle();
        degraded.check_content();
        degraded.check_no_errors();
        counts.commands += degraded.commands();
        members = degraded.current();
        histories = degraded.histories();
        lose(lost);
    }
}

void run_random(std::uint64_t seed, Counts& counts) {
    std::mt19937_64 random(seed);
    const auto shape = random_shape(random);
    auto world = std::make_unique<CoreWorld>(shape);
    for (int cuts = 0; cuts < 6; ++cuts) {
        random_steps(*world, random, 100 + static_cast<unsigned>(random() % 100));
        counts.commands += world->commands();
        world->check_no_errors();
        const auto image = random_image(*world, random);
        if (random() % 2 == 0) {
            CoreWorld degraded(shape, image, world->histories(),
                               {static_cast<unsigned>(random() % shape.members)});
            degraded.check_after_cut_degraded();
        }
        world = std::make_unique<CoreWorld>(shape, image, world->histories());
        world->check_after_cut();
        ++counts.cuts;
        if (random() % 2 == 0) {
            world->settle();
            world->check_content();
            world->check_parity();
        }
    }
    world->settle();
    world->check_parity();
    run_degraded(*world, random, counts);
}

}  // namespace

TEST_CASE("core: every cut of every script leaves what the rules allow") {
    const char* chosen = std::getenv("PERCH_SCRIPT");
    const auto schedules = from_environment("PERCH_SCHEDULES", 4);
    Counts all;
    for (const auto& script : scripts()) {
        if (chosen != nullptr && script.name.find(chosen) == std::string::npos) {
            continue;
        }
        Counts counts;
        for (std::uint64_t seed = 0; seed < schedules; ++seed) {
            CAPTURE(script.name, seed);
            try {
                run(script, seed, counts);
            } catch (const Violation& violation) {
                FAIL(violation.what());
            }
        }
        std::cout << fmt::format("  {:34} {:5} cuts {:8} images {:4} capped {:8} commands\n",
                                 script.name, counts.cuts, counts.images, counts.capped,
                                 counts.commands);
        CHECK((counts.images >= script.least_images || std::getenv("PERCH_SCHEDULES") != nullptr));
        all.cuts += counts.cuts;
        all.images += counts.images;
    }
    std::cout << fmt::format("  {} cuts, {} images\n", all.cuts, all.images);
}

TEST_CASE("core: after a failed write parity is not trusted, and its region not marked clean") {
    CoreWorld world({GEOMETRY_RAID5, 5, 5});
    world.write(0, 32);
    world.settle();
    // Of a small write data or parity is not written: they match no more.
    world.fail_next_write();
    world.write(3, 2);
    world.settle();
    REQUIRE(world.failed() == 1);
    for (int i = 0; i < 3; ++i) {
        world.write(9, 1);  // to a neighbour: a violation if it reads parity
        world.settle();
    }
    REQUIRE_THROWS_AS(world.settle_clean(), Violation);
    CoreWorld after(world.shape(), world.current(), world.histories());
    after.settle();
    after.check_content();
    after.check_parity();
}

/// PERCH_SEED=n runs that one; PERCH_SEEDS=n that many.
TEST_CASE("core: long random runs with cuts, and with lost members") {
    const auto first = from_environment("PERCH_SEED", 1);
    const auto seeds = from_environment("PERCH_SEEDS", std::getenv("PERCH_SEED") ? 1 : 400);
    Counts counts;
    for (auto seed = first; seed < first + seeds; ++seed) {
        try {
            run_random(seed, counts);
        } catch (const Violation& violation) {
            FAIL("PERCH_SEED=" << seed << ": " << violation.what());
        }
    }
    std::cout << fmt::format("  {} seeds, {} cuts, {} commands\n", seeds, counts.cuts,
                             counts.commands);
    CHECK(counts.commands > seeds * 500);
}

}  // namespace perch::test
