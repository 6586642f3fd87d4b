// SPDX-License-Identifier: GPL-2.0-or-later
// Power cuts at every step of short scripts, and with every subset of what was not durable.
// tests/sim/README.md says what is enumerated, and what is not covered.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "catch.hpp"
#include "sim/core_runs.hpp"

namespace perch::test {

namespace {

constexpr unsigned most_writes = 12;  ///< all subsets of that many; beyond, 4096 are sampled

using Step = std::function<void(CoreWorld&)>;

struct Script {
    std::string name;
    CoreShape shape;
    /// Each group is begun at once; the next one when all is quiet.
    std::vector<std::vector<Step>> groups;
    std::size_t least_images;  ///< fewer, and it no longer does what it is here for
    /// What happens before the script: these members are lost, and replaced by blank drives.
    std::set<unsigned> replaced;
};

Step write(std::uint64_t sector, std::uint32_t sectors, bool fua = false) {
    return [=](CoreWorld& world) { world.write(sector, sectors, fua); };
}

Step flush() {
    return [](CoreWorld& world) { world.flush(); };
}

Step tick() {
    return [](CoreWorld& world) { world.tick(); };
}

Step pull(unsigned member) {
    return [=](CoreWorld& world) { world.pull(member); };
}

Step fail_all_writes(unsigned member) {
    return [=](CoreWorld& world) { world.fail_all_writes(member); };
}

Step fail_a_write(unsigned member) {
    return [=](CoreWorld& world) { world.fail_a_write(member); };
}

Step fail_a_flush(unsigned member) {
    return [=](CoreWorld& world) { world.fail_a_flush(member); };
}

Step damage_superblock(unsigned member) {
    return [=](CoreWorld& world) { world.damage_superblock(member); };
}

Step make_unreadable(unsigned member, std::uint64_t sector) {
    return [=](CoreWorld& world) { world.make_unreadable(member, sector); };
}

Step read(std::uint64_t sector, std::uint32_t sectors) {
    return [=](CoreWorld& world) { world.read(sector, sectors); };
}

Step stop() {
    return [](CoreWorld& world) { world.stop(); };
}

const CoreShape raid5_of_3{};
const CoreShape raid5_of_5{GEOMETRY_RAID5, 5, 5};
const CoreShape raid6_of_4{GEOMETRY_RAID6, 4, 4};
const CoreShape raid6_of_6{GEOMETRY_RAID6, 6, 6};
const CoreShape raid50{GEOMETRY_RAID50, 6, 3};
const CoreShape raid0{GEOMETRY_RAID0, 3, 1};
const CoreShape raid1{GEOMETRY_RAID1, 2, 2};
const CoreShape raid1_of_3{GEOMETRY_RAID1, 3, 3};
const CoreShape raid10{GEOMETRY_RAID10, 4, 2};

std::vector<Script> scripts() {
    return {
        {"a bit is cleared, and set again",
         raid5_of_3,
         {{write(0, 4)}, {tick()}, {tick()}, {write(0, 4)}},
         1370,
         {}},
        {"a write behind the flush before a bit is cleared",
         raid5_of_3,
         {{write(0, 16)}, {tick()}, {tick(), write(0, 16)}, {tick()}},
         2840,
         {}},
        {"a bit is cleared beside a write",
         raid5_of_3,
         {{write(0, 4)}, {tick()}, {tick(), write(0, 4)}, {tick()}, {tick()}},
         1260,
         {}},
        {"full row", raid5_of_3, {{write(0, 16)}}, 990, {}},
        {"full row, two parities", raid6_of_4, {{write(0, 16)}}, 1720, {}},
        {"read-modify-write", raid5_of_5, {{write(0, 32)}, {write(3, 2)}}, 4320, {}},
        {"read-modify-write, two parities", raid6_of_6, {{write(0, 32)}, {write(3, 2)}}, 11230, {}},
        {"reconstruct-write", raid5_of_5, {{write(0, 32)}, {write(8, 20)}}, 11840, {}},
        {"FUA", raid5_of_3, {{write(0, 16, true)}, {write(4, 8, true)}}, 920, {}},
        {"a flush behind a write", raid5_of_3, {{write(0, 8)}, {flush()}, {write(0, 8)}}, 1110, {}},
        {"a flush beside writes",
         raid5_of_3,
         {{write(0, 8), flush(), write(8, 4), flush()}},
         1230,
         {}},
        {"writes to the same sectors",
         raid5_of_3,
         {{write(0, 6), write(2, 6), write(4, 2, true)}},
         890,
         {}},
        {"writes that join",
         raid5_of_5,
         {{write(0, 8), write(8, 8), write(24, 8), write(16, 8)}},
         3380,
         {}},
        {"two windows of a row",
         {GEOMETRY_RAID5, 3, 3, 256, 1, 256},
         {{write(120, 16), write(376, 8)}},
         2620,
         {}},
        {"two rows, two regions", raid5_of_3, {{write(0, 16), write(16, 16)}}, 4190, {}},
        {"two rows, one region",
         {GEOMETRY_RAID5, 3, 3, 8, 2, 16},
         {{write(0, 16), write(16, 16)}},
         3510,
         {}},
        {"two spans", raid50, {{write(0, 16), write(16, 16), write(36, 4)}}, 10520, {}},
        {"without redundancy",
         raid0,
         {{write(0, 8), write(8, 4)}, {flush()}, {write(4, 4, true)}},
         320,
         {}},
        {"a mirror",
         raid1,
         {{write(0, 8)}, {write(2, 4, true), write(6, 2)}, {tick()}, {tick()}},
         1440,
         {}},
        {"a mirror of three", raid1_of_3, {{write(0, 8), flush()}, {write(2, 4)}}, 2540, {}},
        {"mirrors side by side", raid10, {{write(0, 8), write(8, 8), write(20, 2)}}, 3850, {}},
        {"a copy is lost beside writes",
         raid10,
         {{write(0, 4), write(8, 4)}, {pull(2), write(8, 2, true), write(0, 1)}},
         40240,
         {}},
        {"a copy cannot be read",
         raid1,
         {{write(0, 8)}, {make_unreadable(0, 2), read(0, 8), write(1, 4)}},
         940,
         {}},
        {"no copy can be read",
         raid1,
         {{write(0, 8, true)},
          {make_unreadable(0, 2), make_unreadable(1, 7), read(0, 8)},
          {write(1, 4)}},
         1550,
         {}},
        {"a rebuild of a copy beside writes",
         raid10,
         {{write(8, 4), write(12, 4, true)}},
         5700,
         {2}},
        {"start and stop", raid5_of_3, {{write(0, 4)}, {stop()}}, 1860, {}},
        {"a member is lost beside a write", raid5_of_3, {{write(0, 4), pull(0)}}, 860, {}},
        {"a write that a lost member misses",
         raid5_of_3,
         {{write(0, 16)}, {pull(0), write(0, 4, true)}},
         4290,
         {}},
        {"a write that two lost members miss",
         raid6_of_4,
         {{write(0, 16)}, {pull(3), pull(0), write(0, 4, true), write(8, 4, true)}},
         21350,
         {}},
        {"a stop after a loss", raid5_of_3, {{pull(0)}, {write(0, 16, true)}, {stop()}}, 1640, {}},
        {"a member with parity is lost beside a write",
         raid5_of_3,
         {{write(0, 4), pull(2)}, {write(8, 2)}},
         920,
         {}},
        {"writes and a flush after a loss",
         raid5_of_3,
         {{pull(1)}, {write(0, 4, true)}, {write(8, 4), flush()}},
         970,
         {}},
        {"a write fails for good", raid5_of_3, {{fail_all_writes(0), write(0, 4, true)}}, 1350, {}},
        {"a write fails once", raid5_of_3, {{fail_a_write(0), write(0, 4, true)}}, 510, {}},
        {"a flush fails", raid5_of_3, {{write(0, 4)}, {fail_a_flush(0), flush()}}, 1470, {}},
        {"two members are lost at once", raid6_of_4, {{write(0, 12), pull(0), pull(3)}}, 1090, {}},
        {"one member is lost after the other",
         raid6_of_4,
         {{write(0, 4), pull(0)}, {write(4, 8), pull(2)}, {write(0, 2, true)}},
         6450,
         {}},
        {"a copy of a superblock rots after a loss",
         raid5_of_3,
         {{pull(0)}, {write(0, 16, true)}, {damage_superblock(1)}},
         980,
         {}},
        {"a sector cannot be read",
         raid5_of_3,
         {{write(0, 16)}, {make_unreadable(0, 2), read(0, 8)}},
         1290,
         {}},
        {"a sector that a write needs cannot be read",
         raid5_of_5,
         {{write(0, 32)}, {make_unreadable(4, 2), write(1, 4)}},
         5820,
         {}},
        {"two sectors of a row cannot be read",
         raid5_of_3,
         {{write(0, 16, true)}, {make_unreadable(0, 2), make_unreadable(1, 3), read(0, 8)}},
         1650,
         {}},
        {"a write where two sectors cannot be read",
         raid5_of_3,
         {{write(0, 16, true)},
          {make_unreadable(0, 2), make_unreadable(2, 3), write(3, 4)},
          {write(0, 2)}},
         1070,
         {}},
        {"what is lost is written again",
         raid5_of_3,
         {{write(0, 16, true)},
          {make_unreadable(0, 2), make_unreadable(1, 3), read(0, 8)},
          {write(0, 4), read(2, 8)},
          {write(4, 8)}},
         5090,
         {}},
        {"a sector cannot be read, and a member is lost",
         raid5_of_3,
         {{write(0, 16, true)}, {pull(0)}, {make_unreadable(1, 2), read(8, 8)}, {write(2, 8)}},
         2580,
         {}},
        {"a rebuild from a sector that cannot be read",
         raid5_of_3,
         {{make_unreadable(0, 2)}, {write(9, 2)}},
         6460,
         {1}},
        {"rebuild", raid5_of_3, {{}}, 3420, {1}},
        {"a write beside a rebuild",
         raid5_of_3,
         {{write(0, 4), write(20, 8, true)}, {tick()}},
         3710,
         {0}},
        {"a rebuild of two members beside a write", raid6_of_4, {{write(4, 12)}}, 7670, {0, 2}},
        {"a rebuild of two spans", raid50, {{write(4, 12)}, {tick()}}, 13380, {0, 4}},
    };
}

/// With a member that was in sync not there.
void check_degraded(const CoreWorld& before, const std::vector<Content>& image, unsigned member) {
    auto lost = before.suspects();
    lost.insert(member);
    // What was written last is on members that are lost, and nobody who is there knows.
    if (only_stale_halves(before.shape(), lost) ||
        (before.superblock_rots() && !survives(before.shape(), lost))) {
        return;
    }
    CoreWorld degraded(before.remains(image), {member});
    if (degraded.choice() == VD_READY) {
        degraded.check_after_cut();
    } else if (degraded.choice() != VD_TOO_FEW || survives(before.shape(), degraded.suspects())) {
        throw Violation("start: it does not, although enough members are there");
    }
}

/// What must hold after any cut, now and when everything has been put right.
void check_image(const CoreWorld& before, const std::vector<Content>& image, std::size_t number) {
    const bool write_first = number % 2 == 0;
    if (number % 5 == 0) {
        check_degraded(before, image, static_cast<unsigned>(number / 5 % before.shape().members));
    }
    CoreWorld after(before.remains(image));
    if (after.choice() != VD_READY) {
        throw Violation("start: it does not, although all members are there");
    }
    after.check_after_cut();
    if (write_first && after.is_optimal()) {
        // Into a row whose parity may match nothing.
        after.write(1, 2);
    }
    after.settle();
    if (after.is_optimal()) {
        if (!after.in_sync()) {
            throw Violation("resync: it does not come to its end");
        }
        after.check_content();
        after.check_parity();
        return;
    }
    if (after.in_sync()) {
        after.check_content();
    }
    if (number % 16 == 3) {
        const auto rebuilt = restart_with_blanks(after);
        rebuilt->settle_rebuilt();
        rebuilt->check_content();
        rebuilt->check_parity();
    }
}

struct Counts {
    std::size_t cuts = 0;
    std::size_t images = 0;
    std::size_t capped = 0;
    std::uint64_t commands = 0;
};

/// Who goes next: the oldest, superblocks last, flushes last, the newest, or anybody.
std::size_t next(const CoreWorld& world, std::uint64_t schedule, std::mt19937_64& random) {
    switch (schedule) {
        case 0:
            return 0;
        case 1:
            return world.choice_with_late_superblocks();
        case 2:
            return world.choice_with_late_flushes();
        case 3:
            return world.choices() - 1;
        default:
            return random() % world.choices();
    }
}

std::unique_ptr<CoreWorld> begin(const Script& script) {
    auto world = std::make_unique<CoreWorld>(script.shape);
    world->settle();
    if (!script.replaced.empty()) {
        for (std::uint64_t row = 0; row < world->sectors(); row += world->row_sectors()) {
            world->write(row, world->row_sectors());
        }
        world->settle();
        for (const auto member : script.replaced) {
            world->pull(member);
        }
        world = restart_with_blanks(*world);
    }
    return world;
}

/// Runs a script once, with a cut before every step that could change what a cut leaves.
void run(const Script& script, std::uint64_t seed, Counts& counts) {
    const auto owner = begin(script);
    auto& world = *owner;
    std::mt19937_64 random(seed);
    Seen seen;
    std::size_t number = 0;
    const auto cut = [&] {
        bool capped = false;
        counts.images += for_each_cut(
            world, most_writes, seed + counts.cuts, capped, seen,
            [&](const std::vector<Content>& image) { check_image(world, image, ++number); });
        counts.capped += capped ? 1 : 0;
        ++counts.cuts;
    };
    for (const auto& group : script.groups) {
        for (const auto& begin : group) {
            begin(world);
        }
        while (world.choices() > 0) {
            const auto choice = next(world, seed, random);
            if (world.is_completion(choice)) {
                cut();
            }
            world.step(choice);
        }
    }
    cut();
    if (world.suspects().empty()) {
        world.check_content();
        world.check_parity();
    }
    counts.commands += world.commands();
}

}  // namespace

namespace {

/// The scripts whose place in the list is odd, or even: two processes have them.
void run_scripts(std::size_t odd) {
    const char* chosen = std::getenv("PERCH_SCRIPT");
    const auto schedules = from_environment("PERCH_SCHEDULES", 3);
    Counts all;
    std::size_t place = odd;
    for (const auto& script : scripts()) {
        if (place++ % 2 == 0 ||
            (chosen != nullptr && script.name.find(chosen) == std::string::npos)) {
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
        std::cout << fmt::format("  {:48} {:5} cuts {:8} images {:4} capped {:8} commands\n",
                                 script.name, counts.cuts, counts.images, counts.capped,
                                 counts.commands);
        CHECK((counts.images >= script.least_images || std::getenv("PERCH_SCHEDULES") != nullptr));
        all.cuts += counts.cuts;
        all.images += counts.images;
    }
    std::cout << fmt::format("  {} cuts, {} images\n", all.cuts, all.images);
}

}  // namespace

TEST_CASE("core: every cut of every other script leaves what the rules allow") {
    run_scripts(0);
}

TEST_CASE("core: every cut of the rest of the scripts does so too") {
    run_scripts(1);
}

namespace {

/// Every start of what a cut of a start has left, with each member absent and with none, cut again;
/// to a depth. What all of them found must be what is there in the end.
void cut_starts(const CoreWorld::Remains& remains, unsigned depth, std::size_t& starts) {
    for (unsigned absent = 0; absent <= remains.shape.members; ++absent) {
        std::set<unsigned> lost;
        if (absent < remains.shape.members) {
            lost.insert(absent);
        }
        auto all = remains.suspects;
        all.insert(lost.begin(), lost.end());
        if (!survives(remains.shape, all)) {
            continue;  // perhaps it starts, perhaps it cannot
        }
        CoreWorld world(remains, lost);
        ++starts;
        if (world.choice() != VD_READY) {
            throw Violation("start: it does not, although enough members are there");
        }
        Seen seen;
        while (depth > 0 && world.choices() > 0) {
            if (world.is_completion(0)) {
                bool capped = false;
                for_each_cut(world, 12, 1, capped, seen, [&](const std::vector<Content>& image) {
                    cut_starts(world.remains(image), depth - 1, starts);
                });
            }
            world.step(0);
        }
    }
}

}  // namespace

TEST_CASE("core: a start that is cut off, again and again, never is the last one") {
    for (const auto& shape : {raid1, raid5_of_3}) {
        CoreWorld world(shape);
        world.settle();
        world.write(0, 4);
        world.settle();
        std::size_t starts = 0;
        try {
            cut_starts(world.remains(), 2, starts);
        } catch (const Violation& violation) {
            FAIL(violation.what());
        }
        std::cout << fmt::format("  {} starts of {} members\n", starts, shape.members);
        CHECK(starts > 200);
    }
}

}  // namespace perch::test
