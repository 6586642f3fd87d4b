// SPDX-License-Identifier: GPL-2.0-or-later
// perchd's command line: what is taken, what is refused and how that is said, where things are
// then.
#include "options.hpp"

#include <unistd.h>

#include "catch.hpp"
#include "sim_platform.hpp"
#include "support/temp_dir.hpp"

namespace perch::test {

namespace {

Result<PerchdOptions> parse(const std::vector<std::string>& arguments,
                            const std::string& runtime_directory = "") {
    return parse_perchd_options(arguments, [&](const std::string& name) {
        return name == "XDG_RUNTIME_DIR" ? runtime_directory : "";
    });
}

std::string refusal(const std::vector<std::string>& arguments) {
    const auto options = parse(arguments);
    return options ? "they were taken" : options.error().message;
}

}  // namespace

TEST_CASE("perchd: without options it is this machine's daemon") {
    const auto options = parse({});
    REQUIRE(options);
    CHECK_FALSE(options->simulate);
    CHECK(options->socket == "/run/perch/perchd.sock");
    CHECK(options->run_directory == "/run/perch");
    CHECK(options->lock_prefix.empty());
    CHECK(options->event_database == "/var/lib/perch/events.db");
    CHECK(parse({"--engine=dm"})->socket == options->socket);
}

TEST_CASE("perchd: values come after '=' or as the next word") {
    CHECK(parse({"--socket", "/a", "--run-dir=/b", "--events", "/c=d"})->socket == "/a");
    CHECK(parse({"--events", "/c=d"})->event_database == "/c=d");
    CHECK(parse({"--events=/c=d"})->event_database == "/c=d");
    CHECK(parse({"--run-dir=/b"})->run_directory == "/b");
    CHECK(parse({"--help"})->show == PerchdOptions::Show::help);
    CHECK(parse({"-h"})->show == PerchdOptions::Show::help);
    CHECK(parse({"--socket", "/a", "--version"})->show == PerchdOptions::Show::version);
}

TEST_CASE("perchd: nonsense is refused in words") {
    CHECK(refusal({"--wrong"}) == "there is no option '--wrong'");
    CHECK(refusal({"word"}) == "there is no option 'word'");
    CHECK(refusal({"--socket"}) == "--socket needs a value");
    CHECK(refusal({"--socket="}) == "--socket needs a value");
    CHECK(refusal({"--engine=md"}) == "--engine=md: there is dm and sim");
    CHECK(refusal({"--sim-drives=8x3.2T"}) == "--sim-drives needs --engine=sim");
    CHECK(refusal({"--engine=dm", "--sim-dir=/tmp/x"}) == "--sim-dir needs --engine=sim");
    CHECK(refusal({"--socket=/a", "--socket=/b"}) == "--socket is given twice");
}

TEST_CASE("perchd: a simulation needs no directory that only root has") {
    const auto bare = parse({"--engine=sim"});
    CHECK(bare->simulate);
    CHECK(bare->run_directory == fmt::format("/tmp/perch-{}", getuid()));
    CHECK(bare->socket == bare->run_directory + "/perchd.sock");
    CHECK(bare->event_database == ":memory:");
    CHECK(parse({"--engine=sim"}, "/run/user/7")->socket == "/run/user/7/perch/perchd.sock");
    const auto at = parse({"--engine=sim", "--socket=/tmp/x/a.sock"});
    CHECK(at->run_directory == "/tmp/x");
    CHECK(at->lock_prefix == "a.sock.");
    const auto kept = parse({"--engine", "sim", "--sim-dir", "/tmp/x"});
    CHECK(kept->socket == "/tmp/x/perchd.sock");
    CHECK(kept->event_database == "/tmp/x/events.db");
    CHECK(parse({"--engine=sim", "--sim-dir=/tmp/x", "--events=/tmp/e"})->event_database ==
          "/tmp/e");
}

TEST_CASE("perchd: the simulated machine is what the options say, and keeps it") {
    const TempDir directory;
    const auto make = [&](const std::string& drives, const std::string& script = "",
                          const std::string& place = "") {
        return SimPlatform::make({drives, script, place});
    };
    CHECK((*make(""))->drives().look().size() == 8);
    const auto mixed = make("2x3.2T,1x1.92T:4k");
    REQUIRE(mixed);
    const auto found = (*mixed)->drives().look();
    REQUIRE(found.size() == 3);
    CHECK(found[2].identity.logical_block_bytes == 4096);
    CHECK(make("8x").error().message.find("--sim-drives: ") == 0);
    CHECK(make("", "/nonexistent/script").error().message.find("--sim-script: ") == 0);
    directory.write("bad", "wait 1s\npull three\n");
    CHECK(make("", directory.str("bad")).error().message.find("bad:2: 'three' is no slot") !=
          std::string::npos);
    CHECK(make("", directory.str(".")).error().message.find("neither a file nor a FIFO") !=
          std::string::npos);

    const auto place = directory.str("drives");
    {
        const auto first = make("4x480G", "", place);
        REQUIRE(first);
        CHECK(make("", "", place).error().code == Errc::in_use);
    }
    CHECK((*make("", "", place))->drives().look().size() == 4);
    CHECK((*make("4x480G", "", place))->drives().look().size() == 4);
    CHECK(make("5x480G", "", place).error().message.find("--sim-drives=4x480G") !=
          std::string::npos);
}

TEST_CASE("perchd: a script happens in the simulated machine, in its order and its time") {
    const TempDir directory;
    directory.write("script", "speed 1000x\npull 3\nwait 10s\ninsert 3 blank\nreboot\n");
    const auto platform = SimPlatform::make({"4x480G", directory.str("script"), ""});
    REQUIRE(platform);
    boost::asio::io_context loop;
    int changes = 0;
    const auto watch = (*platform)->watch(loop, [&] { ++changes; });
    REQUIRE(watch);
    CHECK(changes == 1);
    CHECK((*platform)->pace() == 1000);
    CHECK_FALSE((*platform)->before_work());
    CHECK((*platform)->drives().look().size() == 3);
    loop.run();  // until the script has nothing left to wait for
    CHECK(changes == 2);
    CHECK((*platform)->before_work());
    CHECK((*platform)->drives().look().size() == 4);
    CHECK((*platform)->clock().steady_seconds() >= 10);
    CHECK_FALSE((*platform)->before_work());
}

}  // namespace perch::test
