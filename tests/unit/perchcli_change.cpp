// SPDX-License-Identifier: GPL-2.0-or-later
#include "catch.hpp"
#include "http_connection.hpp"
#include "perchcli_fakes.hpp"

using namespace perch;
using namespace perch::cli;
using namespace perch::cli::test;

namespace {

constexpr const char* storage = "/redfish/v1/Systems/1/Storage/c0";

/// The snapshot with task 1 in that state.
Snapshot with_task(const std::string& state, const std::string& message = "",
                   const std::string& error = "", const std::string& target = "") {
    auto snapshot = degraded_snapshot();
    snapshot.tasks.push_back({1, "Task", state, message, error, target});
    return snapshot;
}

Snapshot rebuilding(double percent) {
    auto snapshot = with_task("Completed");
    snapshot.drives[3].status = DriveStatus::rebuild;
    snapshot.drives[3].operation = Operation{OperationKind::rebuild, percent, 60, 100 * MiB};
    return snapshot;
}

Snapshot rebuilt() {
    auto snapshot = with_task("Completed");
    snapshot.drives[3].status = DriveStatus::online;
    snapshot.vds[0].survives = 1;
    return snapshot;
}

int lines_in(const std::string& text, const std::string& part) {
    int count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
        ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("perchcli: add vd asks perchd and waits for the task") {
    FakeConnection connection(degraded_snapshot());
    connection.snapshots.push_back(with_task("Running"));
    connection.snapshots.push_back(
        with_task("Completed", "", "", std::string(storage) + "/Volumes/1"));
    connection.accepted.task = 1;
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal,
                                 "/c0 add vd r5 drives=0:4,0:7,1:4 name=data strip=128 force J");
    CHECK(result.status == 0);
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].method == "POST");
    CHECK(connection.sent[0].target == std::string(storage) + "/Volumes");
    CHECK(connection.sent[0].body == nlohmann::json::parse(R"({
        "RAIDType": "RAID5", "Name": "data", "StripSizeBytes": 131072,
        "Links": {"Drives": [
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e0s4"},
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e0s7"},
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e1s4"}]},
        "Oem": {"Perch": {"Force": true}}})"));
    CHECK(result.answer()["Command Status"]["Description"] == "Add VD succeeded.");
    CHECK(result.answer()["Response Data"]["VD Information"][0]["VDID"] == 1);
    CHECK(result.answer()["Response Data"]["VD Information"][0]["VDSize"] == "21.000 GiB");
}

TEST_CASE("perchcli: add vd without options sends none") {
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0 add vd raid5 drives=0:4,0:7,1:4").status == 0);
    REQUIRE(connection.sent.size() == 1);
    const auto& body = connection.sent[0].body;
    CHECK_FALSE(body.contains("Name"));
    CHECK_FALSE(body.contains("StripSizeBytes"));
    CHECK_FALSE(body.contains("Oem"));
    CHECK(body["Links"]["Drives"].size() == 3);
}

TEST_CASE("perchcli: drive lists must name drives that are there, once, without doubt") {
    CHECK(run_line("/c0 add vd r5 drives=0:4-6").says("There is no drive in 0:5."));
    CHECK(run_line("/c0 add vd r5 drives=0:0-2,1").says("The drive in 0:1 is named twice."));
    CHECK(run_line("/c0 add vd r5 drives=0-2,4").says("Slot 4 exists in several enclosures"));
    CHECK(run_line("/c0 add vd r5 drives=50").says("There is no drive in slot 50."));
}

TEST_CASE("perchcli: perchd's refusal becomes message and exit status") {
    FakeConnection connection(degraded_snapshot());
    connection.refusal = Error{Errc::data_found, "0:7 carries an ext4 filesystem 'old'."};
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0 add vd r5 drives=0:4,0:7,1:4 J");
    CHECK(result.status == errc_info(Errc::data_found).exit_status);
    CHECK(result.answer()["Command Status"]["Status"] == "Failure");
    CHECK(result.answer()["Command Status"]["Description"] ==
          "0:7 carries an ext4 filesystem 'old'.");
}

TEST_CASE("perchcli: a task that fails later does the same") {
    FakeConnection connection(degraded_snapshot());
    connection.snapshots.push_back(with_task("Exception", "the drive answered EIO", "io"));
    connection.accepted.task = 1;
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0 add vd r5 drives=0:4,0:7,1:4");
    CHECK(result.status == errc_info(Errc::io).exit_status);
    CHECK(result.says("Description = the drive answered EIO\n"));
}

TEST_CASE("perchcli: a task that perchd forgot is no endless wait") {
    FakeConnection connection(degraded_snapshot());
    connection.accepted.task = 99;
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0 add vd r5 drives=0:4,0:7,1:4");
    CHECK(result.status == errc_info(Errc::internal).exit_status);
    CHECK(result.says("no longer knows task 99"));
}

TEST_CASE("perchcli: destructive commands refuse without a terminal") {
    for (const char* line :
         {"/c0/v1 del", "/c0/vall delete", "/c0/e0/s1 set offline", "/c0/v1 start init"}) {
        CAPTURE(line);
        FakeConnection connection(degraded_snapshot());
        FakeTerminal terminal;
        const auto result = run_with(connection, terminal, line);
        CHECK(result.status == errc_info(Errc::not_confirmed).exit_status);
        CHECK(result.says("Add 'force' to go on"));
        CHECK(connection.sent.empty());
    }
}

TEST_CASE("perchcli: on a terminal the user must type yes") {
    for (const char* answer : {"", "y", "YES", "no", "yes "}) {
        CAPTURE(answer);
        FakeConnection connection(degraded_snapshot());
        FakeTerminal terminal;
        terminal.answer = answer;
        CHECK(run_with(connection, terminal, "/c0/v1 del").status ==
              errc_info(Errc::not_confirmed).exit_status);
        CHECK(connection.sent.empty());
    }
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    terminal.answer = "yes";
    const auto result = run_with(connection, terminal, "/c0/v1 del");
    CHECK(result.status == 0);
    CHECK(result.says("Description = Delete VD succeeded\n"));
    CHECK(result.errors.find("v1 (data): RAID5, 21.000 GiB; used by: mounted on /mnt") !=
          std::string::npos);
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].method == "DELETE");
    CHECK(connection.sent[0].target == std::string(storage) + "/Volumes/1");
    CHECK(connection.sent[0].body.is_null());
}

TEST_CASE("perchcli: force asks nothing") {
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    terminal.answer = "no";
    const auto result = run_with(connection, terminal, "/c0/v1 del force J");
    CHECK(result.status == 0);
    CHECK(result.errors.empty());
    CHECK(connection.sent.size() == 1);
}

TEST_CASE("perchcli: nothing is changed when one of the names is wrong") {
    for (const char* line :
         {"/c0/v1,9 del force", "/c0/e0/s1,99 set offline force", "/c0/v9 del force",
          "/c0/e0/s99 start rebuild", "/c0/v1,9 start init force", "/c0/e0/s4,99 set uconf force",
          "/c0/v9 start cc"}) {
        CAPTURE(line);
        FakeConnection connection(degraded_snapshot());
        FakeTerminal terminal;
        CHECK(run_with(connection, terminal, line).status == 255);
        CHECK(connection.sent.empty());
    }
    const auto result = run_line("/c0/v9 del force J").answer()["Command Status"];
    CHECK(result["Description"] == "Delete VD failed");
    CHECK(result["Detailed Status"][0]["ErrMsg"] == "Invalid VD number");
    CHECK(result["Detailed Status"][0]["ErrType"] == "CLI");
}

TEST_CASE("perchcli: drive actions") {
    struct Case {
        const char* line;
        const char* target;
        nlohmann::json body;
        const char* description;
    };
    const std::vector<Case> cases{
        {"/c0/e0/s1 set offline force",
         "/Drives/e0s1/Actions/Oem/PerchDrive.SetState",
         {{"State", "Offline"}},
         "Set PD Offline Succeeded."},
        {"/c0/s1 set online",
         "/Drives/e0s1/Actions/Oem/PerchDrive.SetState",
         {{"State", "Online"}},
         "Set PD Online Succeeded."},
        {"/c0/e0/s3 start rebuild", "/Drives/e0s3/Actions/Oem/PerchDrive.StartRebuild",
         nlohmann::json::object(), "Start PD Rebuild Succeeded."},
        {"/c0/e0/s3 stop rebuild", "/Drives/e0s3/Actions/Oem/PerchDrive.StopRebuild",
         nlohmann::json::object(), "Stop PD Rebuild Succeeded."},
        {"/c0/e0/s4 insert dg=0 array=0 row=3",
         "/Drives/e0s4/Actions/Oem/PerchDrive.InsertMember",
         {{"DriveGroup", 0}, {"Array", 0}, {"Row", 3}, {"Force", false}},
         "Insert PD Succeeded."},
        {"/c0/e0/s7 insert row=3 array=0 dg=0 force",
         "/Drives/e0s7/Actions/Oem/PerchDrive.InsertMember",
         {{"DriveGroup", 0}, {"Array", 0}, {"Row", 3}, {"Force", true}},
         "Insert PD Succeeded."},
    };
    for (const auto& row : cases) {
        CAPTURE(row.line);
        FakeConnection connection(degraded_snapshot());
        FakeTerminal terminal;
        const auto result = run_with(connection, terminal, std::string(row.line) + " J");
        CHECK(result.status == 0);
        CHECK(result.answer()["Command Status"]["Description"] == row.description);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].target == storage + std::string(row.target));
        CHECK(connection.sent[0].body == row.body);
    }
}

TEST_CASE("perchcli: what is done to spares and states of drives") {
    struct Case {
        const char* line;
        const char* target;
        nlohmann::json body;
        const char* description;
    };
    const std::vector<Case> cases{
        {"/c0/e0/s6 add hotsparedrive", "/Drives/e0s6/Actions/Oem/PerchDrive.AddSpare",
         nlohmann::json::object(), "Add Hot Spare Succeeded."},
        {"/c0/e0/s6 ADD HotSpareDrive DGs=0",
         "/Drives/e0s6/Actions/Oem/PerchDrive.AddSpare",
         {{"DriveGroups", {0}}},
         "Add Hot Spare Succeeded."},
        {"/c0/e0/s4 delete hotsparedrive", "/Drives/e0s4/Actions/Oem/PerchDrive.DeleteSpare",
         nlohmann::json::object(), "Delete Hot Spare Succeeded."},
        {"/c0/s5 del hotsparedrive", "/Drives/e0s5/Actions/Oem/PerchDrive.DeleteSpare",
         nlohmann::json::object(), "Delete Hot Spare Succeeded."},
        {"/c0/e0/s1 set missing",
         "/Drives/e0s1/Actions/Oem/PerchDrive.SetState",
         {{"State", "Missing"}},
         "Set PD Missing Succeeded."},
        {"/c0/e0/s6 set uconf",
         "/Drives/e0s6/Actions/Oem/PerchDrive.SetState",
         {{"State", "Unconfigured"}, {"Force", false}},
         "Set PD UConf Succeeded."},
        {"/c0/e0/s6 set jbod",
         "/Drives/e0s6/Actions/Oem/PerchDrive.SetState",
         {{"State", "JBOD"}, {"Force", false}},
         "Set PD JBOD Succeeded."},
        {"/c0/e0/s6 set uconf force",
         "/Drives/e0s6/Actions/Oem/PerchDrive.SetState",
         {{"State", "Unconfigured"}, {"Force", true}},
         "Set PD UConf Succeeded."},
    };
    for (const auto& row : cases) {
        CAPTURE(row.line);
        FakeConnection connection(spans_snapshot());
        FakeTerminal terminal;
        const auto result = run_with(connection, terminal, std::string(row.line) + " J");
        CHECK(result.status == 0);
        CHECK(result.answer()["Command Status"]["Description"] == row.description);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].method == "POST");
        CHECK(connection.sent[0].target == storage + std::string(row.target));
        CHECK(connection.sent[0].body == row.body);
    }
}

TEST_CASE("perchcli: a spare for a drive group that is not there, or that cannot use one") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0/e0/s6 add hotsparedrive dgs=0,7")
              .says("There is no drive group 7."));
    CHECK(run_with(connection, terminal, "/c0/e0/s6 add hotsparedrive dgs=5-9")
              .says("There is no such drive group."));
    CHECK(run_with(connection, terminal, "/c0/e0/s6 add hotsparedrive dgs=x").status ==
          errc_info(Errc::invalid_argument).exit_status);
    connection.snapshots.front().groups[0].level = "RAID0";
    CHECK(run_with(connection, terminal, "/c0/e0/s6 add hotsparedrive dgs=0")
              .says("Drive group 0 is RAID0: a spare could not take over anything there."));
    CHECK(connection.sent.empty());
}

TEST_CASE("perchcli: data on a drive is erased only after a person said yes to it") {
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    for (const char* line : {"/c0/e0/s7 set uconf", "/c0/e0/s4,7 set uconf"}) {
        CAPTURE(line);
        const auto result = run_with(connection, terminal, line);
        CHECK(result.status == errc_info(Errc::not_confirmed).exit_status);
        CHECK(result.says("Set PD UConf Failed."));
        terminal.answer = "no";
        const auto refused = run_with(connection, terminal, line);
        CHECK(refused.status == errc_info(Errc::not_confirmed).exit_status);
        CHECK(refused.errors.find("This erases for ever what is on these drives:\n"
                                  "  0:7 (SN SN7, QEMU NVMe Ctrl): ext4 filesystem 'old' on the "
                                  "whole drive\n") == 0);
        CHECK(connection.sent.empty());
        terminal.answer.reset();
    }
    terminal.answer = "yes";
    CHECK(run_with(connection, terminal, "/c0/e0/s4,7 set uconf").status == 0);
    REQUIRE(connection.sent.size() == 2);
    // Force goes along only for the drive that was asked about.
    CHECK(connection.sent[0].body["Force"] == false);
    CHECK(connection.sent[1].body["Force"] == true);
    // What is a JBOD already stays as it is; nothing is erased, nothing is asked.
    terminal.answer.reset();
    CHECK(run_with(connection, terminal, "/c0/e0/s7 set jbod").status == 0);
    CHECK(connection.sent.back().body["Force"] == false);
}

TEST_CASE("perchcli: a foreign configuration counts as data") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    terminal.answer = "no";
    for (const char* line : {"/c0/e0/s9 set uconf", "/c0/e0/s9 set jbod"}) {
        const auto result = run_with(connection, terminal, line);
        CHECK(result.status == errc_info(Errc::not_confirmed).exit_status);
        CHECK(result.errors.find("a foreign configuration of Perch") != std::string::npos);
    }
    CHECK(connection.sent.empty());
}

TEST_CASE("perchcli: rename") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0/v1 set name=New_1 J");
    CHECK(result.status == 0);
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].method == "PATCH");
    CHECK(connection.sent[0].target == std::string(storage) + "/Volumes/1");
    CHECK(connection.sent[0].body == nlohmann::json{{"Name", "New_1"}});
    const auto status = result.answer()["Command Status"];
    CHECK(status["Description"] == "None");
    REQUIRE(status["Detailed Status"].size() == 1);
    CHECK(status["Detailed Status"][0] == nlohmann::json{{"VD", 1},
                                                         {"Property", "Name"},
                                                         {"Value", "New_1"},
                                                         {"Status", "Success"},
                                                         {"ErrType", "-"},
                                                         {"ErrCd", "-"},
                                                         {"ErrMsg", "-"}});
    connection.sent.clear();
    CHECK(run_with(connection, terminal, "/c0/vall set name=x").says("2 VDs cannot have one name"));
    CHECK(run_with(connection, terminal, "/c0/v1 set name=two").says("v2 (two) has that name"));
    CHECK(run_with(connection, terminal, "/c0/v1 set name=a,b").says("expecting one name"));
    CHECK(run_with(connection, terminal, "/c0/v1 set name=-a").status ==
          errc_info(Errc::invalid_argument).exit_status);
    CHECK(run_with(connection, terminal, "/c0/v9 set name=x").status == 255);
    CHECK(connection.sent.empty());
    connection.refusal = Error{Errc::wrong_state, "v1 is Offline"};
    const auto refused = run_with(connection, terminal, "/c0/v1 set name=x J");
    CHECK(refused.status == 50);
    CHECK(refused.answer()["Command Status"]["Detailed Status"][0]["Status"] == "Failed");
    CHECK(refused.answer()["Command Status"]["Detailed Status"][0]["ErrMsg"] == "v1 is Offline");
}

TEST_CASE("perchcli: initialization and check") {
    struct Case {
        const char* line;
        const char* action;
        nlohmann::json body;
        const char* description;
    };
    const std::vector<Case> cases{
        {"/c0/v1 start init force",
         "Volume.Initialize",
         {{"InitializeType", "Fast"}},
         "Start INIT Operation Success"},
        {"/c0/v1 start init Full Force",
         "Volume.Initialize",
         {{"InitializeType", "Slow"}},
         "Start INIT Operation Success"},
        {"/c0/v1 stop init", "Oem/PerchVolume.StopInitialize", nlohmann::json::object(),
         "Stop INIT Operation Success"},
        {"/c0/v1 start cc", "Volume.CheckConsistency", nlohmann::json::object(),
         "Start CC Operation Success"},
        {"/c0/v1 start consistencycheck force", "Volume.CheckConsistency", nlohmann::json::object(),
         "Start CC Operation Success"},
        {"/c0/v1 stop cc", "Oem/PerchVolume.StopCheckConsistency", nlohmann::json::object(),
         "Stop CC Operation Success"},
    };
    for (const auto& row : cases) {
        CAPTURE(row.line);
        FakeConnection connection(spans_snapshot());
        FakeTerminal terminal;
        const auto result = run_with(connection, terminal, std::string(row.line) + " J");
        CHECK(result.status == 0);
        CHECK(result.answer()["Command Status"]["Description"] == row.description);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].method == "POST");
        CHECK(connection.sent[0].target ==
              fmt::format("{}/Volumes/1/Actions/{}", storage, row.action));
        CHECK(connection.sent[0].body == row.body);
    }
}

TEST_CASE("perchcli: initialization asks first, and names what is lost") {
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0/v1 start init").status ==
          errc_info(Errc::not_confirmed).exit_status);
    terminal.answer = "no";
    const auto result = run_with(connection, terminal, "/c0/v1 start init full");
    CHECK(result.errors.find("This erases all data on:\n  v1 (data): RAID5, 21.000 GiB; used by: "
                             "mounted on /mnt (perchd will refuse until that has ended)\n") == 0);
    CHECK(connection.sent.empty());
    terminal.answer = "yes";
    connection.refusal = Error{Errc::in_use, "v1 is in use"};
    const auto refused = run_with(connection, terminal, "/c0/v1 start init J");
    CHECK(refused.status == errc_info(Errc::in_use).exit_status);
    const auto status = refused.answer()["Command Status"];
    CHECK(status["Description"] == "Start INIT Operation Failed");
    CHECK(status["Detailed Status"][0]["VD"] == 1);
    CHECK(status["Detailed Status"][0]["Operation"] == "INIT");
    CHECK(status["Detailed Status"][0]["Status"] == "Failed");
    CHECK(status["Detailed Status"][0]["ErrMsg"] == "v1 is in use");
}

TEST_CASE("perchcli: progress of operations on VDs") {
    auto snapshot = spans_snapshot();
    snapshot.vds[1].operation = Operation{OperationKind::check, 36.7, 180, 300 * MiB};
    snapshot.vds[1].mismatches = 16;
    const auto text = run_line("/c0/vall show cc", snapshot);
    CHECK(text.status == 0);
    CHECK(text.says("VD Operation Status :\n"));
    CHECK(text.says("VD Operation Progress% Status          Estimated Time Left         Speed \n"));
    CHECK(
        text.says(" 1 CC        -         Not in progress -                               - \n"
                  " 2 CC               36 In progress     3 Minutes           300.000 MiB/s \n"));
    CHECK(text.says("v2 (two): the last check found 16 mismatched sectors"));
    const auto data = run_line("/c0/v2 show init J", snapshot).answer()["Response Data"];
    REQUIRE(data["VD Operation Status"].size() == 1);
    CHECK(data["VD Operation Status"][0]["VD"] == 2);
    CHECK(data["VD Operation Status"][0]["Operation"] == "INIT");
    CHECK(data["VD Operation Status"][0]["Progress%"] == "-");
    CHECK(data["VD Operation Status"][0]["Status"] == "Not in progress");
    CHECK(data["VD Operation Status"][0]["Estimated Time Left"] == "-");
    CHECK(run_line("/c0/v7 show cc", snapshot).status == 255);
}

TEST_CASE("perchcli: a check that is watched ends with what it found") {
    const auto at = [](std::optional<double> percent) {
        auto snapshot = spans_snapshot();
        snapshot.tasks.push_back({1, "Task", "Completed", "", "", ""});
        if (percent) {
            snapshot.vds[0].operation = Operation{OperationKind::check, *percent, 60, 100 * MiB};
        }
        return snapshot;
    };
    auto end = at(std::nullopt);
    end.vds[0].mismatches = 3;
    FakeConnection connection(at(std::nullopt));
    for (const double percent : {0.0, 50.0, 99.0}) {
        connection.snapshots.push_back(at(percent));
    }
    connection.accepted.task = 1;
    FakeTerminal terminal;
    SECTION("well") {
        connection.snapshots.push_back(end);
        const auto result = run_with(connection, terminal, "/c0/v1 start cc watch");
        CHECK(result.status == 0);
        CHECK(lines_in(result.output, "Check of v1 (one)") == 3);
        CHECK(result.says("v1 (one): the last check found 3 mismatched sectors"));
    }
    SECTION("stopped") {
        connection.snapshots.push_back(at(std::nullopt));
        const auto result = run_with(connection, terminal, "/c0/v1 start cc watch");
        CHECK(result.status == errc_info(Errc::wrong_state).exit_status);
        CHECK(result.says("The check did not complete: it has no result."));
    }
    SECTION("already running") {
        connection.snapshots.pop_front();
        connection.snapshots.push_back(end);
        const auto result = run_with(connection, terminal, "/c0/v1 show cc watch");
        CHECK(result.status == 0);
        CHECK(result.says("Description = The check has ended.\n"));
        CHECK(run_with(connection, terminal, "/c0/v1 show cc watch")
                  .says("No check is in progress."));
    }
}

TEST_CASE("perchcli: a full initialization that is watched") {
    auto running = spans_snapshot();
    running.vds[0].operation = Operation{OperationKind::init, 25, 60, 100 * MiB};
    FakeConnection connection(running);
    FakeTerminal terminal;
    SECTION("ends") {
        connection.snapshots.push_back(spans_snapshot());
        const auto result = run_with(connection, terminal, "/c0/v1 start init full watch force");
        CHECK(result.status == 0);
        CHECK(result.says("Initialization of v1 (one) [#####---------------]  25.0 %"));
        CHECK(result.says("v1 (one): survives NO further drive failure"));
    }
    SECTION("with the VD gone") {
        connection.snapshots.push_back(Snapshot{});
        const auto result = run_with(connection, terminal, "/c0/v1 show init watch");
        CHECK(result.says("The initialization did not complete: the VD is gone."));
    }
    SECTION("with the VD offline") {
        connection.snapshots.push_back(spans_snapshot());
        connection.snapshots.back().vds[0].state = VdState::offline;
        const auto result = run_with(connection, terminal, "/c0/v1 show init watch");
        CHECK(result.says("The initialization did not complete: the VD is Offline now."));
    }
}

TEST_CASE("perchcli: a slot without enclosure must mean one drive") {
    CHECK(run_line("/c0/s4 set online").says("Slot 4 exists in several enclosures"));
}

TEST_CASE("perchcli: a slot whose missing member has a successor means the successor") {
    auto snapshot = degraded_snapshot();
    snapshot.drives[3].id = "missing-SN3";
    auto successor = make_drive(3);
    successor.pid = 33;
    snapshot.drives.push_back(successor);
    FakeConnection connection(snapshot);
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0/e0/s3 insert dg=0 array=0 row=3").status == 0);
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].target.find("/Drives/e0s3/") != std::string::npos);
}

TEST_CASE("perchcli: watch prints a line for every 5 % and ends when the drive is online") {
    FakeConnection connection(degraded_snapshot());
    for (const double percent : {0.0, 1.0, 4.9, 5.0, 50.0, 50.5, 99.9}) {
        connection.snapshots.push_back(rebuilding(percent));
    }
    connection.snapshots.push_back(rebuilt());
    connection.accepted.task = 1;
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0/e0/s3 start rebuild watch");
    CHECK(result.status == 0);
    CHECK(lines_in(result.output, "Rebuild of 0:3") == 4);
    CHECK(result.says(
        "Rebuild of 0:3 [##########----------]  50.0 %  100.000 MiB/s  1 Minutes left\n"));
    CHECK(result.says("v1 (data): survives 1 more drive failure; used by: mounted on /mnt"));
}

TEST_CASE("perchcli: watch moves one line on a terminal and keeps JSON clean") {
    FakeConnection connection(rebuilding(10));
    connection.snapshots.push_back(rebuilding(20));
    connection.snapshots.push_back(rebuilt());
    FakeTerminal terminal;
    terminal.moving = true;
    SECTION("text") {
        const auto result = run_with(connection, terminal, "/c0/e0/s3 show rebuild watch");
        CHECK(result.status == 0);
        CHECK(lines_in(result.output, "\rRebuild of 0:3") == 2);
        CHECK(result.says("Description = Rebuild completed.\n"));
    }
    SECTION("JSON") {
        const auto result = run_with(connection, terminal, "/c0/e0/s3 show rebuild watch J");
        CHECK(result.answer()["Command Status"]["Description"] == "Rebuild completed.");
        CHECK(lines_in(result.errors, "Rebuild of 0:3") == 2);
    }
}

TEST_CASE("perchcli: a rebuild that does not complete is a failure") {
    FakeConnection connection(rebuilding(10));
    connection.snapshots.push_back(with_task("Completed"));
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0/e0/s3 show rebuild watch");
    CHECK(result.status == errc_info(Errc::wrong_state).exit_status);
    CHECK(result.says("The rebuild did not complete: the drive is Missing now."));
    CHECK(run_line("/c0/e0/s3 show rebuild watch").says("No rebuild is in progress."));
}

TEST_CASE("perchcli: perchd away") {
    FakeConnection connection(degraded_snapshot());
    connection.error = Error{Errc::no_daemon, "perchd does not answer on X"};
    FakeTerminal terminal;
    for (const char* line : {"show", "/c0 show", "/c0/v1 del force", "/c0/e0/s1 show all"}) {
        const auto result = run_with(connection, terminal, line);
        CHECK(result.status == errc_info(Errc::no_daemon).exit_status);
        CHECK(result.says("Status = Failure\nDescription = perchd does not answer on X\n"));
    }
}

TEST_CASE("perchcli: syntax errors are JSON when JSON is asked for") {
    const auto result = run_line("/c0 fly J");
    CHECK(result.status == errc_info(Errc::syntax).exit_status);
    CHECK(result.answer()["Command Status"]["Status"] == "Failure");
    CHECK_FALSE(result.answer()["Command Status"].contains("Controller"));
    CHECK(run_line("name=\"a").status == errc_info(Errc::syntax).exit_status);
}

TEST_CASE("perchcli: the exit status is 0 exactly when the status is Success") {
    for (const char* line : {"show",
                             "/c0 show",
                             "/c9 show",
                             "/c0 fly",
                             "/c0/v1 show",
                             "/c0/v7 show",
                             "/c0/e0/s0 show",
                             "/c0/e0/s50 show",
                             "/c0/v1 del",
                             "/c0/v1 del force",
                             "/c0 add vd r5 drives=0:70",
                             "/c0 add vd r5 strip=3 drives=0:1",
                             "/c0/e0/s3 set offline",
                             "/c0/dall show",
                             "/c0/d9 show",
                             "/c0/fall show",
                             "/c0/fall import",
                             "/c0/f0 del",
                             "/c0/v1 start init",
                             "/c0/v1 show cc",
                             "/c0 show freespace",
                             "/c0 set coercion=9",
                             "/c0/e0/s7 set uconf"}) {
        CAPTURE(line);
        const auto result = run_line(std::string(line) + " J");
        CHECK((result.status == 0) == (result.answer()["Command Status"]["Status"] == "Success"));
        CHECK(result.status >= 0);
        CHECK(result.status <= 255);
    }
}

TEST_CASE("perchcli: every error perchd can name arrives as that error") {
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto& info = errc_info(static_cast<Errc>(i));
        HttpConnection connection("/x", std::chrono::seconds(1), [&](const HttpRequest&) {
            const nlohmann::json body{
                {"error",
                 {{"code", fmt::format("Perch.1.0.{}", info.name)}, {"message", "so it is"}}}};
            return Result<HttpResponse>(HttpResponse{info.http_status, "", body.dump()});
        });
        const auto answer = connection.send("POST", "/t", nlohmann::json::object());
        REQUIRE_FALSE(answer);
        CHECK(answer.error().code == info.code);
        CHECK(answer.error().message == "so it is");
    }
}

TEST_CASE("perchcli: answers that are not perchd's") {
    HttpResponse response{500, "", "oops"};
    HttpConnection connection("/x", std::chrono::seconds(1),
                              [&](const HttpRequest&) { return Result<HttpResponse>(response); });
    CHECK(connection.snapshot().error().code == Errc::internal);
    response = {404, "", "[]"};
    CHECK(connection.snapshot().error().code == Errc::not_found);
    response = {403, "", R"({"error":7})"};
    CHECK(connection.snapshot().error().code == Errc::permission);
    response = {200, "", "{"};
    CHECK(connection.snapshot().error().code == Errc::corrupt);
    response = {200, "", R"({"drives":7})"};
    CHECK(connection.snapshot().error().code == Errc::corrupt);
    CHECK(connection.events({}).error().code == Errc::corrupt);
    response = {202, "", "{}"};
    CHECK(connection.send("POST", "/t", nullptr).error().code == Errc::corrupt);
}

TEST_CASE("perchcli: requests as perchd's API wants them") {
    std::vector<HttpRequest> seen;
    HttpResponse response{200, "", snapshot_to_json(degraded_snapshot()).dump()};
    HttpConnection connection("/run/s", std::chrono::seconds(1), [&](const HttpRequest& request) {
        seen.push_back(request);
        return Result<HttpResponse>(response);
    });
    CHECK(*connection.snapshot() == degraded_snapshot());
    CHECK(seen.back().socket == "/run/s");
    CHECK(seen.back().target == "/redfish/v1/Oem/Perch/Snapshot");
    CHECK(connection.snapshot(7));
    CHECK(seen.back().target == "/redfish/v1/Oem/Perch/Snapshot?after=7");
    CHECK(seen.back().timeout > std::chrono::seconds(30));
    response = {202, "/redfish/v1/TaskService/TaskMonitors/12", ""};
    CHECK(connection.send("DELETE", "/v", nullptr)->task == 12U);
    CHECK(seen.back().body.empty());
    response = {202, "", R"({"Id":"13"})"};
    CHECK(connection.send("POST", "/v", nlohmann::json::object())->task == 13U);
    CHECK(seen.back().body == "{}");
    response = {201, "/redfish/v1/x/Volumes/4", "{}"};
    CHECK(connection.send("POST", "/v", nullptr)->target == "/redfish/v1/x/Volumes/4");
    response = {200, "", R"({"Events":[{"sequence":5,"text":"t"}]})"};
    CHECK(connection.events(9)->front().sequence == 5);
    CHECK(seen.back().target == "/redfish/v1/Oem/Perch/Events?latest=9");
}
