// SPDX-License-Identifier: GPL-2.0-or-later
// The language of the simulated machine's script, and of the drives it begins with.
#include "engine/sim/sim_script.hpp"

#include "catch.hpp"
#include "util/units.hpp"

namespace perch::test {

namespace {

using Verb = SimCommand::Verb;

SimCommand parse(std::string_view line) {
    const auto command = parse_sim_line(line);
    INFO(line);
    INFO((command ? "" : command.error().message));
    REQUIRE(command);
    REQUIRE(*command);
    return **command;
}

std::string refusal(std::string_view line) {
    const auto command = parse_sim_line(line);
    return command ? "it was taken" : command.error().message;
}

struct Machine {
    Machine() {
        for (int slot = 0; slot < 4; ++slot) {
            drives.add(slot, 3 * GiB);
        }
    }
    Result<void> run(std::string_view line) {
        return run_sim_command(parse(line), drives, engine, clock);
    }
    /// A running mirror of the first two drives.
    Uuid make_vd() {
        EngineVd vd;
        vd.uuid = Uuid::random();
        vd.name = "v1";
        vd.shape = *make_shape(RaidLevel::raid1, 2);
        vd.strip_bytes = 64 * KiB;
        vd.vd_bytes = 16 * MiB;
        for (int slot = 0; slot < 2; ++slot) {
            const auto label =
                drives.take(drives.in_slot(slot).identity, Uuid::random(), Coercion::gib_1);
            vd.members.push_back(
                {MemberRole::in_sync, Uuid::random(),
                 drives.in_slot(slot).identity.partition_path(),
                 *allocate_member(free_ranges(label->partition.length, {}), 16 * MiB)});
        }
        REQUIRE(engine.apply(vd));
        return vd.uuid;
    }

    StepCounter steps;
    SimDrives drives{steps};
    SimEngine engine{drives, steps};
    SimClock clock;
};

}  // namespace

TEST_CASE("sim script: every verb is read") {
    CHECK(parse("wait 5s").number == 5);
    CHECK(parse("wait 100ms").number == Approx(0.1));
    CHECK(parse("wait 1.5m").number == 90);
    CHECK(parse("wait 2h").number == 7200);
    CHECK(parse("pull 3").verb == Verb::pull);
    CHECK(parse("pull 3").slot == 3);
    CHECK(parse("insert 3").text.empty());
    CHECK(parse("insert 3 blank").text == "blank");
    CHECK(parse("insert 3 same").verb == Verb::insert);
    CHECK(parse("add 9 3.2T").bytes == 3'200'000'000'000ULL);
    CHECK(parse("add 9 3.2T").block == 512);
    CHECK(parse("add 9 3.2T 4k").block == 4096);
    CHECK(parse("slow 2 100M").bytes == 100'000'000);
    CHECK(parse("fail 4").text.empty());
    CHECK(parse("fail 4 reads").text == "reads");
    CHECK(parse("fail 4 writes").verb == Verb::fail);
    CHECK(parse("hang 5").verb == Verb::hang);
    CHECK(parse("wake 5").verb == Verb::wake);
    CHECK(parse("foreign 6 \"ext4 filesystem\"").text == "ext4 filesystem");
    CHECK(parse("use 6 \"\"").text.empty());
    CHECK(parse("write v1").text == "v1");
    CHECK(parse("idle v1").verb == Verb::idle);
    CHECK(parse("open data").verb == Verb::open);
    CHECK(parse("close data").verb == Verb::close);
    CHECK(parse("speed 100x").number == 100);
    CHECK(parse("speed 0.5x").number == 0.5);
    CHECK(parse("power-cut").verb == Verb::power_cut);
    CHECK(parse("reboot").verb == Verb::reboot);
}

TEST_CASE("sim script: blanks and comments do not count") {
    CHECK_FALSE(*parse_sim_line(""));
    CHECK_FALSE(*parse_sim_line("  \t"));
    CHECK_FALSE(*parse_sim_line("# pull 3"));
    CHECK(parse("\tpull   3  # the middle one\r").slot == 3);
    CHECK(parse("foreign 1 \"a # b\"").text == "a # b");
}

TEST_CASE("sim script: what is wrong is said, with what is right") {
    CHECK(refusal("push 3").find("there is no 'push'; there is wait, pull") == 0);
    CHECK(refusal("pull").find("write: pull SLOT") != std::string::npos);
    CHECK(refusal("pull 1 2").find("write: pull SLOT") != std::string::npos);
    CHECK(refusal("pull three").find("'three' is no slot") == 0);
    CHECK(refusal("pull -1").find("'-1' is no slot") == 0);
    CHECK(refusal("pull 99999999999").find("is no slot") != std::string::npos);
    CHECK(refusal("wait 5").find("'5' is no duration") == 0);
    CHECK(refusal("wait -5s").find("is no duration") != std::string::npos);
    CHECK(refusal("wait nans").find("is no duration") != std::string::npos);
    CHECK(refusal("speed 0x").find("is no speed") != std::string::npos);
    CHECK(refusal("speed 9999999x").find("is no speed") != std::string::npos);
    CHECK(refusal("add 9 3.2").find("'3.2' is no size") == 0);
    CHECK(refusal("add 9 0T").find("is no size") != std::string::npos);
    CHECK(refusal("add 9 1e30T").find("is no size") != std::string::npos);
    CHECK(refusal("add 9 3T 1k").find("'1k' is no block size") == 0);
    CHECK(refusal("insert 3 old").find("'old' is not known here") == 0);
    CHECK(refusal("foreign 6 \"ext4").find("a quote is not closed") == 0);
    CHECK(refusal("power-cut now").find("write: power-cut") != std::string::npos);

    const auto script = parse_sim_script("story", "pull 3\n\n# well\nwait 5 s\n");
    REQUIRE_FALSE(script);
    CHECK(script.error().message.find("story:4: ") == 0);
    CHECK(parse_sim_script("story", "pull 3\nwait 1s\ninsert 3")->size() == 3);
    CHECK(parse_sim_script("story", "")->empty());
}

TEST_CASE("sim script: sizes are those on the box") {
    CHECK(*parse_sim_size("1.92T") == 1'920'000'000'000ULL);
    CHECK(*parse_sim_size("480G") == 480'000'000'000ULL);
    CHECK(*parse_sim_size("64KiB") == 65536);
    CHECK(*parse_sim_size("3TiB") == 3 * TiB);
    CHECK_FALSE(parse_sim_size("3t"));
    CHECK_FALSE(parse_sim_size(""));
    CHECK_FALSE(parse_sim_size("T"));
}

TEST_CASE("sim script: sets of drives") {
    CHECK(*parse_sim_drives("8x3.2T") == std::vector<SimDriveSet>{{8, 3'200'000'000'000ULL, 512}});
    CHECK(
        *parse_sim_drives("2x3.2T,4x1.92T:4k") ==
        std::vector<SimDriveSet>{{2, 3'200'000'000'000ULL, 512}, {4, 1'920'000'000'000ULL, 4096}});
    for (const auto* text :
         {"", "8", "x", "8x", "x3T", "8x3.2T,", "8x3.2T:8k", "8 x 3T", "8x3.2T;1x1T"}) {
        INFO(text);
        CHECK(parse_sim_drives(text).error().code == Errc::syntax);
    }
    CHECK(parse_sim_drives("8x1G").error().code == Errc::too_small);
    CHECK(parse_sim_drives("0x3T").error().code == Errc::limit);
    CHECK(parse_sim_drives("257x3T").error().code == Errc::limit);
    CHECK(parse_sim_drives("200x3T,200x3T").error().code == Errc::limit);
    CHECK(parse_sim_drives("2147483647x3T,2147483647x3T").error().code == Errc::limit);
}

TEST_CASE("sim script: drives are pulled, inserted, spoilt and mended") {
    Machine machine;
    const auto serial = machine.drives.in_slot(3).identity.serial;
    CHECK(machine.run("pull 3"));
    CHECK(machine.run("pull 3").error().code == Errc::not_found);
    CHECK(machine.run("hang 3").error().code == Errc::not_found);
    CHECK(machine.run("insert 3"));
    CHECK(machine.drives.in_slot(3).identity.serial == serial);
    CHECK(machine.run("insert 3").error().code == Errc::wrong_state);
    CHECK(machine.run("pull 3"));
    CHECK(machine.run("insert 3 blank"));
    CHECK(machine.drives.in_slot(3).identity.serial != serial);
    CHECK(machine.run("insert 7").error().code == Errc::not_found);
    CHECK(machine.run("add 7 3.2T 4k"));
    CHECK(machine.run("add 7 3.2T 4k").error().code == Errc::wrong_state);
    CHECK(machine.drives.in_slot(7).identity.logical_block_bytes == 4096);

    auto& drive = machine.drives.in_slot(1);
    CHECK(machine.run("fail 1 reads"));
    CHECK((drive.device->fail_reads && !drive.device->fail_writes));
    CHECK(machine.run("fail 1"));
    CHECK((drive.device->fail_reads && drive.device->fail_writes));
    CHECK(machine.run("slow 1 100M"));
    CHECK(drive.bytes_per_second == 100'000'000);
    CHECK(machine.run("hang 1"));
    CHECK(drive.device->hung);
    CHECK(machine.run("wake 1"));
    CHECK_FALSE(drive.device->hung);
    CHECK_FALSE(drive.device->fail_writes);
    CHECK(drive.bytes_per_second == default_sim_speed);
    CHECK(machine.run("use 1 \"mounted on /\""));
    CHECK(drive.users.size() == 1);
    CHECK(machine.run("use 1 \"\""));
    CHECK(drive.users.empty());
    CHECK(machine.run("foreign 1 \"ext4 filesystem\""));
    CHECK(machine.drives.look()[1].content == "ext4 filesystem");
}

TEST_CASE("sim script: VDs by their names") {
    Machine machine;
    CHECK(machine.run("write v1").error().code == Errc::not_found);
    const auto vd = machine.make_vd();
    machine.engine.finish_resync(vd);
    CHECK(machine.run("write v1"));
    CHECK(machine.run("idle v1"));
    CHECK(machine.run("open v1"));
    CHECK((*machine.engine.status(vd))->open_count == 1);
    CHECK(machine.run("close v1"));
    CHECK(machine.run("pull 0"));
    CHECK(machine.run("pull 1"));
    CHECK(machine.run("write v1").error().code == Errc::io);
    CHECK(machine.run("power-cut"));
    CHECK(machine.engine.running()->empty());
}

TEST_CASE("sim clock: it can run faster, and never back") {
    SimClock clock;
    const auto first = clock.now();
    clock.set_speed(1e6);
    auto last = clock.now();
    while (clock.now() - first < 100) {
        CHECK(clock.now() >= last);
        last = clock.now();
    }
    clock.set_speed(0.001);
    const auto slow = clock.now();
    CHECK(slow >= last);
    CHECK(clock.now() - slow < 1);
    CHECK(clock.speed() == 0.001);
}

}  // namespace perch::test
