// SPDX-License-Identifier: GPL-2.0-or-later
// Lines as `dmsetup table` and `dmsetup status` print them for Perch's own target.
#include "engine/dm/perch_target_format.hpp"

#include "catch.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::dm;

namespace {

EngineVd raid50() {
    EngineVd vd;
    vd.uuid = *Uuid::parse("5d000000-0000-4000-8000-0000000000a1");
    vd.kind = EngineKind::perch;
    vd.shape = {RaidLevel::raid50, 6, 3};
    vd.strip_bytes = 64 * KiB;
    vd.region_bytes = 4 * MiB;
    vd.block_bytes = 4096;
    vd.vd_bytes = 4 * 32 * MiB;
    vd.members.resize(6);
    for (auto& member : vd.members) {
        member.role = MemberRole::in_sync;
        member.extents = {{ExtentType::superblock, 9 * MiB, MiB},
                          {ExtentType::dirty_map, 10 * MiB, MiB},
                          {ExtentType::bad_ranges, 11 * MiB, MiB},
                          {ExtentType::data, 64 * MiB, 32 * MiB}};
    }
    return vd;
}

constexpr auto line =
    "50 6 3 128 65536 8192 4096 5d0000000000400080000000000000a1 "
    "259:0 18432 20480 22528 131072 259:1 18432 20480 22528 131072 - "
    "259:3 18432 20480 22528 131072 259:4 18432 20480 22528 131072 "
    "259:5 18432 20480 22528 131072";

PerchTable table(std::size_t members, std::uint64_t strip = 128) {
    return {strip, std::vector<bool>(members, true)};
}

}  // namespace

TEST_CASE("perch target: the table line, and back") {
    CHECK(perch_params(raid50(), {"259:0", "259:1", "", "259:3", "259:4", "259:5"}) == line);
    const auto parsed = parse_perch_table(line);
    REQUIRE(parsed);
    CHECK(parsed->strip_sectors == 128);
    CHECK(parsed->named == std::vector<bool>{true, true, false, true, true, true});
}

TEST_CASE("perch target: a table line that is none is an error") {
    for (const auto* text :
         {"", "5 3 3", "raid5_ls 3 128 region_size 1024 3 253:0 253:1",
          "5 2 2 128 65536 8192 512 5d - - -", "5 2 2 128 65536 8192 512 5d -",
          "5 1 1 0 65536 8192 512 5d -", "5 1 1 128 65536 8192 512 5d 259:0 1"}) {
        INFO(text);
        CHECK_FALSE(parse_perch_table(text));
    }
}

TEST_CASE("perch target: the status of one that runs, in sectors") {
    const auto status = parse_perch_status("4 AAaD 3/10 rebuild unsynced 2 0", table(4));
    REQUIRE(status);
    CHECK(status->members == std::vector{MemberHealth::in_sync, MemberHealth::in_sync,
                                         MemberHealth::rebuilding, MemberHealth::failed});
    CHECK(status->task == EngineTask::rebuild);
    CHECK(status->task_done_sectors == 3 * 128);
    CHECK(status->task_total_sectors == 10 * 128);
    CHECK(status->mismatches == 2 * 128);
    CHECK(status->synced == false);
    CHECK(status->trouble.empty());
    const auto idle = parse_perch_status("2 AA 7/7 idle synced 0 1 broken", table(2, 8));
    REQUIRE(idle);
    CHECK(idle->task == EngineTask::none);
    CHECK(idle->task_total_sectors == 7 * 8);
    CHECK(idle->synced == true);
}

TEST_CASE("perch target: a window has 64 KiB at most") {
    CHECK(parse_perch_status("2 AA 1/2 check synced 0 0", table(2, 2048))->task_done_sectors ==
          128);
}

TEST_CASE("perch target: a member that the table names and the target does not use is failed") {
    auto some = table(3);
    some.named[2] = false;
    const auto status = parse_perch_status("3 A-- 1/1 idle synced 0 0", some);
    REQUIRE(status);
    CHECK(status->members ==
          std::vector{MemberHealth::in_sync, MemberHealth::failed, MemberHealth::absent});
}

TEST_CASE("perch target: one that could not be started says why, and serves nothing") {
    const auto status =
        parse_perch_status("failed more members are missing than the level survives", table(3));
    REQUIRE(status);
    CHECK(status->trouble == "more members are missing than the level survives");
    CHECK(status->members == std::vector(3, MemberHealth::absent));
    CHECK_FALSE(parse_perch_status("stopped ", table(3))->trouble.empty());
}

TEST_CASE("perch target: a status that is none is an error") {
    for (const auto* text : {"", "3 AAA", "3 AA 1/1 idle synced 0 0", "3 AAA 1 idle synced 0 0",
                             "4 AAAA 1/1 idle synced 0 0", "3 AAA 1/1 idle synced x 0"}) {
        INFO(text);
        CHECK_FALSE(parse_perch_status(text, table(3)));
    }
}
