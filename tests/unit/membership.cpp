// SPDX-License-Identifier: GPL-2.0-or-later
// How VDs on Perch's own target may start: the epochs of their members' superblocks decide, which
// are written here as the kernel leaves them. What the core makes of epochs is unit/core_superblock
// and tests/sim; here: what perchd makes of the core's choice.
#include "assemble/membership.hpp"

#include <cstring>

#include "assemble/assemble.hpp"
#include "catch.hpp"
#include "support/text.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

constexpr std::size_t members = 4;

Uuid uuid(std::uint8_t kind, std::size_t number) {
    Uuid result;
    result.bytes[0] = kind;
    result.bytes[15] = static_cast<std::uint8_t>(number + 1);
    return result;
}

using States = std::array<SyncState, members>;
constexpr auto in_sync = SyncState::in_sync;
constexpr auto failed = SyncState::failed;
constexpr auto absent = SyncState::absent;
constexpr auto rebuilding = SyncState::rebuilding;
constexpr States all{in_sync, in_sync, in_sync, in_sync};

/// A RAID5 of four drives that has run and was stopped in order.
struct Array {
    Array() : records(members) {
        configuration.controller = uuid(0xc0, 0);
        vd.id = 1;
        vd.uuid = uuid(0x5d, 0);
        vd.name = "data";
        vd.engine = EngineKind::perch;
        vd.region_bytes = 4 * MiB;
        vd.strip_bytes = 64 * KiB;
        vd.vd_bytes = 3 * 64 * MiB;
        vd.per_span = members;
        vd.started = true;
        for (std::size_t row = 0; row < members; ++row) {
            FoundDrive drive;
            drive.identity.name = fmt::format("nvme{}n1", row);
            drive.identity.slot = static_cast<int>(row);
            drive.identity.serial = fmt::format("SN{}", row);
            drive.answered = true;
            drive.label =
                Label{configuration.controller, uuid(0xd0, row), 3 * GiB, {GiB, GiB}, 512};
            drives.push_back(drive);
            ConfigDrive known;
            known.uuid = uuid(0xd0, row);
            known.serial = drive.identity.serial;
            known.slot = drive.identity.slot;
            configuration.drives.push_back(known);
            ConfigMember member;
            member.drive = known.uuid;
            member.instance = uuid(0xa0, row);
            vd.members.push_back(member);
        }
        for (std::size_t row = 0; row < members; ++row) {
            carry(row, 2, all);
        }
    }

    /// The member carries that epoch; the epoch's nonce is its number.
    void carry(std::size_t row, std::uint64_t number, const States& states, bool clean = true) {
        Superblock superblock;
        superblock.vd = vd.uuid;
        superblock.instance = vd.members[row].instance;
        superblock.controller = configuration.controller;
        superblock.update_counter = number + 1;
        superblock.epoch =
            number == 0 ? Epoch{} : Epoch{number, uuid(0xee, number), uuid(0xee, number - 1)};
        superblock.row = static_cast<std::uint32_t>(row);
        superblock.shape = {RaidLevel::raid5, members, members};
        superblock.owner = EngineKind::perch;
        superblock.clean = clean;
        superblock.strip_bytes = 64 * KiB;
        superblock.data_bytes = 64 * MiB;
        superblock.vd_bytes = vd.vd_bytes;
        superblock.region_bytes = vd.region_bytes;
        superblock.data_offset = 64 * MiB;
        for (std::size_t other = 0; other < members; ++other) {
            superblock.members.push_back({number == 0 ? Uuid{} : vd.members[other].instance,
                                          static_cast<std::uint32_t>(other),
                                          number == 0 ? absent : states[other], false, 0});
        }
        put(row, superblock);
    }
    void put(std::size_t row, const Superblock& superblock) {
        auto copy = encode_superblock(superblock);
        REQUIRE(copy);
        records[row] = {std::nullopt, superblock, {*copy, Bytes(PERCH_SUPERBLOCK_BYTES)}};
    }
    void take_away(std::size_t row) {
        drives[row] = {};
        records[row] = {};
    }
    [[nodiscard]] AssemblyPlan plan() const {
        return plan_assembly(configuration, vd, drives, records);
    }
    /// S: the engine is given it as one in sync; R: as one to be rebuilt; -: not at all.
    static std::string roles(const AssemblyPlan& plan) {
        std::string letters;
        for (const auto& member : plan.vd.members) {
            letters += member.role == MemberRole::in_sync  ? 'S'
                       : member.role == MemberRole::absent ? '-'
                                                           : 'R';
        }
        return letters;
    }

    Configuration configuration;
    ConfigVd vd;
    std::vector<FoundDrive> drives;
    MemberRecords records;
};

}  // namespace

TEST_CASE(
    "epochs: all there and in sync starts complete, and nothing is dirty after a clean stop") {
    const Array array;
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::complete);
    CHECK(Array::roles(plan) == "SSSS");
    CHECK_FALSE(plan.dirty);
    CHECK(plan.vd.kind == EngineKind::perch);
    CHECK(plan.vd.region_bytes == 4 * MiB);
}

TEST_CASE("epochs: a stop that was not in order is known, but not of a VD that never ran") {
    Array array;
    array.carry(1, 2, all, false);
    CHECK(array.plan().dirty);
    array.vd.started = false;
    const auto plan = array.plan();
    CHECK_FALSE(plan.dirty);
    CHECK(plan.readiness == Readiness::complete);
    CHECK_FALSE(plan.reset_metadata);
}

TEST_CASE("epochs: a member that was dropped comes back stale, and only the survivors start") {
    Array array;
    for (const std::size_t row : {0U, 1U, 3U}) {
        array.carry(row, 3, {in_sync, in_sync, failed, in_sync});
    }
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan) == "SS-S");
    REQUIRE(plan.drops.size() == 1);
    CHECK(plan.drops[0].row == 2);
    CHECK(mentions(plan.drops[0].reason, "older"));
}

TEST_CASE("epochs: an epoch that was cut off does not count, whoever carries it") {
    Array array;
    array.carry(0, 3, all);
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::complete);
    CHECK(Array::roles(plan) == "SSSS");
}

TEST_CASE("epochs: a fresh candidate is given to the target, and counts as lost") {
    Array array;
    for (const std::size_t row : {0U, 2U, 3U}) {
        array.carry(row, 3, {in_sync, failed, in_sync, in_sync});
    }
    array.vd.members[1].state = MemberState::candidate;
    array.vd.members[1].instance = uuid(0xa1, 1);
    array.carry(1, 0, all);
    CHECK(Array::roles(array.plan()) == "SRSS");
    CHECK(array.plan().drops.empty());
    array.take_away(2);
    CHECK(array.plan().readiness == Readiness::impossible);
}

TEST_CASE("epochs: what the epoch says of a candidate counts, not what the configuration knows") {
    Array array;
    array.vd.members[1].state = MemberState::candidate;
    for (std::size_t row = 0; row < members; ++row) {
        array.carry(row, 4, all);
    }
    array.take_away(2);
    CHECK(Array::roles(array.plan()) == "SS-S");
    CHECK(array.plan().readiness == Readiness::degraded);
    for (const std::size_t row : {0U, 1U, 3U}) {
        array.carry(row, 4, {in_sync, rebuilding, in_sync, in_sync});
    }
    CHECK(array.plan().readiness == Readiness::impossible);
}

TEST_CASE("epochs: one that the configuration does not count on is not given to the target") {
    Array array;
    array.vd.members[3].state = MemberState::offline;
    const auto plan = array.plan();
    CHECK(Array::roles(plan) == "SSS-");
    CHECK(plan.readiness == Readiness::complete);
}

TEST_CASE("epochs: metadata of another member, or none, is not trusted") {
    Array array;
    SECTION("another assignment") {
        array.vd.members[2].instance = uuid(0xa9, 2);
    }
    SECTION("none that can be read") {
        array.records[2] = {};
    }
    SECTION("both copies damaged") {
        array.records[2].copies = {};
    }
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::degraded);
    CHECK(Array::roles(plan) == "SS-S");
    REQUIRE(plan.drops.size() == 1);
    CHECK(plan.drops[0].state == MemberState::offline);
}

TEST_CASE("epochs: two histories are for a person to decide") {
    Array array;
    for (const std::size_t row : {0U, 1U}) {
        array.carry(row, 3, {in_sync, in_sync, absent, absent});
    }
    for (const std::size_t row : {2U, 3U}) {
        array.carry(row, 3, {absent, absent, in_sync, in_sync});
        auto other = *array.records[row].superblock;
        other.epoch.nonce = uuid(0xef, 3);
        array.put(row, other);
    }
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::impossible);
    CHECK(mentions(plan.reason, "ran apart"));
}

TEST_CASE(
    "epochs: more lost than the level survives: enough of the last set start again by themselves") {
    Array array;
    array.take_away(0);
    array.take_away(1);
    CHECK(array.plan().readiness == Readiness::impossible);
    CHECK(mentions(array.plan().reason, "2 of 4"));
    Array back;
    back.take_away(0);
    CHECK(back.plan().readiness == Readiness::degraded);
    CHECK(back.plan().rewrites.empty());
}

TEST_CASE("epochs: the owner in the superblocks forbids any other engine") {
    Array array;
    array.vd.engine = EngineKind::dm_raid;
    const auto plan = array.plan();
    CHECK(plan.readiness == Readiness::impossible);
    CHECK(mentions(plan.reason, "engine perch"));
    Array buried;
    auto superblock = *buried.records[0].superblock;
    superblock.tombstone = true;
    buried.put(0, superblock);
    CHECK(mentions(buried.plan().reason, "deleted"));
}
