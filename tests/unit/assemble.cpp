// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/assemble.hpp"

#include "catch.hpp"
#include "support/text.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

Uuid uuid(std::uint8_t kind, std::uint8_t number) {
    Uuid result;
    result.bytes[0] = kind;
    result.bytes[15] = number;
    return result;
}
Uuid controller_uuid(std::uint8_t number) {
    return uuid(0xc0, number);
}
Uuid drive_uuid(int number) {
    return uuid(0xd0, static_cast<std::uint8_t>(number + 1));
}

/// A drive of that controller that carries the configuration with that sequence and id.
FoundDrive found(int number, std::uint8_t controller, std::uint64_t sequence, std::uint8_t id = 0) {
    FoundDrive drive;
    drive.identity.name = fmt::format("nvme{}n1", number);
    drive.identity.slot = number;
    drive.identity.serial = fmt::format("SN{}", number);
    drive.answered = true;
    drive.label = Label{controller_uuid(controller), drive_uuid(number), 3 * GiB, {GiB, GiB}, 512};
    if (sequence != 0) {
        Configuration configuration;
        configuration.controller = controller_uuid(controller);
        configuration.sequence = sequence;
        configuration.id = uuid(0x1d, id == 0 ? static_cast<std::uint8_t>(sequence) : id);
        drive.configuration = configuration;
    }
    return drive;
}

/// A VD of four drives that has run, every member in sync with 100 events.
struct Array {
    Array() {
        configuration.controller = controller_uuid(1);
        vd.id = 1;
        vd.uuid = uuid(0x5d, 1);
        vd.name = "data";
        vd.per_span = 4;
        vd.started = true;
        for (int row = 0; row < 4; ++row) {
            auto drive = found(row, 1, 7);
            ConfigDrive known;
            known.uuid = drive_uuid(row);
            known.serial = drive.identity.serial;
            known.slot = row;
            known.device_bytes = 3 * GiB;
            configuration.drives.push_back(known);
            ConfigMember member;
            member.drive = drive_uuid(row);
            member.instance = uuid(0xa0, static_cast<std::uint8_t>(row));
            member.extents = {{ExtentType::superblock, 9 * MiB, MiB},
                              {ExtentType::dm_raid, 10 * MiB, 4 * MiB},
                              {ExtentType::data, 14 * MiB, 1009 * MiB}};
            vd.members.push_back(member);
            drives.push_back(drive);
            Superblock superblock;
            superblock.vd = vd.uuid;
            superblock.instance = member.instance;
            records.push_back({MemberRecord{100, true, 0, {}}, superblock, {}});
        }
    }

    void forget_records() {
        for (auto& row : records) {
            row.record.reset();
        }
    }
    ConfigMember& member(std::size_t row) { return vd.members.at(row); }
    void take_away(std::size_t row) {
        drives.at(row).identity.name = "";
        drives.at(row).answered = false;
        drives.at(row).label.reset();
        records.at(row) = {};
    }
    [[nodiscard]] AssemblyPlan plan() const {
        return plan_assembly(configuration, vd, drives, records);
    }
    /// Each member's role as one letter: S in sync, F rebuild from the start, C continue, - absent.
    static std::string roles(const EngineVd& engine) {
        std::string letters;
        for (const auto& member : engine.members) {
            switch (member.role) {
                case MemberRole::in_sync:
                    letters += 'S';
                    break;
                case MemberRole::rebuild_fresh:
                    letters += 'F';
                    break;
                case MemberRole::rebuild_continue:
                    letters += 'C';
                    break;
                case MemberRole::absent:
                    letters += '-';
                    break;
            }
        }
        return letters;
    }

    Configuration configuration;
    ConfigVd vd;
    std::vector<FoundDrive> drives;
    MemberRecords records;
};

}  // namespace

TEST_CASE("assembly: all there and in sync starts complete") {
    const Array array;
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::complete);
    CHECK(Array::roles(plan.vd) == "SSSS");
    CHECK(plan.drops.empty());
    CHECK(plan.reason.empty());
    CHECK_FALSE(plan.reset_metadata);
    CHECK(plan.vd.members[2].partition == "/dev/nvme2n1p1");
    CHECK(plan.vd.members[2].extent(ExtentType::data).offset == 14 * MiB);
    CHECK(plan.vd.members[2].instance == array.vd.members[2].instance);
}

TEST_CASE("assembly: one absent starts degraded and is dropped, by name") {
    Array array;
    array.take_away(2);
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan.vd) == "SS-S");
    REQUIRE(plan.drops.size() == 1);
    CHECK(plan.drops[0].row == 2);
    CHECK(plan.drops[0].state == MemberState::missing);
    CHECK(mentions(plan.reason, "s2 (SN SN2)"));
}

TEST_CASE("assembly: a drive that is there but does not answer is absent") {
    Array array;
    array.drives[1].answered = false;
    array.records[1].record.reset();
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(plan.drops.at(0).state == MemberState::missing);
}

TEST_CASE("assembly: how far behind a member may be") {
    // md updates all superblocks in one go; a crash leaves them one event apart at most.
    for (const std::uint64_t behind : {0U, 1U, 2U, 3U, 99U, 100U}) {
        CAPTURE(behind);
        Array array;
        array.records[1].record->events -= behind;
        const auto plan = array.plan();
        if (behind <= 1) {
            CHECK(plan.readiness == Readiness::complete);
            CHECK(Array::roles(plan.vd) == "SSSS");
        } else {
            CHECK(plan.readiness == Readiness::degraded);
            CHECK(Array::roles(plan.vd) == "S-SS");
            REQUIRE(plan.drops.size() == 1);
            CHECK(plan.drops[0].state == MemberState::failed);
            CHECK(mentions(plan.reason, "older"));
        }
    }
}

TEST_CASE("assembly: a member whose record is gone is not trusted") {
    Array array;
    array.records[3].record.reset();
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan.vd) == "SSS-");
    CHECK(plan.drops.at(0).state == MemberState::offline);
}

TEST_CASE("assembly: a member that the newest record calls failed is not trusted") {
    Array array;
    array.records[0].record->failed_rows = {3};
    auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan.vd) == "SSS-");
    CHECK(plan.drops.at(0).state == MemberState::failed);

    SECTION("its own record does not matter, however new it says it is by one") {
        array.records[3].record->events = 101;
        // Its record is the newest now and says nothing; the others are within the tolerance.
        plan = array.plan();
        CHECK(plan.readiness == Readiness::complete);
    }
    SECTION("what an older record says does not count") {
        array.records[0].record->events = 99;
        plan = array.plan();
        CHECK(plan.readiness == Readiness::complete);
    }
}

TEST_CASE("assembly: a member whose rebuild was never finished is not trusted (failures 12)") {
    Array array;
    array.records[1].record->rebuilt = false;
    array.records[1].record->rebuilt_sectors = 1000000;
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan.vd) == "S-SS");
    CHECK(mentions(plan.reason, "never finished"));
}

TEST_CASE("assembly: a candidate") {
    Array array;
    array.member(3).state = MemberState::candidate;

    SECTION("with empty metadata starts from the beginning") {
        array.records[3].record.reset();
        const auto plan = array.plan();
        CHECK(plan.readiness == Readiness::complete);
        CHECK(Array::roles(plan.vd) == "SSSF");
        CHECK(plan.drops.empty());
    }
    SECTION("with a record continues") {
        array.records[3].record = MemberRecord{100, false, 4096, {}};
        CHECK(Array::roles(array.plan().vd) == "SSSC");
    }
    SECTION("that says it is rebuilt is still the engine's to confirm") {
        CHECK(Array::roles(array.plan().vd) == "SSSC");
    }
    SECTION("with a stale record starts from the beginning") {
        array.records[3].record = MemberRecord{98, false, 4096, {}};
        const auto plan = array.plan();
        CHECK(plan.readiness == Readiness::complete);
        CHECK(Array::roles(plan.vd) == "SSSF");
    }
    // dm-raid would resume it by its own idea of what is dirty, so any doubt means from the start.
    SECTION("with a record newer than the others' starts over and does not make those stale") {
        array.records[3].record = MemberRecord{500, true, 0, {0}};
        const auto plan = array.plan();
        CHECK(Array::roles(plan.vd) == "SSSF");
        CHECK(plan.drops.empty());
    }
    SECTION("that is absent is dropped") {
        array.take_away(3);
        const auto plan = array.plan();
        CHECK(plan.readiness == Readiness::degraded);
        CHECK(Array::roles(plan.vd) == "SSS-");
        CHECK(plan.drops.at(0).state == MemberState::missing);
    }
    SECTION("never stands in for a second loss") {
        array.take_away(0);
        const auto plan = array.plan();
        CHECK(plan.readiness == Readiness::impossible);
        CHECK(mentions(plan.reason, "s0 (SN SN0)"));
    }
}

TEST_CASE("assembly: members that are out stay out, and no new degraded start is recorded") {
    for (const auto state : {MemberState::offline, MemberState::failed, MemberState::missing}) {
        Array array;
        array.member(0).state = state;
        const auto plan = array.plan();
        // The configuration already says so: this is the known state, no reason to wait.
        CHECK(plan.readiness == Readiness::complete);
        CHECK(Array::roles(plan.vd) == "-SSS");
        CHECK(plan.drops.empty());
        array.take_away(1);
        CHECK(array.plan().readiness == Readiness::impossible);
    }
}

TEST_CASE("assembly: a returned member does not take part in saying what is newest") {
    // It ran alone meanwhile: its counter is far ahead of the others'.
    Array array;
    array.member(0).state = MemberState::missing;
    array.records[0].record = MemberRecord{5000, true, 0, {1, 2, 3}};
    const auto plan = array.plan();
    CHECK(Array::roles(plan.vd) == "-SSS");
    CHECK(plan.readiness == Readiness::complete);
}

TEST_CASE("assembly: two gone is impossible, and the text says who is waited for") {
    Array array;
    array.take_away(0);
    array.take_away(2);
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::impossible);
    CHECK(mentions(plan.reason, "2 of 4"));
    CHECK(mentions(plan.reason, "too few for RAID5"));
    CHECK(mentions(plan.reason, "s0 (SN SN0)"));
    CHECK(mentions(plan.reason, "s2 (SN SN2)"));
    CHECK(mentions(plan.reason, "Nothing was changed"));
    CHECK_FALSE(mentions(plan.reason, "SN1"));
}

TEST_CASE("assembly: one gone and another stale is impossible") {
    Array array;
    array.take_away(0);
    array.records[1].record->events = 50;
    CHECK(array.plan().readiness == Readiness::impossible);
}

TEST_CASE("assembly: a VD that never ran starts from zero, with everybody or not at all") {
    Array array;
    array.vd.started = false;
    SECTION("no records") {
        array.forget_records();
    }
    SECTION("some records: the engine was stopped in the middle of its first ones") {
        array.records[2].record.reset();
    }
    auto plan = array.plan();
    CHECK(plan.readiness == Readiness::complete);
    CHECK(plan.reset_metadata);
    CHECK(Array::roles(plan.vd) == "SSSS");
    array.take_away(1);
    plan = array.plan();
    CHECK(plan.readiness == Readiness::impossible);
    CHECK(mentions(plan.reason, "s1 (SN SN1)"));
}

TEST_CASE("assembly: once it has run, metadata is never reset") {
    Array array;
    SECTION("all records are there although nobody recorded the start") {
        array.vd.started = false;
    }
    SECTION("no record at all is there although it has run") {
        array.forget_records();
    }
    const auto plan = array.plan();
    CHECK_FALSE(plan.reset_metadata);
}

TEST_CASE("assembly: a running VD is described as the configuration says") {
    Array array;
    array.member(0).state = MemberState::offline;
    array.member(1).state = MemberState::candidate;
    array.records[1].record.reset();
    CHECK(Array::roles(engine_vd(array.vd, array.drives, array.records)) == "-FSS");
    array.records[1].record = MemberRecord{};
    CHECK(Array::roles(engine_vd(array.vd, array.drives, array.records)) == "-CSS");
    array.take_away(3);
    CHECK(Array::roles(engine_vd(array.vd, array.drives, array.records)) == "-CS-");
}
