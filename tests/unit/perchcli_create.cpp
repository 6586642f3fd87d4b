// SPDX-License-Identifier: GPL-2.0-or-later
#include "catch.hpp"
#include "layout/raid_level.hpp"
#include "perchcli_fakes.hpp"
#include "size_list.hpp"

using namespace perch;
using namespace perch::cli;
using namespace perch::cli::test;

namespace {

/// Twelve blank drives in slots 0 to 11.
Snapshot blank_snapshot() {
    Snapshot snapshot;
    for (int slot = 0; slot < 12; ++slot) {
        snapshot.drives.push_back(make_drive(slot));
    }
    return snapshot;
}

nlohmann::json links(const std::vector<int>& slots) {
    auto list = nlohmann::json::array();
    for (const int slot : slots) {
        list.push_back(
            {{"@odata.id", fmt::format("/redfish/v1/Systems/1/Storage/c0/Drives/e0s{}", slot)}});
    }
    return list;
}

/// The message of a refusal that never reached perchd.
std::string refusal_of(const std::string& line, Snapshot snapshot = blank_snapshot()) {
    FakeConnection connection(std::move(snapshot));
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, line + " J");
    CHECK(result.status != 0);
    CHECK(connection.sent.empty());
    return result.answer()["Command Status"]["Description"];
}

/// VDs v1, v2, ... that changes make, in models after them.
Snapshot with_vds(Snapshot snapshot, int count) {
    for (int id = 1; id <= count; ++id) {
        VirtualDrive vd;
        vd.id = id;
        vd.name = fmt::format("n{}", id);
        vd.state = VdState::optimal;
        vd.size_bytes = static_cast<std::uint64_t>(id) * GiB;
        vd.survives = 1;
        snapshot.vds.push_back(vd);
    }
    return snapshot;
}

}  // namespace

TEST_CASE("perchcli: sizes are binary, whatever the unit's spelling") {
    CHECK(*parse_size("1G") == GiB);
    CHECK(*parse_size("1gb") == GiB);
    CHECK(*parse_size("1GiB") == GiB);
    CHECK(*parse_size("4k") == 4 * KiB);
    CHECK(*parse_size("10MB") == 10 * MiB);
    CHECK(*parse_size("1.5T") == TiB + 512 * GiB);
    CHECK(*parse_size("0.5TiB") == 512 * GiB);
    CHECK(*parse_size("446.625GiB") == 446 * GiB + 640 * MiB);
    CHECK(*parse_size("2pb") == 2048 * TiB);
    for (const char* text : {"",
                             "1",
                             "100",
                             "G",
                             "-1G",
                             "+1G",
                             "1.G",
                             "1.2345G",
                             ".5G",
                             "1G1",
                             "1GG",
                             "1 G",
                             "1gbit",
                             "1e3G",
                             "0G",
                             "0.000G",
                             "99999999999999999999G",
                             "17000000000G",
                             "17000P",
                             "0x10G",
                             "1,5G",
                             "allG"}) {
        CAPTURE(text);
        const auto size = parse_size(text);
        REQUIRE_FALSE(size);
        CHECK(size.error().code == Errc::invalid_argument);
    }
}

TEST_CASE("perchcli: lists of sizes and names") {
    using Sizes = std::vector<std::optional<std::uint64_t>>;
    CHECK(*parse_sizes("all") == Sizes{std::nullopt});
    CHECK(*parse_sizes("1G,2T,Remaining") == Sizes{GiB, 2 * TiB, std::nullopt});
    CHECK(*parse_sizes("1G,1G") == Sizes{GiB, GiB});
    for (const char* text : {"", "1G,", ",1G", "all,1G", "all,all", "1G,,2G", "half"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_sizes(text));
    }
    CHECK(*parse_names("a,b-c,0.d_e") == std::vector<std::string>{"a", "b-c", "0.d_e"});
    for (const char* text :
         {"", "a,", "a,a", "-a", ".a", "a b", "a/b", "1234567890123456", "\xc3\xbc"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_names(text));
    }
}

TEST_CASE("perchcli: add vd knows every level, in both spellings") {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"r0", "0:0"},           {"r1", "0:0-1"},        {"r5", "0:0-2"},    {"r6", "0:0-3"},
        {"r10", "0:0-3"},        {"r50", "0:0-5"},       {"r60", "0:0-7"},   {"raid0", "0:0-3"},
        {"raid1", "0:0-2"},      {"raid5", "0:0-7"},     {"RAID6", "0:0-7"}, {"Raid10", "0:0-7"},
        {"raid50", "0:0-2,6-8"}, {"raid60", "0:0-3,4-7"}};
    for (const auto& [word, drives] : cases) {
        CAPTURE(word);
        FakeConnection connection(blank_snapshot());
        FakeTerminal terminal;
        const auto line = fmt::format("/c0 add vd {} drives={}", word, drives);
        CHECK(run_with(connection, terminal, line).status == 0);
        REQUIRE(connection.sent.size() == 1);
        const auto digits = word.substr(word.find_first_of("0123456789"));
        CHECK(connection.sent[0].body["RAIDType"] == "RAID" + digits);
        CHECK_FALSE(connection.sent[0].body.contains("Oem"));
        CHECK_FALSE(connection.sent[0].body.contains("CapacityBytes"));
    }
}

TEST_CASE("perchcli: add vd sends what was asked for") {
    FakeConnection connection(blank_snapshot());
    FakeTerminal terminal;
    const auto line =
        "/c0 add vd r50 size=1.5T name=big drives=0:0-8 PDperArray=3 Strip = 256 spares=0:10,11 "
        "engine=dm-raid force";
    CHECK(run_with(connection, terminal, line).status == 0);
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].body ==
          nlohmann::json{
              {"RAIDType", "RAID50"},
              {"Name", "big"},
              {"CapacityBytes", TiB + 512 * GiB},
              {"StripSizeBytes", 256 * KiB},
              {"Links",
               {{"Drives", links({0, 1, 2, 3, 4, 5, 6, 7, 8})},
                {"DedicatedSpareDrives", links({10, 11})}}},
              {"Oem", {{"Perch", {{"PerSpan", 3}, {"Engine", "dm-raid"}, {"Force", true}}}}}});
}

TEST_CASE("perchcli: several sizes and names are several VDs, one request each") {
    FakeConnection connection(blank_snapshot());
    connection.snapshots.push_back(with_vds(blank_snapshot(), 3));
    connection.created = 0;
    FakeTerminal terminal;
    // The first model is what is looked at before, the other one after each change.
    connection.snapshots.pop_front();
    const auto result = run_with(
        connection, terminal, "/c0 add vd r1 size=1G,2G,all name=a,b,c drives=0:0-1 spares=0:4 J");
    CHECK(result.status == 0);
    REQUIRE(connection.sent.size() == 3);
    CHECK(connection.sent[0].body["CapacityBytes"] == GiB);
    CHECK(connection.sent[0].body["Name"] == "a");
    CHECK(connection.sent[0].body["Links"].contains("DedicatedSpareDrives"));
    CHECK(connection.sent[1].body["CapacityBytes"] == 2 * GiB);
    CHECK(connection.sent[1].body["Name"] == "b");
    CHECK_FALSE(connection.sent[1].body["Links"].contains("DedicatedSpareDrives"));
    CHECK_FALSE(connection.sent[2].body.contains("CapacityBytes"));
    CHECK(connection.sent[2].body["Name"] == "c");
    for (const auto& sent : connection.sent) {
        CHECK(sent.body["Links"]["Drives"] == links({0, 1}));
    }
    const auto answer = result.answer();
    CHECK(answer["Command Status"]["Description"] == "Add VD succeeded.");
    const auto& rows = answer["Response Data"]["VD Information"];
    REQUIRE(rows.size() == 3);
    CHECK(rows[2]["VDID"] == 3);
    CHECK(rows[2]["VDSize"] == "3.000 GiB");
    CHECK(rows[2]["Status"] == "Success");
    CHECK(answer["Response Data"]["VD Protection"].size() == 3);
}

TEST_CASE("perchcli: when one of several VDs fails, it is said which were made") {
    FakeConnection connection(with_vds(blank_snapshot(), 1));
    connection.created = 0;
    connection.granted = 1;
    connection.refusal = Error{Errc::too_small, "only 3.000 GiB are free."};
    FakeTerminal terminal;
    const auto result =
        run_with(connection, terminal, "/c0 add vd r1 size=1G,9T,all name=a,b,c drives=0:0-1 J");
    CHECK(result.status == errc_info(Errc::too_small).exit_status);
    CHECK(connection.sent.size() == 2);
    const auto answer = result.answer();
    CHECK(answer["Command Status"]["Status"] == "Failure");
    CHECK(answer["Command Status"]["Description"] ==
          "Add VD failed: 1 of 3 made (v1). only 3.000 GiB are free.");
    const auto& rows = answer["Response Data"]["VD Information"];
    REQUIRE(rows.size() == 3);
    CHECK(rows[0]["Status"] == "Success");
    CHECK(rows[1]["Status"] == "Failed");
    CHECK(rows[1]["VDID"] == "-");
    CHECK(rows[1]["ErrCd"] == 13);
    CHECK(rows[1]["Msg"] == "only 3.000 GiB are free.");
    CHECK(rows[2]["Status"] == "Not tried");
}

TEST_CASE("perchcli: what cannot be a VD is refused before perchd is asked") {
    CHECK(refusal_of("/c0 add vd r5 drives=0:0-1") == "RAID5 needs at least 3 drives, 2 given");
    CHECK(refusal_of("/c0 add vd r10 drives=0:0-4").find("even number") != std::string::npos);
    CHECK(refusal_of("/c0 add vd r50 drives=0:0-6").find("PDperArray") != std::string::npos);
    CHECK(refusal_of("/c0 add vd r5 drives=0:0-5 pdperarray=3").find("one span") !=
          std::string::npos);
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 size=1G,2G name=a") ==
          "1 name and 2 sizes are given; give one of each for every VD, such as size=100G,all "
          "name=a,b");
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 name=a,b").find("2 names and 0 size") == 0);
    CHECK(refusal_of("/c0 add vd r0 drives=0:0-1 spares=0:4").find("RAID0 has no redundancy") == 0);
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 spares=0:1") ==
          "The drive in 0:1 cannot be member and spare.");
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 spares=0:44") == "There is no drive in 0:44.");
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 engine=md").find("perch or dm-raid") !=
          std::string::npos);
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 size=100").find("'100' is not a size") !=
          std::string::npos);
    CHECK(refusal_of("/c0 add vd r1 drives=0:0-1 name=x,x").find("given twice") !=
          std::string::npos);
}

TEST_CASE("perchcli: type= and other words of v7 are refused with this dialect's word") {
    for (const char* word : {"type=raid5", "type=r5", "TYPE=RAID5", "type = raid5"}) {
        CAPTURE(word);
        const auto result = run_line(fmt::format("/c0 add vd {} drives=0:4", word));
        CHECK(result.status == errc_info(Errc::syntax).exit_status);
        CHECK(result.says("expecting r[aid]0|r[aid]1"));
        CHECK(result.says("(this dialect has no type=; write add vd r5)"));
    }
    CHECK(run_line("/c0/e0/s1 set good").says("this dialect says set uconf"));
    CHECK(run_line("/c0/e0/s1 del jbod").says("this dialect says set uconf"));
    CHECK(run_line("/c0/v1 start initialization").says("this dialect says init"));
}

TEST_CASE("perchcli: all the members of a drive group mean its free space") {
    auto snapshot = spans_snapshot();
    auto& group = snapshot.groups[0];
    group.members.pop_back();
    group.members.push_back({3, 1, "e0s6", DriveStatus::online});
    snapshot.drives[5].state = DriveState::configured;
    snapshot.drives[5].status = DriveStatus::online;
    snapshot.drives[5].group = 0;
    SECTION("in the group's order and shape") {
        FakeConnection connection(snapshot);
        FakeTerminal terminal;
        CHECK(run_with(connection, terminal, "/c0 add vd r10 drives=0:6,0-2 size=1G").status == 0);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].body["Links"]["Drives"] == links({0, 1, 2, 6}));
        CHECK(connection.sent[0].body["Oem"]["Perch"]["PerSpan"] == 2);
    }
    SECTION("some of them mean nothing") {
        for (const char* drives : {"0:0-1", "0:0-2,7", "0:0-2,6,7,8", "0:7-8,0-1"}) {
            CAPTURE(drives);
            const auto text =
                refusal_of(fmt::format("/c0 add vd r10 drives={} size=1G", drives), snapshot);
            CHECK(text.find("is a member of drive group 0") != std::string::npos);
        }
    }
    SECTION("another level") {
        CHECK(refusal_of("/c0 add vd r5 drives=0:0-2,6", snapshot) ==
              "These drives are drive group 0, which is RAID10; all its VDs are.");
    }
    SECTION("other spans") {
        CHECK(refusal_of("/c0 add vd r10 drives=0:0-2,6 pdperarray=4", snapshot)
                  .find("2 drives per span") != std::string::npos);
    }
}
