// SPDX-License-Identifier: GPL-2.0-or-later
// Drive groups, free space, coercion, limits, spares in tables.
#include "catch.hpp"
#include "layout/raid_level.hpp"
#include "ondisk/configuration.hpp"
#include "perchcli_fakes.hpp"
#include "rows.hpp"

using namespace perch;
using namespace perch::cli;
using namespace perch::cli::test;

TEST_CASE("perchcli: topology has a row for each span, place and spare") {
    const auto result = run_line("/c0/dall show", spans_snapshot());
    CHECK(result.status == 0);
    CHECK(result.says(R"(
-------------------------------------------------------------------------------
DG Span Row EID:Slot PID Type   State Status  BT      Size PDC  Secured FSpace 
-------------------------------------------------------------------------------
 0 -    -   -        -   RAID10 -     -       N  4.000 GiB dflt N       Y      
 0 0    -   -        -   RAID1  -     -       N  2.000 GiB dflt N       Y      
 0 0    0   0:0      10  DRIVE  Conf  Online  N  7.000 GiB dflt N       -      
 0 0    1   0:1      11  DRIVE  Conf  Online  N  7.000 GiB dflt N       -      
 0 1    -   -        -   RAID1  -     -       N  2.000 GiB dflt N       Y      
 0 1    0   0:2      12  DRIVE  Conf  Online  N  7.000 GiB dflt N       -      
 0 1    1   -        -   DRIVE  Msng  Missing N          - dflt N       -      
 0 -    -   0:4      14  DRIVE  DHS   Good    N  7.000 GiB dflt N       -      
-  -    -   0:5      15  DRIVE  GHS   Good    N  7.000 GiB dflt N       -      
-------------------------------------------------------------------------------
)"));
    CHECK(result.says("Msng-Nobody is in this place"));
    // A controller's picture has the same table.
    CHECK(run_line("/c0 show", spans_snapshot()).says(" 0 1    1   -        -   DRIVE  Msng"));
}

TEST_CASE("perchcli: an operation on a VD shows as the group's background task") {
    auto snapshot = spans_snapshot();
    snapshot.vds[1].operation = Operation{OperationKind::check, 5, 60, 0};
    const auto rows = run_line("/c0/d0 show J", snapshot).answer()["Response Data"]["TOPOLOGY"];
    CHECK(rows[0]["BT"] == "Y");
    CHECK(rows[0]["DG"] == 0);
    CHECK(rows[2]["Span"] == 0);
    CHECK(rows[2]["Row"] == 0);
}

TEST_CASE("perchcli: a drive group in full") {
    const auto answer = run_line("/c0/dall show all J", spans_snapshot()).answer();
    CHECK(answer["Command Status"]["Status"] == "Success");
    const auto& data = answer["Response Data"];
    CHECK(data["TOPOLOGY"].size() == 9);
    REQUIRE(data["VD LIST"].size() == 2);
    CHECK(data["VD LIST"][0]["DG/VD"] == "0/1");
    CHECK(data["VD LIST"][0]["TYPE"] == "RAID10");
    CHECK(data["VD LIST"][0]["State"] == "Pdgd");
    REQUIRE(data["DG Drive LIST"].size() == 4);
    CHECK(data["DG Drive LIST"][3]["EID:Slt"] == "0:4");
    CHECK(data["DG Drive LIST"][3]["State"] == "DHS");
    CHECK(data["DG Drive LIST"][3]["DG"] == 0);
    REQUIRE(data["FREE SPACE DETAILS"].size() == 2);
    CHECK(data["FREE SPACE DETAILS"][0] ==
          nlohmann::json{{"ID", 0}, {"DG", 0}, {"Type", "RAID10"}, {"Size", "6.000 GiB"}});
}

TEST_CASE("perchcli: drive groups that are not there") {
    const auto answer = run_line("/c0/d0,7 show J", spans_snapshot());
    CHECK(answer.status == 255);
    const auto status = answer.answer()["Command Status"];
    CHECK(status["Detailed Status"][0]["DG"] == 7);
    CHECK(status["Detailed Status"][0]["ErrMsg"] == "Invalid drive group number");
    CHECK(answer.answer()["Response Data"]["TOPOLOGY"][0]["DG"] == 0);
    const auto empty = run_line("/c0/dall show all J", Snapshot{});
    CHECK(empty.status == 0);
    CHECK(empty.answer()["Command Status"]["Description"] ==
          "No drive groups have been configured.");
    CHECK(empty.answer()["Response Data"]["VD LIST"] == nlohmann::json::array());
}

TEST_CASE("perchcli: free space") {
    const auto text = run_line("/c0 show freespace", spans_snapshot());
    CHECK(text.status == 0);
    CHECK(
        text.says(" 0  0 RAID10 6.000 GiB \n"
                  " 1  0 RAID10 2.000 GiB \n"));
    CHECK(text.says("\nTotal Slot Count = 2\n"));
    const auto none = run_line("/c0 show freespace J").answer();
    CHECK(none["Command Status"]["Description"] == "No freespace in any drive group.");
    CHECK(none["Response Data"]["FREE SPACE DETAILS"] == nlohmann::json::array());
    CHECK(none["Response Data"]["Total Slot Count"] == 0);
}

TEST_CASE("perchcli: spares in drive tables") {
    const auto row = [](DriveState state, const std::vector<int>& groups) {
        auto drive = make_drive(0);
        drive.state = state;
        drive.spare_for = groups;
        const auto table = drive_table("T", {&drive});
        return value_text(table.rows[0][2]) + "/" + value_text(table.rows[0][3]) + "/" +
               value_text(table.rows[0][4]);
    };
    CHECK(row(DriveState::global_spare, {}) == "GHS/Good/-");
    CHECK(row(DriveState::dedicated_spare, {2}) == "DHS/Good/2");
    CHECK(row(DriveState::dedicated_spare, {0, 3}) == "DHS/Good/0,3");
    const auto position = [](const char* drive) {
        const auto list = run_line(fmt::format("/c0/e0/{} show all J", drive), spans_snapshot())
                              .answer()["Response Data"]["Drives List"];
        return list[0]["Drive Detailed Information"]["Drive position"].get<std::string>();
    };
    CHECK(position("s2") == "DriveGroup:0, Span:1, Row:0");
    CHECK(position("s4") == "Hot spare for DriveGroup:0");
    CHECK(position("s5") == "Hot spare for all drive groups");
    CHECK(position("s6") == "-");
}

TEST_CASE("perchcli: a VD's properties tell its spans") {
    const auto properties = run_line("/c0/v1 show all J", spans_snapshot())
                                .answer()["Response Data"]["Virtual Drives"][0]["VD Properties"];
    CHECK(properties["Span Depth"] == 2);
    const auto members = run_line("/c0/v1 show all J", spans_snapshot())
                             .answer()["Response Data"]["Virtual Drives"][0]["PDs"];
    REQUIRE(members.size() == 4);
    CHECK(members[3]["EID:Slt"] == "-");
    CHECK(members[3]["State"] == "Msng");
    CHECK(members[3]["Status"] == "Missing");
    CHECK(properties["Number of Drives"] == 4);
    CHECK(properties["Number of Drives Per Span"] == 2);
    CHECK_FALSE(properties.contains("Mismatched Sectors"));
    auto snapshot = spans_snapshot();
    snapshot.vds[0].mismatches = 8;
    snapshot.vds[0].operation = Operation{OperationKind::init, 12.5, 60, 0};
    const auto checked = run_line("/c0/v1 show all J", snapshot)
                             .answer()["Response Data"]["Virtual Drives"][0]["VD Properties"];
    CHECK(checked["Mismatched Sectors"] == 8);
    CHECK(checked["Init State"] == "Init (12%)");
}

TEST_CASE("perchcli: a VD without redundancy says so, however well it is") {
    auto snapshot = spans_snapshot();
    snapshot.vds[0].level = "RAID0";
    snapshot.vds[0].redundant = false;
    snapshot.vds[0].state = VdState::optimal;
    CHECK(run_line("/c0/v1 show", snapshot)
              .says("v1 (one): RAID0 survives NO drive failure; used by: nothing"));
}

TEST_CASE("perchcli: limits and levels are the library's") {
    const auto data = run_line("/c0 show all J", spans_snapshot()).answer()["Response Data"];
    const auto& limits = data["Max. Supported Config"];
    CHECK(limits["Max Number of VDs"] == max_vds);
    CHECK(limits["Max Arrays"] == max_groups);
    CHECK(limits["Max VDs Per Array"] == max_vds_per_group);
    CHECK(limits["Max PD Per Array"] == max_members);
    CHECK(limits["Max Number of Physical Drives"] == max_drives);
    CHECK(limits["Max Spans Per VD"] == max_spans);
    CHECK(data["Capabilities"]["Supported RAID Levels"] ==
          "RAID0, RAID1, RAID5, RAID6, RAID10, RAID50, RAID60");
    CHECK(data["Properties"]["Drive Coercion Mode"] == "1 (128 MiB)");
    CHECK(data["Status"]["VD Degraded Count"] == 2);
    CHECK(data["FOREIGN CONFIGURATION"].size() == 2);
}

TEST_CASE("perchcli: coercion") {
    const auto shown = run_line("/c0 show coercion", spans_snapshot());
    CHECK(shown.says("\nDrive Coercion Mode 1 (128 MiB) \n"));
    for (const auto& [given, sent, text] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"0", "None", "0 (None)"},
             {"1", "128M", "1 (128 MiB)"},
             {"2", "1G", "2 (1 GiB)"},
             {"none", "None", "0 (None)"},
             {"128m", "128M", "1 (128 MiB)"}}) {
        CAPTURE(given);
        FakeConnection connection(spans_snapshot());
        FakeTerminal terminal;
        const auto result =
            run_with(connection, terminal, fmt::format("/c0 set Coercion={} J", given));
        CHECK(result.status == 0);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].target ==
              "/redfish/v1/Systems/1/Storage/c0/Actions/Oem/PerchStorage.SetCoercion");
        CHECK(connection.sent[0].body == nlohmann::json{{"Coercion", sent}});
        const auto rows = result.answer()["Response Data"]["Controller Properties"];
        CHECK(rows[0] == nlohmann::json{{"Ctrl_Prop", "Drive Coercion Mode"}, {"Value", text}});
    }
    for (const char* value : {"3", "-1", "on", "256M", ""}) {
        CAPTURE(value);
        CHECK(run_line(fmt::format("/c0 set coercion={}", value)).status != 0);
    }
}

TEST_CASE("perchcli: pictures of the largest controller take no time") {
    // What the tables do per row must not depend on the number of rows: 240 VDs of 256 members on
    // 256 drives are 61440 rows.
    Snapshot snapshot;
    DriveGroup group;
    group.level = "RAID0";
    group.per_span = max_members;
    for (int slot = 0; slot < max_members; ++slot) {
        auto drive = make_drive(slot);
        drive.state = DriveState::configured;
        drive.group = 0;
        snapshot.drives.push_back(drive);
        group.members.push_back({slot, 0, drive.id, DriveStatus::online});
    }
    snapshot.groups = {group};
    for (int id = 1; id <= static_cast<int>(max_vds); ++id) {
        snapshot.vds.push_back(make_vd(group, id, fmt::format("v{}", id)));
    }
    const DriveIndex index(snapshot);
    std::size_t rows = 0;
    for (const auto& vd : snapshot.vds) {
        rows += member_table("PDs", index, vd).rows.size();
    }
    CHECK(rows == 240 * 256);
    CHECK(topology_table(snapshot, all_groups(snapshot)).rows.size() == 258);
}
