// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdlib>
#include <ctime>

#include "catch.hpp"
#include "help.hpp"
#include "perchcli_fakes.hpp"
#include "render.hpp"
#include "rows.hpp"

using namespace perch;
using namespace perch::cli;
using namespace perch::cli::test;

namespace {

void use_utc() {
    setenv("TZ", "UTC", 1);
    tzset();
}

/// Golden texts are written without the version, which changes with every release.
std::string without_version(std::string text) {
    const auto version = cli_version();
    for (auto at = text.find(version); at != std::string::npos; at = text.find(version)) {
        text.replace(at, version.size(), "VERSION");
    }
    return text;
}

}  // namespace

TEST_CASE("perchcli: tables have the vendor's shape") {
    const Table table{"T",
                      {{"DG", Align::number}, {"Name"}, {"Size", Align::right}},
                      {{std::int64_t{1}, "a", "1.000 GiB"}, {"-", "long ü", "10.000 GiB"}},
                      false,
                      {}};
    CHECK(render_table(table) ==
          "---------------------\n"
          "DG Name         Size \n"
          "---------------------\n"
          " 1 a       1.000 GiB \n"
          "-  long ü 10.000 GiB \n"
          "---------------------\n");
}

TEST_CASE("perchcli: show begins with the worst problem") {
    const auto result = run_line("show");
    CHECK(result.status == 0);
    CHECK(without_version(result.output) == R"(Critical: v1 (data) is Degraded: s3 (SN3) is missing.
  Perch: Waiting for s3 to come back.
  To do: Put a drive into slot 3.
  and 1 more; 'perchcli /c0 show all' lists them

CLI Version = VERSION
Operating system = Linux6.1.0
Status Code = 0
Status = Success
Description = None

Number of Controllers = 1
Host Name = guest
Operating System  = Linux6.1.0
Perch Version = 0.1.0

System Overview :
===============

--------------------------------------------------------------------------
Ctrl Product Name SASAddress Personality Status   PD(s) VD(s) VNOpt EPack 
--------------------------------------------------------------------------
   0 Perch        -          RAID        Degraded     7     1     1 -     
--------------------------------------------------------------------------

Ctrl-Controller Index|PD(s)-Physical drives present|VD(s)-Virtual drives|VNOpt-VD Not Optimal|EPack-Energy Pack

v1 (data): survives NO further drive failure; used by: mounted on /mnt

0:7 JBOD: ext4 filesystem 'old' on the whole drive

)");
    const auto json = run_line("show J").answer();
    CHECK(json["Command Status"]["Status Code"] == 0);
    CHECK(json["Response Data"]["Operating System "] == "Linux6.1.0");
    CHECK(json["Response Data"]["System Overview"][0]["VNOpt"] == 1);
    CHECK(json["Response Data"]["Problems"].size() == 2);
    CHECK(json["Response Data"]["Problems"][0]["Action"] == "Put a drive into slot 3.");
}

TEST_CASE("perchcli: without problems show begins with the header") {
    auto snapshot = degraded_snapshot();
    snapshot.problems.clear();
    FakeConnection connection(snapshot);
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "show").output.rfind("CLI Version", 0) == 0);
    snapshot.daemon = false;
    FakeConnection away(snapshot);
    for (const char* line : {"show", "/c0 show", "/c0/vall show", "/c0/sall show"}) {
        CHECK(
            run_with(away, terminal, line).output.rfind("perchd does not run; read-only view", 0) ==
            0);
    }
}

TEST_CASE("perchcli: JSON is printed as the vendor prints it") {
    const auto result = run_line("/c0/vall show J");
    CHECK(result.status == 0);
    CHECK(without_version(result.output) == R"({
"Controllers":[
{
	"Command Status" : {
		"CLI Version" : "VERSION",
		"Operating system" : "Linux6.1.0",
		"Controller" : "0",
		"Status" : "Success",
		"Description" : "None"
	},
	"Response Data" : {
		"Virtual Drives" : [
			{
				"DG/VD" : "0/1",
				"TYPE" : "RAID5",
				"State" : "Dgrd",
				"Access" : "RW",
				"CurrentCache" : "NR,WT",
				"DefaultCache" : "NR,WT",
				"Size" : "21.000 GiB",
				"Name" : "data"
			}
		],
		"VD Protection" : [
			{
				"VD" : 1,
				"Name" : "data",
				"Failures survived now" : 0,
				"Used by" : "mounted on /mnt",
				"Active Operations" : "None",
				"State reason" : "s3 (SN3) is missing"
			}
		]
	}
}
]
}

)");
}

TEST_CASE("perchcli: JSON strings are escaped, and bytes that are not UTF-8 do no harm") {
    Reply reply;
    reply.controller = 0;
    reply.blocks = {{Pair{"k\"", "a\\\n\"\xff"}}, {Pair{"n", std::int64_t{-3}}}};
    const auto text = render_json({reply}, {"V", "OS"});
    CHECK(text.find("\"k\\\"\" : \"a\\\\\\n\\\"\xef\xbf\xbd\"") != std::string::npos);
    CHECK(nlohmann::json::parse(text)["Controllers"][0]["Response Data"]["n"] == -3);
}

TEST_CASE("perchcli: the drive table") {
    const auto result = run_line("/c0/eall/sall show");
    CHECK(result.status == 0);
    CHECK(result.says(R"(
Description = Show Drive Information Succeeded.


Drive Information :
=================

-----------------------------------------------------------------------------------------------------
EID:Slt PID State Status  DG      Size Intf Med SED_Type  SeSz Model          Sp LU/NS Count Alt-EID 
-----------------------------------------------------------------------------------------------------
0:0      10 Conf  Online   0 7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
0:1      11 Conf  Online   0 7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
0:2      12 Conf  Online   0 7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
0:3      13 Conf  Missing  0 7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
0:4      14 UConf Good    -  7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
0:7      17 JBOD  Online  -  7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
-        19 UConf Good    F  7.000 GiB NVMe SSD -         512B QEMU NVMe Ctrl U            1 -       
1:4      40 UConf Good    -  7.000 GiB NVMe SSD -        4 KiB QEMU NVMe Ctrl U            1 -       
-----------------------------------------------------------------------------------------------------


LU/NS Information :
=================
)"));
    CHECK(
        result.says("EID-Enclosure Persistent ID|Slt-Slot Number|PID-Persistent ID|DG-DriveGroup"));
    CHECK(result.says("\n0:7 JBOD: ext4 filesystem 'old' on the whole drive\n"));
}

TEST_CASE("perchcli: drive states and status as the v8 columns name them") {
    const auto row = [](DriveState state, DriveStatus status) {
        auto drive = make_drive(0);
        drive.state = state;
        drive.status = status;
        drive.group = state == DriveState::configured ? std::optional(0) : std::nullopt;
        const auto table = drive_table("T", {&drive});
        return value_text(table.rows[0][2]) + "/" + value_text(table.rows[0][3]) + "/" +
               value_text(table.rows[0][4]);
    };
    CHECK(row(DriveState::unconfigured, DriveStatus::good) == "UConf/Good/-");
    CHECK(row(DriveState::unconfigured, DriveStatus::failed) == "UConf/Failed/-");
    CHECK(row(DriveState::jbod, DriveStatus::good) == "JBOD/Online/-");
    CHECK(row(DriveState::foreign, DriveStatus::good) == "UConf/Good/F");
    CHECK(row(DriveState::unusable, DriveStatus::failed) == "Unusbl/Failed/-");
    CHECK(row(DriveState::configured, DriveStatus::online) == "Conf/Online/0");
    CHECK(row(DriveState::configured, DriveStatus::offline) == "Conf/Offline/0");
    CHECK(row(DriveState::configured, DriveStatus::missing) == "Conf/Missing/0");
    CHECK(row(DriveState::configured, DriveStatus::failed) == "Conf/Failed/0");
    CHECK(row(DriveState::configured, DriveStatus::rebuild) == "Conf/Rebuild/0");
}

TEST_CASE("perchcli: one drive in full") {
    const auto data = run_line("/c0/e0/s0 show all J").answer()["Response Data"]["Drives List"];
    REQUIRE(data.size() == 1);
    CHECK(data[0]["Drive Information"]["EID:Slt"] == "0:0");
    const auto& details = data[0]["Drive Detailed Information"];
    CHECK(details["Pull"] == "NO – v1 survives 0 more failures");
    CHECK(details["Temperature(C)"] == 40);
    CHECK(details["Drive position"] == "DriveGroup:0, Span:0, Row:0");
    CHECK(details["Raw size"] == "8.000 GiB [0x1000000 Sectors]");
    CHECK(details["LU/NS Properties"]["Media Error Count"] == 2);
    const auto jbod = run_line("/c0/e0/s7 show all");
    CHECK(jbod.says("\nContent = ext4 filesystem 'old' on the whole drive\n"));
    CHECK(jbod.says("\nPull = safe\n"));
    CHECK(jbod.says("\nDrive /c0/e0/s7 :\n===============\n"));
    const auto large = run_line("/c0/e1/s4 show all");
    CHECK(large.says("\nRaw size = 8.000 GiB [0x200000 Sectors]\n"));
}

TEST_CASE("perchcli: drives that are not there, and drives that are bad") {
    const auto absent = run_line("/c0/e0/s99 show J");
    CHECK(absent.status == 255);
    const auto status = absent.answer()["Command Status"];
    CHECK(status["Status"] == "Failure");
    CHECK(status["Description"] == "No PD found.");
    CHECK(status["Detailed Status"][0]["EID:Slt"] == "0:99");
    CHECK(status["Detailed Status"][0]["PID"] == "-");
    CHECK(status["Detailed Status"][0]["ErrCd"] == 255);
    CHECK_FALSE(absent.answer().contains("Response Data"));
    // A bad drive is a row; it never makes a show fail.
    CHECK(run_line("/c0/e0/s3 show all").status == 0);
    CHECK(run_line("/c0/s3 show").status == 0);
    // A range means what is there, a single slot must be.
    CHECK(run_line("/c0/e0/s2-6 show").status == 0);
    const auto mixed = run_line("/c0/e0/s0,99 show");
    CHECK(mixed.status == 255);
    CHECK(mixed.says("0:0      10 Conf  Online"));
    CHECK(run_line("/c0/e9/sall show").status == 255);
}

TEST_CASE("perchcli: an empty controller is no failure to look at") {
    FakeConnection connection{Snapshot{}};
    FakeTerminal terminal;
    for (const char* line :
         {"show", "/c0 show", "/c0 show all", "/call/eall/sall show all", "/call/eall/sall show",
          "/call/vall show", "/call/vall show all", "/c0/eall show", "/c0 show events"}) {
        CAPTURE(line);
        CHECK(run_with(connection, terminal, line).status == 0);
        CHECK(run_with(connection, terminal, std::string(line) + " J")
                  .answer()["Command Status"]["Status"] == "Success");
    }
    const auto empty = run_with(connection, terminal, "/c0/vall show all J").answer();
    CHECK(empty["Response Data"]["Virtual Drives"] == nlohmann::json::array());
}

TEST_CASE("perchcli: one VD in full, with a row for the missing member") {
    const auto data = run_line("/c0/v1 show all J").answer()["Response Data"]["Virtual Drives"][0];
    CHECK(data["VD Info"]["DG/VD"] == "0/1");
    REQUIRE(data["PDs"].size() == 4);
    CHECK(data["PDs"][3]["Status"] == "Missing");
    const auto& properties = data["VD Properties"];
    CHECK(properties["Strip Size"] == "64 KiB");
    CHECK(properties["Failures survived now"] == 0);
    CHECK(properties["Used by"] == "mounted on /mnt");
    CHECK(properties["State reason"] == "s3 (SN3) is missing");
    CHECK(properties["Device"] == "/dev/perch/data");
    CHECK(properties["Number of Blocks"] == 21 * GiB / 512);

    auto snapshot = degraded_snapshot();
    snapshot.drives.erase(snapshot.drives.begin() + 3);
    FakeConnection connection(snapshot);
    FakeTerminal terminal;
    const auto gone = run_with(connection, terminal, "/c0/v1 show all J").answer();
    CHECK(gone["Response Data"]["Virtual Drives"][0]["PDs"][3]["Status"] == "Missing");
    const auto topology =
        run_with(connection, terminal, "/c0 show J").answer()["Response Data"]["TOPOLOGY"];
    CHECK(topology[5]["EID:Slot"] == "-");
    CHECK(topology[5]["Status"] == "Missing");
}

TEST_CASE("perchcli: a VD that is not there") {
    const auto result = run_line("/c0/v999 show all J");
    CHECK(result.status == 255);
    CHECK(result.answer()["Command Status"]["Description"] == "None");
    CHECK(result.answer()["Command Status"]["Detailed Status"][0]["VD"] == 999);
    CHECK(result.answer()["Command Status"]["Detailed Status"][0]["ErrMsg"] == "Invalid VD number");
    CHECK(result.answer()["Response Data"]["Virtual Drives"] == nlohmann::json::array());
}

TEST_CASE("perchcli: the controller in full") {
    use_utc();
    const auto data = run_line("/c0 show all J").answer()["Response Data"];
    for (const char* key :
         {"Basics", "Version", "Status", "Max. Supported Config", "Capabilities", "Drive Groups",
          "TOPOLOGY", "Virtual Drives", "VD LIST", "Physical Drives", "PD LIST", "LU/NS LIST",
          "Enclosures", "Enclosure List", "Problems"}) {
        CAPTURE(key);
        CHECK(data.contains(key));
    }
    CHECK(data["Basics"]["System Time(LocalTime yyyy/mm/dd hh:mm:sec)"] == "2026/11/30 15:05:16");
    CHECK(data["Status"]["VD Degraded Count"] == 1);
    CHECK(data["Status"]["PD Count"] == 7);
    CHECK(data["Status"]["Missing PD Drive Count"] == 1);
    CHECK(data["Enclosures"] == 2);
    CHECK(
        run_line("/c0 show all")
            .says(
                "\nTOPOLOGY :\n========\n\n"
                "-------------------------------------------------------------------------------\n"
                "DG Span Row EID:Slot PID Type  State Status  BT       Size PDC  Secured FSpace \n"
                "-------------------------------------------------------------------------------\n"
                " 0 -    -   -        -   RAID5 -     -       N  21.000 GiB dflt N       N      \n"
                " 0 0    -   -        -   RAID5 -     -       N  21.000 GiB dflt N       N      \n"
                " 0 0    0   0:0      10  DRIVE Conf  Online  N   7.000 GiB dflt N       -      "
                "\n"));
}

TEST_CASE("perchcli: controllers that are not there") {
    const auto absent = run_line("/c5 show J");
    CHECK(absent.status == 255);
    CHECK(absent.answer()["Command Status"]["Controller"] == 5);
    CHECK(absent.answer()["Command Status"]["Description"] == "Controller 5 not found");
    const auto both = run_line("/c0,5 show J");
    CHECK(both.status == 255);
    CHECK(both.json()["Controllers"].size() == 2);
    CHECK(run_line("/c0-2 show").status == 0);
    CHECK(run_line("/c1-2 show").status == 255);
}

TEST_CASE("perchcli: events as records and as JSON") {
    use_utc();
    FakeConnection connection(degraded_snapshot());
    connection.event_list = {{0xcf1a, "2026-06-02T18:02:08Z", 0xfb, Severity::critical,
                              "StorageDevice.1.2.VolumeDegraded", "VD v1 is now DEGRADED"}};
    FakeTerminal terminal;
    const auto text = run_with(connection, terminal, "/c0 show events latest=3");
    CHECK(text.status == 0);
    CHECK(connection.asked_latest == 3);
    CHECK(text.output.rfind("seqNum: 0x0000cf1a\n"
                            "Time: Tue Jun  2 18:02:08 2026\n"
                            "\n"
                            "Code: 0x000000fb\n"
                            "Class: 2\n"
                            "Locale: 0x01\n"
                            "Event Description: VD v1 is now DEGRADED\n"
                            "Event Data:\n"
                            "===========\n"
                            "None\n",
                            0) == 0);
    const auto json = run_with(connection, terminal, "/c0 show events type=latest=4 J").answer();
    CHECK(connection.asked_latest == 4);
    CHECK(json["Response Data"]["Events"][0]["seqNum"] == 0xcf1a);
    CHECK(json["Response Data"]["Events"][0]["Severity"] == "Critical");
}

TEST_CASE("perchcli: rebuild status") {
    auto snapshot = degraded_snapshot();
    snapshot.drives[3].status = DriveStatus::rebuild;
    snapshot.drives[3].operation = Operation{OperationKind::rebuild, 36.7, 180, 300 * MiB};
    FakeConnection connection(snapshot);
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0/e0/s2,3 show rebuild")
              .says("------------------------------------------------------------------------\n"
                    "EID:Slt PID Progress% Status          Estimated Time Left         Speed \n"
                    "------------------------------------------------------------------------\n"
                    "0:2      12 -         Not in progress -                               - \n"
                    "0:3      13        36 In progress     3 Minutes           300.000 MiB/s \n"));
}
