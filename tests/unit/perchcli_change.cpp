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
    CHECK(run_with(connection, terminal, "/c0 add vd raid5 drives=0:0-2").status == 0);
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
    for (const char* line : {"/c0/v1 del", "/c0/vall delete", "/c0/e0/s1 set offline"}) {
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
    for (const char* line : {"/c0/v1,9 del force", "/c0/e0/s1,99 set offline force",
                             "/c0/v9 del force", "/c0/e0/s99 start rebuild"}) {
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
    for (const char* line :
         {"show", "/c0 show", "/c9 show", "/c0 fly", "/c0/v1 show", "/c0/v7 show", "/c0/e0/s0 show",
          "/c0/e0/s50 show", "/c0/v1 del", "/c0/v1 del force", "/c0 add vd r5 drives=0:70",
          "/c0 add vd r5 strip=3 drives=0:1", "/c0/e0/s3 set offline"}) {
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
