// SPDX-License-Identifier: GPL-2.0-or-later
// Lines as `dmsetup table` and `dmsetup status` print them on Linux 6.1.
#include "engine/dm/dmraid_format.hpp"

#include "catch.hpp"
#include "support/hex_dump.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::dm;

namespace {

std::vector<RaidDevices> four() {
    return {{"253:0", "253:1"}, {"253:2", "253:3"}, {"253:4", "253:5"}, {"253:6", "253:7"}};
}

/// The members of a status line as one letter each: I in sync, R rebuilding, F failed, - absent.
std::string health(const EngineStatus& status) {
    std::string letters;
    for (const auto member : status.members) {
        switch (member) {
            case MemberHealth::in_sync:
                letters += 'I';
                break;
            case MemberHealth::rebuilding:
                letters += 'R';
                break;
            case MemberHealth::failed:
                letters += 'F';
                break;
            case MemberHealth::absent:
                letters += '-';
                break;
        }
    }
    return letters;
}

}  // namespace

TEST_CASE("dm-raid: the table of a whole VD") {
    CHECK(raid_params(RaidLevel::raid5, 64 * KiB, four()) ==
          "raid5_ls 3 128 max_recovery_rate 4000000 4 253:0 253:1 253:2 253:3 253:4 253:5 253:6 "
          "253:7");
}

TEST_CASE("dm-raid: the table of a degraded VD has a pair of dashes") {
    auto devices = four();
    devices[1] = {};
    CHECK(raid_params(RaidLevel::raid5, 4 * KiB, devices) ==
          "raid5_ls 3 8 max_recovery_rate 4000000 4 253:0 253:1 - - 253:4 253:5 253:6 253:7");
}

TEST_CASE("dm-raid: each level's type, and RAID10's copies") {
    CHECK(raid_params(RaidLevel::raid1, 64 * KiB, {{"253:0", "253:1"}, {"253:2", "253:3"}}) ==
          "raid1 3 128 max_recovery_rate 4000000 2 253:0 253:1 253:2 253:3");
    CHECK(raid_params(RaidLevel::raid6, 64 * KiB, four()).starts_with("raid6_nc 3 128 "));
    CHECK(raid_params(RaidLevel::raid60, 64 * KiB, four()) ==
          raid_params(RaidLevel::raid6, 64 * KiB, four()));
    CHECK(raid_params(RaidLevel::raid50, 64 * KiB, four()) ==
          raid_params(RaidLevel::raid5, 64 * KiB, four()));
    auto devices = four();
    devices[3].rebuild = true;
    CHECK(raid_params(RaidLevel::raid10, 64 * KiB, devices) ==
          "raid10 9 128 rebuild 3 max_recovery_rate 4000000 raid10_copies 2 raid10_format near 4 "
          "253:0 253:1 253:2 253:3 253:4 253:5 253:6 253:7");
}

TEST_CASE("striped: RAID0 over parts, RAID50 over spans") {
    CHECK(striped_params(64 * KiB, {"253:1", "253:3"}) == "2 128 253:1 0 253:3 0");
    // A chunk need not be a power of two: three data strips of 64 KiB.
    CHECK(striped_params(192 * KiB, {"253:9", "253:18"}) == "2 384 253:9 0 253:18 0");
    CHECK(*parse_striped_devices("2 384 253:9 0 253:18 0") ==
          std::vector<std::string>{"253:9", "253:18"});
    for (const auto* bad :
         {"", "2", "x 384 253:9 0", "2 384 253:9 0", "2 384 253:9 0 253:18 0 1"}) {
        CHECK_FALSE(parse_striped_devices(bad));
    }
}

TEST_CASE("dm-raid: the table that starts a rebuild, options in the kernel's order and counted") {
    auto devices = four();
    devices[2].rebuild = true;
    CHECK(raid_params(RaidLevel::raid5, MiB, devices) ==
          "raid5_ls 5 2048 rebuild 2 max_recovery_rate 4000000 4 253:0 253:1 253:2 253:3 253:4 "
          "253:5 253:6 253:7");
}

TEST_CASE("dm-raid: the devices of a table line, as written by us and as printed by the kernel") {
    auto devices = four();
    devices[3] = {};
    CHECK(*parse_raid_devices(raid_params(RaidLevel::raid5, 64 * KiB, devices)) == devices);
    const std::vector<RaidDevices> three{
        {"253:0", "253:1"}, {"253:2", "253:3"}, {"253:4", "253:5"}};
    auto with_hole = three;
    with_hole.push_back({});
    for (const auto* line : {
             "raid5_ls 3 128 max_recovery_rate 4000000 4 253:0 253:1 253:2 253:3 253:4 253:5 - -",
             "raid5_ls 1 128 4 253:0 253:1 253:2 253:3 253:4 253:5 - -",
             "raid5_ls 7 128 rebuild 3 max_recovery_rate 4000000 region_size 8192 4 253:0 253:1 "
             "253:2 253:3 253:4 253:5 - -",
             "raid5_ls 2 128 nosync 4 253:0 253:1  253:2 253:3 253:4 253:5 - - ",
         }) {
        INFO(line);
        const auto parsed = parse_raid_devices(line);
        REQUIRE(parsed);
        CHECK(*parsed == with_hole);
    }
}

TEST_CASE("dm-raid: a table line that is none is an error") {
    for (const auto* line :
         {"", " ", "raid5_ls", "raid5_ls 3", "raid5_ls 3 128", "raid5_ls x 128 4 - - - - - - - -",
          "raid5_ls 3 128 max_recovery_rate 4000000", "raid5_ls 3 128 max_recovery_rate 4000000 4",
          "raid5_ls 3 128 max_recovery_rate 4000000 4 253:0 253:1",
          "raid5_ls 3 128 max_recovery_rate 4000000 1 253:0",
          "raid5_ls 3 128 max_recovery_rate 4000000 1 253:0 253:1 253:2",
          "raid5_ls 18446744073709551615 128 1 253:0 253:1", "raid5_ls -1 128 1 253:0 253:1",
          "raid5_ls 1 128 18446744073709551615 253:0 253:1",
          "raid5_ls 99999999999999999999999 128 1 253:0 253:1", "0 8192 linear 259:1 2048"}) {
        INFO(line);
        const auto parsed = parse_raid_devices(line);
        CHECK_FALSE(parsed);
        if (!parsed) {
            CHECK(parsed.error().code == Errc::io);
            CHECK(parsed.error().message.find(line) != std::string::npos);
        }
    }
}

TEST_CASE("dm-raid: status lines of each state") {
    struct Row {
        const char* line;
        const char* members;
        EngineTask task;
        std::uint64_t done;
        std::uint64_t total;
        std::uint64_t mismatches;
    };
    const std::vector<Row> rows{
        {"raid5_ls 4 AAAA 2068480/2068480 idle 0 0 -", "IIII", EngineTask::none, 2068480, 2068480,
         0},
        {"raid5_ls 4 AADA 2068480/2068480 idle 0 0 -", "IIFI", EngineTask::none, 2068480, 2068480,
         0},
        {"raid5_ls 4 AAA- 2068480/2068480 idle 0 0 -", "III-", EngineTask::none, 2068480, 2068480,
         0},
        // During a resync every letter is 'a', and all members are trusted.
        {"raid5_ls 4 aaaa 4096/2068480 resync 0 0 -", "IIII", EngineTask::resync, 4096, 2068480, 0},
        {"raid5_ls 4 aa-a 0/2068480 resync 0 0 -", "II-I", EngineTask::resync, 0, 2068480, 0},
        {"raid5_ls 4 AAaA 128/2068480 recover 0 0 -", "IIRI", EngineTask::rebuild, 128, 2068480, 0},
        {"raid5_ls 4 aAAD 128/2068480 recover 0 0 -", "RIIF", EngineTask::rebuild, 128, 2068480, 0},
        // A rebuild that waits is still no member in sync.
        {"raid5_ls 4 AAaA 128/2068480 idle 0 0 -", "IIRI", EngineTask::none, 128, 2068480, 0},
        {"raid5_ls 4 AAaA 128/2068480 frozen 0 0 -", "IIRI", EngineTask::none, 128, 2068480, 0},
        {"raid5_ls 4 AAAA 512/2068480 check 24 0 -", "IIII", EngineTask::check, 512, 2068480, 24},
        {"raid5_ls 4 AAAA 512/2068480 repair 0 0 -", "IIII", EngineTask::resync, 512, 2068480, 0},
        {"raid5_ls 4 aaaa 512/2068480 reshape 0 0 -", "RRRR", EngineTask::other, 512, 2068480, 0},
        // Before 1.5.0 there were no data offset and no journal letter.
        {"raid5_ls 3 AAA 1/2 idle 0", "III", EngineTask::none, 1, 2, 0},
    };
    for (const auto& row : rows) {
        INFO(row.line);
        const auto status = parse_raid_status(row.line);
        REQUIRE(status);
        CHECK(health(*status) == row.members);
        CHECK(status->task == row.task);
        CHECK(status->task_done_sectors == row.done);
        CHECK(status->task_total_sectors == row.total);
        CHECK(status->mismatches == row.mismatches);
    }
}

TEST_CASE("dm-raid: a letter that is not known is a failed member, never a good one") {
    const auto status = parse_raid_status("raid5_ls 4 AA?X 1/1 idle 0 0 -");
    REQUIRE(status);
    CHECK(health(*status) == "IIFF");
}

TEST_CASE("dm-raid: a status line that is none is an error") {
    for (const auto* line :
         {"", "raid5_ls", "raid5_ls 4", "raid5_ls 4 AAAA", "raid5_ls 4 AAAA 1/1 idle",
          "raid5_ls 4 AAA 1/1 idle 0 0 -", "raid5_ls 5 AAAA 1/1 idle 0 0 -",
          "raid5_ls x AAAA 1/1 idle 0 0 -", "raid5_ls 4 AAAA 1 idle 0 0 -",
          "raid5_ls 4 AAAA / idle 0 0 -", "raid5_ls 4 AAAA 1/ idle 0 0 -",
          "raid5_ls 4 AAAA /1 idle 0 0 -", "raid5_ls 4 AAAA 1/1/1 idle 0 0 -",
          "raid5_ls 4 AAAA -1/1 idle 0 0 -", "raid5_ls 4 AAAA 1/1 idle x 0 -",
          "raid5_ls 4 AAAA 99999999999999999999999/1 idle 0 0 -", "Error"}) {
        INFO(line);
        const auto status = parse_raid_status(line);
        CHECK_FALSE(status);
        if (!status) {
            CHECK(status.error().code == Errc::io);
        }
    }
}

TEST_CASE("dm-raid: superblocks") {
    // struct dm_raid_superblock: magic, compat, devices, position, events, failed, recovery,
    // resync.
    const auto superblock = [](const std::string& rows) {
        return test::parse_hex_dump("# size 4096\n" + rows);
    };
    SECTION("never written") {
        const auto record = decode_superblock(Bytes(4096));
        REQUIRE(record);
        CHECK_FALSE(record->has_value());
    }
    SECTION("a member in sync, one other failed") {
        const auto record =
            decode_superblock(superblock("0 44 6d 52 64 01 00 00 00 04 00 00 00 01 00 00 00\n"
                                         "10 2a 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00\n"
                                         "20 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff\n"));
        REQUIRE(record);
        REQUIRE(record->has_value());
        CHECK(**record == MemberRecord{42, true, 0, {2}});
    }
    SECTION("a member in the middle of its rebuild") {
        const auto record =
            decode_superblock(superblock("0 44 6d 52 64 01 00 00 00 04 00 00 00 03 00 00 00\n"
                                         "10 08 07 06 05 04 03 02 01 00 00 00 00 00 00 00 00\n"
                                         "20 00 80 00 00 00 00 00 00 ff ff ff ff ff ff ff ff\n"));
        REQUIRE(record);
        REQUIRE(record->has_value());
        CHECK(**record == MemberRecord{0x0102030405060708, false, 0x8000, {}});
    }
    SECTION("a rebuild that has not begun is not a finished one") {
        const auto record =
            decode_superblock(superblock("0 44 6d 52 64 01 00 00 00 04 00 00 00 03 00 00 00\n"));
        REQUIRE(record);
        CHECK_FALSE((*record)->rebuilt);
    }
    SECTION("failed members up to the last of 64") {
        const auto record =
            decode_superblock(superblock("0 44 6d 52 64 00 00 00 00 40 00 00 00 00 00 00 00\n"
                                         "10 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 80\n"));
        REQUIRE(record);
        CHECK((*record)->failed_rows == std::vector{0, 63});
    }
    SECTION("something else") {
        for (const auto* rows :
             {"0 64 52 6d 44\n", "0 45 6d 52 64\n", "0 00 00 00 01\n", "0 fc 4e 2b a9\n"}) {
            const auto record = decode_superblock(superblock(rows));
            REQUIRE_FALSE(record);
            CHECK(record.error().code == Errc::corrupt);
        }
    }
    SECTION("cut short") {
        const Bytes bytes(4096);
        for (const std::size_t length : {0UL, 1UL, 47UL}) {
            const auto record = decode_superblock(std::span(bytes).first(length));
            REQUIRE_FALSE(record);
            CHECK(record.error().code == Errc::corrupt);
        }
    }
}
