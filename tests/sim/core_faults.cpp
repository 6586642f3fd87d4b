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

namespace {

// A data strip is 64 sectors: the second 4 KiB of the first and the third one cannot be read.
std::unique_ptr<CoreWorld> with_two_unreadable() {
    auto world = filled({GEOMETRY_RAID5, 5, 5, 64, 1, 64});
    world->make_unreadable(0, 10);
    world->make_unreadable(2, 14);
    return world;
}

/// Sectors that are lost, and no others, read as errors, and the rows are whole.
void check_lost(CoreWorld& world, const std::set<std::uint64_t>& lost) {
    for (std::uint64_t sector = 0; sector < world.sectors(); ++sector) {
        CAPTURE(sector);
        const auto failed = world.failed();
        world.read(sector, 1);
        world.settle();
        CHECK(world.failed() == failed + lost.count(sector));
        CHECK(world.is_listed(sector, 1) == lost.contains(sector));
    }
    CHECK(world.is_readable());
    world.check_content();
    world.check_parity();
}

std::set<std::uint64_t> range(std::uint64_t first, std::uint64_t end) {
    std::set<std::uint64_t> sectors;
    while (first < end) {
        sectors.insert(first++);
    }
    return sectors;
}

}  // namespace

TEST_CASE(
    "core: sectors of several members that cannot be read are computed, unless at one place") {
    const CoreShape shape{GEOMETRY_RAID5, 5, 5, 64, 1, 64};
    const auto world = filled(shape);
    world->make_unreadable(0, 2);
    world->make_unreadable(1, 9);
    world->make_unreadable(4, 63);  // parity
    world->read(0, world->row_sectors());
    world->settle();
    CHECK(world->failed() == 0);
    world->patrol();
    world->settle();
    check_lost(*world, {});
}

TEST_CASE("core: what is lost for good is listed, reads as an error, and can be written again") {
    auto world = with_two_unreadable();
    world->patrol();
    world->settle();
    auto lost = range(8, 16);
    lost.merge(range(128 + 8, 128 + 16));
    for (int starts = 0; starts < 3; ++starts) {
        check_lost(*world, lost);
        world->stop();
        world->settle();
        world = started(*world);
    }
    world->write(12, 130);
    world->settle();
    lost = range(8, 12);
    lost.merge(range(128 + 14, 128 + 16));
    check_lost(*world, lost);
    // That is as durable as it was answered, although nobody asked.
    std::vector<Content> durable;
    for (const auto& media : world->media()) {
        durable.push_back(media.durable());
    }
    world = std::make_unique<CoreWorld>(world->remains(durable));
    world->check_after_cut();
    world->settle();
    check_lost(*world, lost);
    world->write(8, 4);
    world->write(128 + 14, 2);
    world->settle();
    check_lost(*world, {});
}

TEST_CASE("core: a write where sectors cannot be read loses what it does not cover, and succeeds") {
    const auto world = with_two_unreadable();
    world->write(9, 6);
    world->settle();
    CHECK(world->failed() == 0);
    check_lost(*world, range(128 + 9, 128 + 15));
}

TEST_CASE(
    "core: a rebuild from a sector that cannot be read comes to its end, and says what is lost") {
    for (const auto& shape : {raid5, raid6}) {
        const auto world = filled(shape);
        world->make_unreadable(1, 3);
        world->make_unreadable(2, 3);
        world->pull(0);
        const auto rebuilt = restart_with_blanks(*world);
        rebuilt->settle_rebuilt();
        CHECK(rebuilt->is_optimal());
        // The first row of each: of a RAID6 of four, member 2 has parity.
        check_lost(*rebuilt, range(0, shape.strip * (shape.level == GEOMETRY_RAID5 ? 3 : 2)));
        // Nothing is left of it when it is written again.
        for (std::uint64_t row = 0; row < rebuilt->sectors(); row += rebuilt->row_sectors()) {
            rebuilt->write(row, rebuilt->row_sectors());
        }
        rebuilt->settle();
        check_lost(*rebuilt, {});
    }
}

TEST_CASE(
    "core: what an unclean stop and a lost member leave unknown together is listed by the "
    "rebuild") {
    const auto world = filled(raid5);
    world->pull(0);
    world->settle();
    world->write(3, 4);
    world->settle();
    const auto degraded = started(*world);  // not stopped in order
    degraded->settle();
    const auto rebuilt = restart_with_blanks(*degraded);
    rebuilt->settle_rebuilt();
    check_lost(*rebuilt, range(0, raid5.strip));
}

TEST_CASE("core: after a rebuild and a clean stop nothing is resynced") {
    for (const auto& shape : {raid5, raid6}) {
        auto world = filled(shape);
        world->pull(1);
        world = restart_with_blanks(*world);
        world->settle_rebuilt();
        world->stop();
        world->settle();
        CHECK(started(*world)->in_sync());
    }
}

TEST_CASE("core: no write is missed by a rebuild whose windows end in another order") {
    for (unsigned held = 0; held < 6; ++held) {
        for (unsigned written = 0; written < 6; ++written) {
            const CoreShape shape{GEOMETRY_RAID5, 3, 3, 8, 6, 8, 3, 2, 2};
            auto world = filled(shape);
            world->pull(1);
            world = restart_with_blanks(*world);
            world->settle_but(held * shape.strip, (held + 1) * shape.strip);
            world->write(written * world->row_sectors(), world->row_sectors());
            world->settle_but(held * shape.strip, (held + 1) * shape.strip);
            world->settle_rebuilt();
            world->check_content();
            world->check_parity();
        }
    }
}

TEST_CASE("core: a member that only does not answer costs no data") {
    const auto world = filled(raid5);
    world->make_unreadable(1, 3);
    world->fail_reads(2, 4);
    world->read(8, 8);
    world->settle();
    CHECK(world->failed() == 1);
    CHECK_FALSE(world->has_lost());
    world->fail_reads(2, 0);
    world->check_content();
    CHECK(world->failed() == 1);
    CHECK(world->is_readable());
}

TEST_CASE("core: writes that cannot be done together are done one by one") {
    auto shape = raid5;
    shape.strip = 32;
    shape.region = 32;
    const auto world = filled(shape);
    world->make_unreadable(0, 5);
    world->fail_reads(4, 8);
    world->write(2 * 32 + 9, 1);  // the window is at work, and the next two wait together
    world->write(0, 2);
    world->write(32 + 20, 2);
    world->settle();
    CHECK(world->failed() == 0);
    world->check_content();
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
            CHECK(world->mismatches() == 1);
            world->check_parity();
            world->check(false);
            world->settle();
            CHECK(world->mismatches() == 0);
            CHECK(world->is_optimal());
        }
    }
}

TEST_CASE("core: a check that is ended finds nothing, and the next one does; a rebuild goes on") {
    const auto world = filled(raid5);
    world->flip(4, 3);  // parity
    world->check(false);
    world->end_task();
    world->settle();
    CHECK(world->mismatches() == 0);
    world->check(true);
    world->settle();
    CHECK(world->mismatches() == 1);
    world->pull(0);
    world->settle();
    const auto rebuilt = restart_with_blanks(*world);
    rebuilt->end_task();
    rebuilt->settle_rebuilt();
    CHECK(rebuilt->is_optimal());
    rebuilt->check_content();
}

TEST_CASE("core: a stop that loses a member, at whatever moment, is in order all the same") {
    for (const auto& shape : {raid5, raid6}) {
        bool stopped = false;
        for (int steps = 0; !stopped; ++steps) {
            const auto world = filled(shape);
            world->write(0, world->row_sectors());
            world->settle();
            world->stop();
            for (int step = 0; step < steps && world->choices() > 0; ++step) {
                world->step(0);
            }
            stopped = world->choices() == 0;
            world->pull(1);
            world->settle();
            INFO(steps);
            const auto again = started(*world, {1});
            CHECK(again->in_sync());
            again->check_content();
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

TEST_CASE(
    "core: a drive that hangs holds up what needs it, and nothing else; then nothing is lost") {
    for (const auto& shape : {raid5, raid6, CoreShape{GEOMETRY_RAID10, 4, 2},
                              CoreShape{GEOMETRY_RAID50, 6, 3}, CoreShape{GEOMETRY_RAID0, 3, 1}}) {
        for (unsigned member = 0; member < shape.members; ++member) {
            for (const bool is_pulled : {false, true}) {
                if (is_pulled && !survives(shape, {member})) {
                    continue;
                }
                const auto world = filled(shape);
                world->hang(member);
                const auto geometry = make_geometry(shape);
                const bool mirror = shape.level == GEOMETRY_RAID10;
                for (std::uint64_t sector = 0; sector < world->sectors(); ++sector) {
                    const auto place = geometry_map(&geometry, sector);
                    const bool needed =
                        mirror ? place.member / 2 == member / 2 : place.member == member;
                    if (!needed) {
                        world->read(sector, 1);
                    }
                }
                world->settle_beside_hanging();
                CHECK(world->unanswered() == 0);
                world->write(0, world->row_sectors());
                world->read(0, world->row_sectors());
                world->flush();
                world->settle_beside_hanging();
                CHECK(world->unanswered() > 0);
                if (is_pulled) {
                    world->pull(member);
                }
                world->settle();
                CHECK(world->failed() == 0);
                CHECK(members_out(*world) == (is_pulled ? std::set{member} : std::set<unsigned>{}));
                world->check_content();
            }
        }
    }
}

}  // namespace perch::test
