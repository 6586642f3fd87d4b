// SPDX-License-Identifier: GPL-2.0-or-later
// Single faults, and what the tasks make of them: what a user would notice.
#include <map>

#include "catch.hpp"
#include "sim/core_runs.hpp"

namespace perch::test {

namespace {

const CoreShape raid5{GEOMETRY_RAID5, 5, 5};
const CoreShape raid6{GEOMETRY_RAID6, 4, 4};

/// All of it written, and at rest.
std::unique_ptr<CoreWorld> filled(const CoreShape& shape) {
    auto world = std::make_unique<CoreWorld>(shape);
    for (std::uint64_t row = 0; row < world->sectors(); row += world->row_sectors()) {
        world->write(row, world->row_sectors());
    }
    world->settle_clean();
    return world;
}

std::unique_ptr<CoreWorld> started(const CoreWorld& before, const std::set<unsigned>& absent = {}) {
    return std::make_unique<CoreWorld>(before.remains(), absent);
}

}  // namespace

TEST_CASE("core: a write that fails once costs nothing") {
    for (unsigned member = 0; member < raid5.members; ++member) {
        const auto world = filled(raid5);
        world->fail_a_write(member);
        world->write(0, world->row_sectors());
        world->settle();
        CHECK(world->failed() == 0);
        CHECK(world->is_optimal());
        world->check_content();
        world->check_parity();
    }
}

TEST_CASE("core: a write that fails twice, or a flush, costs the member and nothing else") {
    for (unsigned member = 0; member < raid5.members; ++member) {
        for (const bool flush : {false, true}) {
            const auto world = filled(raid5);
            flush ? world->fail_a_flush(member) : world->fail_all_writes(member);
            world->write(0, world->row_sectors());
            world->flush();
            world->settle();
            CHECK(world->failed() == 0);
            CHECK(members_out(*world) == std::set{member});
            world->check_content();
            const auto rebuilt = restart_with_blanks(*world);
            rebuilt->settle_rebuilt();
            rebuilt->check_content();
            rebuilt->check_parity();
        }
    }
}

TEST_CASE("core: more losses than the level survives are errors, and are not recorded") {
    const auto world = filled(raid5);
    world->pull(0);
    world->pull(1);
    world->write(0, 4);
    world->flush();
    world->read(8, 4);
    world->settle();
    CHECK(world->is_broken());
    CHECK(world->failed() == 3);
    world->read(16, 4);
    world->settle();
    CHECK(world->failed() == 3);
    // They come back: as if nothing had happened.
    const auto after = started(*world);
    REQUIRE(after->choice() == VD_READY);
    CHECK(after->is_optimal());
    after->check_after_cut();
    after->settle();
    after->check_parity();
}

TEST_CASE("core: where too many writes failed, parity is not trusted any more") {
    const auto world = filled(raid5);
    // Of a small write neither data nor parity is written, or the one and not the other.
    world->fail_all_writes(0);
    world->fail_all_writes(4);
    world->write(3, 2);
    world->settle();
    REQUIRE(world->is_broken());
    // A neighbour in the same window, that only this parity could give.
    world->make_unreadable(2, 3);
    const auto failed = world->failed();
    world->read(16, 8);
    world->settle();
    CHECK(world->failed() == failed + 1);
}

TEST_CASE("core: a sector that cannot be read is computed, given to the host, and rewritten") {
    for (const auto& shape : {raid5, raid6}) {
        for (unsigned member = 0; member < shape.members; ++member) {
            for (const auto sector : {0U, 5U, 13U}) {
                const auto world = filled(shape);
                world->make_unreadable(member, sector);
                world->check_content();
                if (!world->is_readable()) {
                    world->patrol();  // it was parity: nobody has read it
                    world->settle();
                }
                CHECK(world->is_readable());
                CHECK(world->is_optimal());
                world->check_parity();
            }
        }
    }
}

TEST_CASE("core: with two parities, a lost member and a sector that cannot be read are survived") {
    for (unsigned member = 1; member < raid6.members; ++member) {
        const auto world = filled(raid6);
        world->make_unreadable(member, 3);
        world->pull(0);
        world->settle();
        world->check_content();
        const auto rebuilt = restart_with_blanks(*world);
        rebuilt->settle_rebuilt();
        rebuilt->patrol();
        rebuilt->settle();
        CHECK(rebuilt->is_readable());
        rebuilt->check_content();
        rebuilt->check_parity();
    }
}

TEST_CASE("core: a check finds each window that does not match, and with repair mends it") {
    for (const auto& shape : {raid5, raid6}) {
        for (unsigned member = 0; member < shape.members; ++member) {
            const auto world = filled(shape);
            world->flip(member, 3);
            world->check(false);
            world->settle();
            CHECK(world->mismatches() == 1);
            CHECK_THROWS_AS(world->check_parity(), Violation);
            world->check(true);
            world->settle();
            CHECK(world->mismatches() == 2);
            world->check_parity();
            world->check(false);
            world->settle();
            CHECK(world->mismatches() == 2);
            CHECK(world->is_optimal());
        }
    }
}

TEST_CASE("core: too few members start nothing") {
    const auto world = filled(raid6);
    CHECK(started(*world, {0, 1})->choice() == VD_READY);
    CHECK(started(*world, {0, 1, 2})->choice() == VD_TOO_FEW);
    CHECK(started(*world, {0, 1, 2, 3})->choice() == VD_UNKNOWN);
}

TEST_CASE("core: halves that ran apart are not put together") {
    const auto world = filled(raid6);
    world->stop();
    world->settle();
    auto one = started(*world, {2, 3});
    one->write(0, 4);
    one->settle();
    // The others alone, as they were when all were there.
    auto remains = one->remains();
    for (const auto member : {2U, 3U}) {
        remains.disks[member] = world->remains().disks[member];
    }
    auto other = std::make_unique<CoreWorld>(remains, std::set{0U, 1U});
    REQUIRE(other->choice() == VD_READY);
    for (int starts = 0; starts < 3; ++starts) {
        other->settle();
        CHECK(started(*other)->choice() == VD_TWO_HISTORIES);
        other = started(*other, {0, 1});
    }
}

TEST_CASE("core: a member that was lost is not trusted when it returns, however often") {
    auto world = filled(raid5);
    world->pull(2);
    world->write(0, world->row_sectors());
    world->settle();
    for (int starts = 0; starts < 3; ++starts) {
        world->stop();
        world->settle();
        world = started(*world);
        CHECK(members_out(*world) == std::set{2U});
        world->check_content();
    }
}

}  // namespace perch::test
