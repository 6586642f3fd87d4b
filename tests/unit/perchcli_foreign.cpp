// SPDX-License-Identifier: GPL-2.0-or-later
#include "catch.hpp"
#include "perchcli_fakes.hpp"

using namespace perch;
using namespace perch::cli;
using namespace perch::cli::test;

namespace {

const std::string actions = "/redfish/v1/Systems/1/Storage/c0/Actions/Oem/PerchStorage.";

nlohmann::json choice(int id, int group) {
    return {
        {"Id", id}, {"History", "aaaaaaaa-0000-4000-8000-000000000000"}, {"OriginalGroup", group}};
}

}  // namespace

TEST_CASE("perchcli: foreign drive groups as the dialect lists them") {
    const auto result = run_line("/c0/fall show", spans_snapshot());
    CHECK(result.status == 0);
    CHECK(result.says("Description = Operation on foreign configuration Succeeded\n"));
    CHECK(result.says("\nDG EID:Slot Type  State      Size NoVDs \n"));
    CHECK(
        result.says("\n 0 -        RAID1 Frgn  3.000 GiB     1 \n"
                    " 1 -        RAID5 Frgn  5.000 GiB     1 \n"));
    CHECK(result.says("\nTotal foreign Drive Groups = 2\n"));
    CHECK(result.says("\nf0: It belongs to another controller.\n"));
    const auto data = run_line("/c0/f1 show J", spans_snapshot()).answer()["Response Data"];
    REQUIRE(data["FOREIGN CONFIGURATION"].size() == 1);
    CHECK(data["FOREIGN CONFIGURATION"][0] == nlohmann::json{{"DG", 1},
                                                             {"EID:Slot", "-"},
                                                             {"Type", "RAID5"},
                                                             {"State", "Frgn"},
                                                             {"Size", "5.000 GiB"},
                                                             {"NoVDs", 1}});
    CHECK(data["Total foreign Drive Groups"] == 1);
    CHECK(data["Foreign Notes"][0]["Missing drives"] == "s4 (SN Y), s5 (SN Z)");
}

TEST_CASE("perchcli: foreign drive groups in full have their VDs and drives") {
    const auto data = run_line("/c0/fall show all J", spans_snapshot()).answer()["Response Data"];
    REQUIRE(data["Foreign Drive Groups"].size() == 2);
    const auto& first = data["Foreign Drive Groups"][0];
    CHECK(first["Foreign Drive Group"]["DG"] == 0);
    CHECK(first["Foreign Drive Group"]["From controller"] ==
          "99999999-0000-4000-8000-000000000000");
    CHECK(first["Foreign Drive Group"]["Drive group there"] == 4);
    CHECK(first["VD LIST"][0]["Name"] == "one");
    CHECK_FALSE(first["VD LIST"][0].contains("State after import"));
    CHECK(first["Drives"][0]["EID:Slt"] == "0:9");
    CHECK(first["Drives"][0]["DG"] == "F");
}

TEST_CASE("perchcli: a preview says what an import would make of it, and changes nothing") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    const auto answer =
        run_with(connection, terminal, "/c0/fall import preview J").answer()["Response Data"];
    CHECK(connection.sent.empty());
    REQUIRE(answer["Foreign Import Preview"].size() == 2);
    const auto& first = answer["Foreign Import Preview"][0];
    CHECK(first["Foreign Drive Group"]["Import possible"] == "Yes");
    CHECK(first["Foreign Drive Group"]["Missing drives"] == "s3 (SN X)");
    CHECK(first["Foreign Drive Group"]["Why foreign"] == "It belongs to another controller.");
    CHECK(first["VD LIST"][0]["Name"] == "one");
    CHECK(first["VD LIST"][0]["Name after import"] == "one-2");
    CHECK(first["VD LIST"][0]["State after import"] == "Degraded");
    CHECK(first["Reasons"][0]["Reason"] == "s3 (SN X) is missing");
    const auto& second = answer["Foreign Import Preview"][1];
    CHECK(second["Foreign Drive Group"]["Import possible"] == "No");
    CHECK(second["VD LIST"][0]["State after import"] == "Offline");
    const auto text = run_with(connection, terminal, "/c0/f0 import preview");
    CHECK(text.status == 0);
    CHECK(text.says("VDs of /c0/f0 :"));
    CHECK(text.says("one-2"));
    CHECK(text.says("\none would be Degraded: s3 (SN X) is missing\n"));
    CHECK_FALSE(text.says("VDs of /c0/f1 :"));
}

TEST_CASE("perchcli: import takes what is complete, and names it so that nothing else is meant") {
    auto after = spans_snapshot();
    after.foreign.clear();
    after.vds.push_back(make_vd(after.groups[0], 3, "one-2"));
    FakeConnection connection(spans_snapshot());
    connection.snapshots.push_back(after);
    connection.snapshots.back().tasks.push_back({1, "T", "Completed", "", "", ""});
    connection.snapshots.front().tasks.push_back({1, "T", "Running", "", "", ""});
    connection.accepted.task = 1;
    FakeTerminal terminal;
    SECTION("all of them") {
        const auto result = run_with(connection, terminal, "/c0/fall import J");
        CHECK(result.status == 0);
        REQUIRE(connection.sent.size() == 1);
        CHECK(connection.sent[0].target == actions + "ImportForeign");
        CHECK(connection.sent[0].body ==
              nlohmann::json{{"Groups", nlohmann::json::array({choice(0, 4)})}});
        const auto answer = result.answer();
        CHECK(answer["Command Status"]["Description"] ==
              "Successfully imported foreign configuration");
        REQUIRE(answer["Response Data"]["VD LIST"].size() == 1);
        CHECK(answer["Response Data"]["VD LIST"][0]["Name"] == "one-2");
        CHECK(answer["Response Data"]["Imported"][0]["Name after import"] == "one-2");
        CHECK(result.errors.empty());
    }
    SECTION("what is left out is said") {
        const auto result = run_with(connection, terminal, "/c0/fall import");
        CHECK(result.says(
            "f1 cannot be imported: far would be Offline (two drives are missing). Missing: s4 "
            "(SN Y), s5 (SN Z)."));
    }
    SECTION("a person is told before it happens, and not asked") {
        terminal.answer = "no";
        const auto result = run_with(connection, terminal, "/c0/f0 import");
        CHECK(result.status == 0);
        CHECK(result.errors.find("Importing f0:\n  f0: one, RAID1, 3.000 GiB: will be Degraded "
                                 "(s3 (SN X) is missing), named one-2\n") == 0);
    }
}

TEST_CASE("perchcli: an incomplete foreign drive group cannot be imported") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0/f0,1 import J");
    CHECK(result.status == errc_info(Errc::wrong_state).exit_status);
    CHECK(result.answer()["Command Status"]["Description"].get<std::string>().find(
              "Incomplete foreign configuration: f1") == 0);
    auto snapshot = spans_snapshot();
    snapshot.foreign.erase(snapshot.foreign.begin());
    FakeConnection only(snapshot);
    CHECK(run_with(only, terminal, "/c0/fall import").status != 0);
    CHECK(connection.sent.empty());
    CHECK(only.sent.empty());
}

TEST_CASE("perchcli: clearing asks, and force does not") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    CHECK(run_with(connection, terminal, "/c0/fall del").status ==
          errc_info(Errc::not_confirmed).exit_status);
    terminal.answer = "no";
    const auto refused = run_with(connection, terminal, "/c0/f0 delete");
    CHECK(refused.status == errc_info(Errc::not_confirmed).exit_status);
    CHECK(refused.errors.find("This erases for ever, with all data on it:\n"
                              "  f0: one, RAID1, 3.000 GiB\n"
                              "      on 0:9 (SN SN9)\n") == 0);
    CHECK(connection.sent.empty());
    terminal.answer.reset();
    const auto result = run_with(connection, terminal, "/c0/fall del force J");
    CHECK(result.status == 0);
    CHECK(result.answer()["Command Status"]["Description"] ==
          "Successfully deleted foreign configuration");
    REQUIRE(connection.sent.size() == 1);
    CHECK(connection.sent[0].target == actions + "ClearForeign");
    CHECK(connection.sent[0].body ==
          nlohmann::json{{"Groups", nlohmann::json::array({choice(0, 4), choice(1, 5)})}});
}

TEST_CASE("perchcli: no foreign configuration is no failure to look at, but nothing to change") {
    for (const char* line : {"/c0/fall show", "/c0/fall show all", "/call/fall import preview"}) {
        CAPTURE(line);
        const auto result = run_line(std::string(line) + " J");
        CHECK(result.status == 0);
        CHECK(result.answer()["Command Status"]["Description"] ==
              "No foreign configuration found.");
    }
    for (const char* line : {"/c0/fall import", "/c0/fall del force", "/c0/f0 show"}) {
        CAPTURE(line);
        const auto result = run_line(std::string(line) + " J");
        CHECK(result.status == 50);
        const auto status = result.answer()["Command Status"];
        CHECK(status["Status"] == "Failure");
        CHECK(status["Description"] == "No foreign configuration found.");
        CHECK(status["Detailed Status"][0]["Controller"] == 0);
        CHECK(status["Detailed Status"][0]["ErrCd"] == 50);
        CHECK(status["Detailed Status"][0]["ErrMsg"] == "No foreign configuration");
    }
}

TEST_CASE("perchcli: a foreign drive group that is not there") {
    FakeConnection connection(spans_snapshot());
    FakeTerminal terminal;
    for (const char* line :
         {"/c0/f7 show", "/c0/f0,7 import", "/c0/f7 del force", "/c0/f5-9 show"}) {
        CAPTURE(line);
        const auto result = run_with(connection, terminal, std::string(line) + " J");
        CHECK(result.status == 255);
        CHECK(result.answer()["Command Status"]["Detailed Status"][0]["ErrMsg"] ==
              "There is no such foreign drive group");
    }
    CHECK(connection.sent.empty());
}

TEST_CASE("perchcli: perchd's refusal of an import arrives") {
    FakeConnection connection(spans_snapshot());
    connection.refusal = Error{Errc::wrong_state, "f0 is another drive group by now"};
    FakeTerminal terminal;
    const auto result = run_with(connection, terminal, "/c0/f0 import");
    CHECK(result.status == 50);
    CHECK(result.says("Description = f0 is another drive group by now\n"));
}
