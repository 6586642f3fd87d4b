// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <set>

#include "catch.hpp"
#include "completion.hpp"
#include "grammar.hpp"
#include "help.hpp"
#include "perchcli_fakes.hpp"

using namespace perch;
using namespace perch::cli;

namespace {

std::vector<std::string> words_of(const std::vector<std::string>& arguments) {
    const auto words = tokenize(arguments);
    REQUIRE(words);
    std::vector<std::string> texts;
    for (const auto& word : *words) {
        texts.push_back(word.text);
    }
    return texts;
}

using Texts = std::vector<std::string>;

Result<Invocation> parse_line(const std::string& line) {
    auto words = tokenize({line});
    REQUIRE(words);
    take_global_options(*words);
    return parse(std::move(*words));
}

std::string error_of(const std::string& line) {
    const auto parsed = parse_line(line);
    REQUIRE_FALSE(parsed);
    return parsed.error().message;
}

}  // namespace

TEST_CASE("perchcli: argv words are joined and split again") {
    CHECK(words_of({"/c0/v0", "show rebuild", "J"}) == Texts{"/c0/v0", "show", "rebuild", "J"});
    CHECK(words_of({"  a \t b "}) == Texts{"a", "b"});
    CHECK(words_of({}).empty());
    CHECK(words_of({"", " "}).empty());
    CHECK(words_of({"name=\"a b\" x"}) == Texts{"name=a b", "x"});
    CHECK(words_of({"name='a \"b'"}) == Texts{"name=a \"b"});
    CHECK(words_of({"name=\"\"", "x"}) == Texts{"name=", "x"});
}

TEST_CASE("perchcli: blanks around '=' and after ',' do not matter") {
    CHECK(words_of({"strip = 64"}) == Texts{"strip=64"});
    CHECK(words_of({"strip =64"}) == Texts{"strip=64"});
    CHECK(words_of({"strip", "=", "64", "force"}) == Texts{"strip=64", "force"});
    CHECK(words_of({"strip= 64"}) == Texts{"strip=64"});
    CHECK(words_of({"drives=0:1, 0:2,", "3 force"}) == Texts{"drives=0:1,0:2,3", "force"});
    CHECK(words_of({"/c0", "= x"}) == Texts{"/c0", "=x"});
}

TEST_CASE("perchcli: a quote that is not closed is an error") {
    const auto words = tokenize({"name=\"a b"});
    REQUIRE_FALSE(words);
    CHECK(words.error().code == Errc::syntax);
}

TEST_CASE("perchcli: object paths") {
    CHECK(parse_path("")->kind() == PathKind::none);
    CHECK(parse_path("/c0")->kind() == PathKind::controller);
    CHECK(parse_path("/cALL/eAll")->kind() == PathKind::enclosure);
    CHECK(parse_path("/C0/E8/S0")->kind() == PathKind::drive);
    CHECK(parse_path("/call/vall")->vds->all);
    const auto path = parse_path("/c0/s0-3,7");
    REQUIRE(path);
    CHECK(path->kind() == PathKind::drive);
    CHECK_FALSE(path->enclosures);
    CHECK(path->slots->contains(2));
    CHECK(path->slots->contains(7));
    CHECK_FALSE(path->slots->contains(4));
    CHECK(path->slots->singles() == std::vector<int>{7});
}

TEST_CASE("perchcli: drive groups and foreign drive groups are objects") {
    CHECK(parse_path("/c0/d0")->kind() == PathKind::group);
    CHECK(parse_path("/CALL/DALL")->groups->all);
    CHECK(parse_path("/c0/fall")->kind() == PathKind::foreign);
    CHECK(parse_path("/c0/f0-2,5")->foreign->contains(1));
    for (const char* text : {"/d0", "/f0", "/c0/e0/d0", "/c0/d0/s1", "/c0/d0/v1", "/c0/v1/d0",
                             "/c0/d0/f0", "/c0/e0/fall", "/c0/s1/fall", "/c0/d", "/c0/fx"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_path(text));
    }
}

TEST_CASE("perchcli: words that are spelled in several ways") {
    for (const char* line :
         {"/c0/v1 del", "/c0/v1 delete", "/c0/v1 DELETE", "/c0/v1 show cc",
          "/c0/v1 show consistencycheck", "/c0/f0 delete", "/c0/s4 delete hotsparedrive"}) {
        CAPTURE(line);
        CHECK(parse_line(line));
    }
    CHECK_FALSE(parse_line("/c0/v1 dele"));
    CHECK_FALSE(parse_line("/c0 add vd raid drives=0:1"));
    CHECK_FALSE(parse_line("/c0 add vd 5 drives=0:1"));
    CHECK_FALSE(parse_line("/c0 add vd r00 drives=0:1"));
    CHECK(parse_line("/c0 add vd RAID60 drives=0:0-7")->words == Texts{"add", "vd", "raid60"});
    // One property per command, and only what there is.
    CHECK_FALSE(parse_line("/c0/v1 set"));
    CHECK_FALSE(parse_line("/c0/v1 set wrcache=wt"));
}

TEST_CASE("perchcli: malformed object paths are refused with what would be right") {
    for (const char* text : {"/",
                             "/c",
                             "/cx",
                             "/c0/",
                             "/c0//s1",
                             "/c-1",
                             "/c0/s3-1",
                             "/c0/s1,",
                             "/c0/s1-",
                             "/c0/q1",
                             "/e0/s1",
                             "/s1",
                             "/c0/c1",
                             "/c0/v1/s2",
                             "/c0/e0/v1",
                             "/c0/s1/e0",
                             "/c0/s99999999999999",
                             "/c0/s1-2-3",
                             "/c0/sall,1",
                             "/c0/s 1",
                             "c0",
                             "/c0/s+1"}) {
        CAPTURE(text);
        const auto path = parse_path(text);
        REQUIRE_FALSE(path);
        CHECK(path.error().code == Errc::syntax);
        CHECK(path.error().message.rfind("syntax error, ", 0) == 0);
    }
    CHECK(parse_path("/s3").error().message ==
          "syntax error, '/s3' needs its controller first: /c0/s3");
    CHECK(parse_path("/c0/sfoo").error().message ==
          "syntax error, '/sfoo': expecting /sall, a number, a list or a range such as /s0-3,7");
}

TEST_CASE("perchcli: drive lists") {
    using List = std::vector<DriveRange>;
    CHECK(*parse_drive_list("0:1") == List{{0, {1, 1}}});
    CHECK(*parse_drive_list("3") == List{{std::nullopt, {3, 3}}});
    CHECK(*parse_drive_list("252:0-3,7") == List{{252, {0, 3}}, {252, {7, 7}}});
    CHECK(*parse_drive_list("252:0-3,64:1,2") == List{{252, {0, 3}}, {64, {1, 1}}, {64, {2, 2}}});
    for (const char* text : {"", ":1", "0:", "0:1,", "a:1", "0:3-1", "0:1:2", "0:-1"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_drive_list(text));
    }
}

TEST_CASE("perchcli: every command parses from its own example") {
    for (const auto& command : commands()) {
        CAPTURE(command.example);
        const auto parsed = parse_line(std::string(command.example));
        REQUIRE(parsed);
        CHECK(parsed->command == &command);
        CHECK(command.handler != nullptr);
        CHECK_FALSE(command.summary.empty());
        const auto has_force =
            std::any_of(command.options.begin(), command.options.end(),
                        [](const Option& option) { return option.name == "force"; });
        CHECK((!command.destructive || has_force));
    }
}

TEST_CASE("perchcli: no two commands have the same words") {
    std::set<std::string> seen;
    for (const auto& command : commands()) {
        CHECK(seen.insert(fmt::format("{} {}", path_pattern(command.path), command.words)).second);
    }
}

TEST_CASE("perchcli: case, split paths and trailing options") {
    for (const char* line : {"/c0/eall/sall show all J", "/cALL /eALL /sALL SHOW All nolog j",
                             "J /call/eall/sall show all page=3 nolog", "/c0/sall show nolog all",
                             "/c0 /eall/sall show all page"}) {
        CAPTURE(line);
        const auto parsed = parse_line(line);
        REQUIRE(parsed);
        CHECK(parsed->command->path == PathKind::drive);
        CHECK(parsed->command->words == "show all");
    }
    const auto add = parse_line("/c0 ADD VD RAID5 Drives=0:0-2 NAME = Data Strip= 128 FORCE");
    REQUIRE(add);
    CHECK(add->value("drives") == "0:0-2");
    CHECK(add->value("name") == "Data");
    CHECK(add->value("strip") == "128");
    CHECK(add->has("force"));
}

TEST_CASE("perchcli: syntax errors name what is wrong and what would be right") {
    CHECK(error_of("foo") ==
          "syntax error, unexpected 'foo', expecting show; 'perchcli help' lists all commands");
    CHECK(error_of("/c0 show foo") ==
          "syntax error, unexpected 'foo', expecting all | events | freespace | coercion | "
          "end of command");
    CHECK(error_of("/c0 set offline") ==
          "syntax error, unexpected 'offline', expecting coercion=0|1|2; "
          "'set offline' is a command of /cx[/ex]/sx");
    CHECK(error_of("/c0/v1 start rebuild") ==
          "syntax error, unexpected 'rebuild', expecting init | cc|consistencycheck; "
          "'start rebuild' is a command of /cx[/ex]/sx");
    CHECK(error_of("/c0 del force") ==
          "syntax error, unexpected 'del', expecting show | set | add; "
          "'del' is a command of /cx/vx | /cx[/ex]/sx | /cx/fx");
    CHECK(error_of("/c0/e0/s1") ==
          "syntax error, unexpected end of command, expecting show | set "
          "| add | del[ete] | start | stop | insert");
    CHECK(error_of("/c0 add vd r4 drives=0:1") ==
          "syntax error, unexpected 'r4', expecting "
          "r[aid]0|r[aid]1|r[aid]5|r[aid]6|r[aid]10|r[aid]50|r[aid]60");
    CHECK(error_of("/c0/v1 del now") ==
          "syntax error, unexpected 'now', expecting force | end of command");
    CHECK(error_of("/c0/v1 del force=1") ==
          "syntax error, unexpected 'force=1', 'force' takes no value");
    CHECK(error_of("/c0/v1 del force force") == "syntax error, 'force' is given twice");
    CHECK(error_of("/c0/v1 \"del\"") ==
          "syntax error, unexpected 'del', expecting show | del[ete] | set | start | stop; "
          "'perchcli help' lists all commands");
    CHECK(error_of("/c0 show events latest") ==
          "syntax error, 'latest' needs a value, expecting latest=N");
    CHECK(error_of("/c0 add vd r5 name=x").find("'drives=e:s|e:s-x|e:s-x,y' is missing") !=
          std::string::npos);
}

TEST_CASE("perchcli: values are checked") {
    const auto code = [](const std::string& option) {
        const auto parsed = parse_line("/c0 add vd r5 drives=0:0-2 " + option);
        return parsed ? std::optional<Errc>() : parsed.error().code;
    };
    CHECK_FALSE(code("name=A-z_0.9"));
    CHECK_FALSE(code("name=123456789012345"));
    CHECK(code("name=1234567890123456") == Errc::invalid_argument);
    CHECK(code("name=a/b") == Errc::invalid_argument);
    CHECK(code("name=\"a b\"") == Errc::invalid_argument);
    CHECK_FALSE(code("strip=4"));
    CHECK_FALSE(code("strip=64k"));
    CHECK_FALSE(code("strip=1024"));
    CHECK_FALSE(code("strip=1m"));
    CHECK(code("strip=2") == Errc::invalid_argument);
    CHECK(code("strip=48") == Errc::invalid_argument);
    CHECK(code("strip=2048") == Errc::invalid_argument);
    CHECK(code("strip=-4") == Errc::invalid_argument);
    CHECK_FALSE(parse_line("/c0 show events latest=0"));
    CHECK_FALSE(parse_line("/c0 show events type=ccincon"));
    CHECK(parse_line("/c0 show events type=latest=5"));
    CHECK_FALSE(parse_line("/c0/e0/s1 insert dg=0 array=x row=1"));
}

TEST_CASE("perchcli: help lists every command, and verbs in detail") {
    for (const char* line : {"", "help", "-h", "--help", "?", "HELP", "verbose -h"}) {
        CAPTURE(line);
        const auto result = test::run_line(line);
        CHECK(result.status == 0);
        for (const auto& command : commands()) {
            CHECK(result.says(usage(command)));
        }
    }
    for (const char* line :
         {"help add", "add help", "/c0 add vd -h", "/c0 add vd r5 drives=x -h"}) {
        CAPTURE(line);
        const auto result = test::run_line(line);
        CHECK(result.status == 0);
        CHECK(
            result.says("Example: perchcli /c0 add vd r5 drives=0:0-3 size=100G,all name=db,data "
                        "strip=64 spares=0:4"));
        CHECK_FALSE(result.says("perchcli /cx/vx del"));
    }
    const auto wrong = test::run_line("help fly J");
    CHECK(wrong.status == errc_info(Errc::syntax).exit_status);
    CHECK(wrong.answer()["Command Status"]["Status"] == "Failure");
}

TEST_CASE("perchcli: version banner") {
    for (const char* line : {"-v", "v", "version", "V", "--version"}) {
        const auto result = test::run_line(line);
        CHECK(result.status == 0);
        CHECK(result.says("      PerchCli SAS Customization Utility Ver 008."));
    }
}

TEST_CASE("perchcli: the man page names every command, option and exit status") {
    auto page = man_page();
    page.erase(std::remove(page.begin(), page.end(), '\\'), page.end());
    for (const auto& command : commands()) {
        CHECK(page.find(usage(command)) != std::string::npos);
        CHECK(page.find(std::string(command.example)) != std::string::npos);
    }
    CHECK(page.find(".TH PERCHCLI 8") != std::string::npos);
    CHECK(page.find("PERCH_SOCKET") != std::string::npos);
}

TEST_CASE("perchcli: completion") {
    test::FakeConnection connection(test::degraded_snapshot());
    const auto after = [&](const Texts& words) { return complete(connection, words); };
    CHECK(after({"s"}) == Texts{"show"});
    CHECK(after({"/"}) == Texts{"/c0", "/call"});
    CHECK(after({"/c0/v"}) == Texts{"/c0/v1", "/c0/vall"});
    CHECK(after({"/c0/d"}) == Texts{"/c0/d0", "/c0/dall"});
    CHECK(after({"/c0/f"}) == Texts{"/c0/fall"});
    CHECK(after({"/c0", "add", "vd", "r"}) == Texts{"r0", "r1", "r5", "r6", "r10", "r50", "r60"});
    CHECK(after({"/c0", "add", "vd", "raid5", "sp"}) == Texts{"spares="});
    CHECK(after({"/c0/e0/s4", "add", "hotsparedrive", "dgs="}) == Texts{"dgs=0"});
    CHECK(after({"/c0/v1", "start", ""}) == Texts{"init", "cc", "consistencycheck"});
    CHECK(after({"/c0/v1", "delete", ""}) == Texts{"force", "J"});
    CHECK(after({"/c0/fall", "import", ""}) == Texts{"preview", "J"});
    CHECK(after({"/c0/e0/s"}) == Texts{"/c0/e0/s0", "/c0/e0/s1", "/c0/e0/s2", "/c0/e0/s3",
                                       "/c0/e0/s4", "/c0/e0/s7", "/c0/e0/sall"});
    CHECK(after({"/c0", "add", ""}) == Texts{"vd"});
    CHECK(after({"/c0", "add", "vd", "r5", "drives=0:1", ""}) ==
          Texts{"size=", "name=", "pdperarray=", "strip=", "engine=", "spares=", "force", "J"});
    CHECK(after({"/c0", "add", "vd", "r5", "drives="}) == Texts{"drives=0:4", "drives=1:4"});
    CHECK(after({"/c0", "add", "vd", "r5", "drives=0:4,"}) == Texts{"drives=0:4,1:4"});
    CHECK(after({"/c0", "add", "vd", "r5", "spares="}) == Texts{"spares=0:4", "spares=1:4"});
    CHECK(after({"/c0/e0/s3", "show", "rebuild", "w"}) == Texts{"watch"});
    CHECK(after({"/q", "x", ""}).empty());
    connection.error = Error{Errc::no_daemon, "away"};
    CHECK(after({"/c0/v"}) == Texts{"/c0/vall"});
    CHECK(after({"/c0/v1", "d"}) == Texts{"del"});
}
