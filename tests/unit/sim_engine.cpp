// SPDX-License-Identifier: GPL-2.0-or-later
// The simulated kernel: that it behaves as Linux 6.1's dm-raid does, the careless parts included.
// What each test asserts was read in drivers/md (dm-raid.c, md.c, raid1.c, raid10.c, raid5.c).
#include "engine/sim/sim_engine.hpp"

#include <algorithm>

#include "catch.hpp"
#include "engine/dm/dmraid_format.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch::test {

namespace {

constexpr std::uint64_t member_data = 64 * MiB;
constexpr double mib_per_second = 1.0 * MiB;

/// Drives with a VD on them, made of the parts that the controller would give the engine.
struct Rig {
    explicit Rig(RaidLevel level = RaidLevel::raid5, int members = 4, int spares = 2,
                 int per_span = 0) {
        for (int slot = 0; slot < members + spares; ++slot) {
            drives.add(slot, 3 * GiB);
            const auto label =
                drives.take(drives.in_slot(slot).identity, Uuid::random(), Coercion::gib_1);
            labels.push_back(label->drive);
        }
        vd.uuid = Uuid::random();
        vd.name = "v1";
        vd.shape = *make_shape(level, members, per_span);
        vd.strip_bytes = 64 * KiB;
        vd.vd_bytes = member_data * static_cast<std::uint64_t>(vd.shape.data_members());
        for (int row = 0; row < members; ++row) {
            vd.members.push_back(member(row, MemberRole::in_sync));
        }
    }

    /// A member on the drive in that slot, as it is assigned there for the first time.
    EngineMember member(int slot, MemberRole role) {
        const auto partition = partition_layout(3 * GiB);
        return {role, Uuid::random(), drives.in_slot(slot).identity.partition_path(),
                *allocate_member(free_ranges(partition->length, {}), member_data)};
    }
    void start() {
        const auto done = engine.apply(vd);
        INFO((done ? "" : done.error().message));
        REQUIRE(done);
    }
    /// Running, resynced and at rest.
    void make_clean() {
        start();
        engine.finish_resync(vd.uuid);
        REQUIRE(engine.write(vd.uuid));
        engine.idle(vd.uuid);
        REQUIRE(status().task == EngineTask::none);
    }
    [[nodiscard]] EngineStatus status() {
        const auto found = engine.status(vd.uuid);
        REQUIRE(found);
        REQUIRE(*found);
        return **found;
    }
    [[nodiscard]] std::vector<MemberHealth> health() { return status().members; }
    [[nodiscard]] std::string refusal() {
        const auto done = engine.apply(vd);
        return done ? "it was taken" : done.error().message;
    }
    Bytes metadata(int row) {
        const auto& extents = vd.members[static_cast<std::size_t>(row)].extents;
        const auto extent = std::find_if(extents.begin(), extents.end(), [](const auto& e) {
            return e.type == ExtentType::dm_raid;
        });
        return *drive_of(row).device->read(PERCH_FRONT_RESERVE_BYTES + extent->offset,
                                           engine.record_bytes());
    }
    SimDrive& drive_of(int row) {
        const auto& path = vd.members[static_cast<std::size_t>(row)].partition;
        for (const auto& drive : drives.all()) {
            if (drive->identity.partition_path() == path) {
                return *drive;
            }
        }
        throw std::out_of_range("no such member");
    }
    MemberRecord record(int row) {
        const auto bytes = metadata(row);
        const auto found = engine.decode_record(bytes);
        REQUIRE(found);
        REQUIRE(*found);
        // engine/dm reads the same from the same bytes.
        CHECK(*dm::decode_superblock(bytes) == *found);
        return **found;
    }
    void zero_metadata(int row) {
        const auto& member = vd.members[static_cast<std::size_t>(row)];
        const auto& extent = member.extent(ExtentType::dm_raid);
        drive_of(row).device->erase(PERCH_FRONT_RESERVE_BYTES + extent.offset, extent.bytes);
    }
    void set_absent(std::size_t row) { vd.members[row].role = MemberRole::absent; }
    void power_cycle() { engine.power_cut(); }

    double now = 0;
    StepCounter steps;
    SimDrives drives{steps};
    SimEngine engine{drives, steps, [this] { return now; }};
    EngineVd vd;
    std::vector<Uuid> labels;
};

using enum MemberHealth;
using Health = std::vector<MemberHealth>;

}  // namespace

TEST_CASE("sim engine: a fresh VD resyncs by itself, and its records say so until it is done") {
    const auto level = GENERATE(RaidLevel::raid1, RaidLevel::raid10, RaidLevel::raid5,
                                RaidLevel::raid6, RaidLevel::raid50, RaidLevel::raid60);
    CAPTURE(to_string(level));
    Rig rig(level, level == RaidLevel::raid60 ? 8 : 6, 0);
    rig.start();
    const auto members = rig.vd.members.size();
    CHECK(rig.status().task == EngineTask::resync);
    CHECK(rig.status().task_done_sectors == 0);
    CHECK(rig.status().task_total_sectors ==
          member_data / sector_bytes *
              (level == RaidLevel::raid50 || level == RaidLevel::raid60
                   ? static_cast<std::uint64_t>(rig.vd.shape.spans())
                   : 1));
    CHECK(rig.health() == Health(members, in_sync));
    CHECK(rig.record(0).resync_pending);
    CHECK(rig.record(0).dirty);
    CHECK(rig.record(0).rebuilt);
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
    rig.engine.finish_resync(rig.vd.uuid);
    CHECK(rig.status().task == EngineTask::none);
    for (std::size_t row = 0; row < members; ++row) {
        const auto record = rig.record(static_cast<int>(row));
        CHECK_FALSE(record.resync_pending);
        CHECK_FALSE(record.dirty);
        CHECK(record.failed_rows.empty());
    }
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) == 0);
    // Done again, it changes nothing.
    rig.steps.reset();
    rig.start();
    CHECK(rig.steps.count() == 0);
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    CHECK(rig.engine.running()->empty());
    CHECK_FALSE(*rig.engine.status(rig.vd.uuid));
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    rig.start();
    CHECK(rig.status().task == EngineTask::none);
}

TEST_CASE("sim engine: the record is in sync at all times, and only the bitmap is dirty") {
    Rig rig;
    rig.make_clean();
    CHECK_FALSE(rig.record(1).dirty);
    REQUIRE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.record(1).dirty);
    CHECK_FALSE(rig.record(1).resync_pending);
    rig.engine.idle(rig.vd.uuid);
    CHECK_FALSE(rig.record(1).dirty);
    REQUIRE(rig.engine.write(rig.vd.uuid));
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    CHECK_FALSE(rig.record(1).dirty);

    rig.start();
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.power_cycle();
    CHECK(rig.record(1).dirty);
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
    // At the next start the marks vanish, and the parity stays wrong.
    rig.start();
    CHECK_FALSE(rig.record(1).dirty);
    CHECK(rig.status().task == EngineTask::none);
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
    REQUIRE(rig.engine.start_check(rig.vd.uuid));
    rig.engine.finish_check(rig.vd.uuid);
    CHECK(rig.status().mismatches > 0);
    REQUIRE(rig.engine.request_resync(rig.vd.uuid));
    CHECK(rig.status().task == EngineTask::resync);
    CHECK(rig.engine.start_check(rig.vd.uuid).error().code == Errc::in_use);
    rig.engine.finish_resync(rig.vd.uuid);
    CHECK(rig.status().mismatches == 0);
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) == 0);
}

TEST_CASE("sim engine: a requested resync leaves no trace of where it stood") {
    Rig rig;
    rig.make_clean();
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.power_cycle();
    rig.start();
    REQUIRE(rig.engine.request_resync(rig.vd.uuid));
    rig.power_cycle();
    CHECK_FALSE(rig.record(0).resync_pending);
    rig.start();
    CHECK(rig.status().task == EngineTask::none);
    CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
}

TEST_CASE("sim engine: events go back when the host falls silent") {
    Rig rig;
    rig.make_clean();
    const auto quiet = rig.record(0).events;
    REQUIRE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.record(0).events == quiet + 1);
    rig.engine.idle(rig.vd.uuid);
    CHECK(rig.record(0).events == quiet);
    rig.engine.fail_member(rig.vd.uuid, 3);
    CHECK(rig.record(0).events == quiet + 1);
    // Not any more once it is degraded.
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.engine.idle(rig.vd.uuid);
    CHECK(rig.record(0).events > quiet + 1);
}

TEST_CASE("sim engine: a pulled member is noticed by the next access, and by nothing else") {
    Rig rig;
    rig.make_clean();
    rig.drives.pull(2);
    CHECK(rig.health() == Health(4, in_sync));
    SECTION("a host write") {
        CHECK(rig.engine.write(rig.vd.uuid));
        CHECK(rig.health() == Health{in_sync, in_sync, failed, in_sync});
        CHECK(rig.record(0).failed_rows == std::vector<int>{2});
        CHECK(rig.record(3).failed_rows == std::vector<int>{2});
        CHECK(rig.record(2).failed_rows.empty());
        CHECK(rig.record(2).events < rig.record(0).events);
    }
    SECTION("a record") {
        REQUIRE(rig.engine.write(rig.vd.uuid));
        rig.engine.idle(rig.vd.uuid);
        CHECK(rig.record(0).failed_rows == std::vector<int>{2});
    }
    SECTION("a check") {
        REQUIRE(rig.engine.start_check(rig.vd.uuid));
        rig.now += 1;
        CHECK(rig.health() == Health{in_sync, in_sync, failed, in_sync});
        CHECK(rig.status().task == EngineTask::none);
    }
    SECTION("not a table without it") {
        const auto before = rig.record(0);
        rig.set_absent(2);
        rig.start();
        CHECK(rig.health() == Health{in_sync, in_sync, absent, in_sync});
        CHECK(rig.record(0).failed_rows == before.failed_rows);
        CHECK(rig.engine.write(rig.vd.uuid));
        // Busy again, which is the first record of the new table.
        rig.engine.idle(rig.vd.uuid);
        CHECK(rig.record(0).failed_rows == std::vector<int>{2});
    }
    SECTION("back in its slot it is no longer what the table means") {
        rig.drives.insert(2);
        CHECK(rig.refusal().find("in use") != std::string::npos);
        CHECK(rig.engine.write(rig.vd.uuid));
        CHECK(rig.health() == Health{in_sync, in_sync, failed, in_sync});
    }
    CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
}

TEST_CASE("sim engine: faults of a drive are found by host I/O") {
    Rig rig;
    rig.make_clean();
    auto& device = *rig.drives.in_slot(1).device;
    SECTION("write errors") {
        device.fail_writes = true;
    }
    SECTION("read errors") {
        device.fail_reads = true;
    }
    SECTION("both") {
        device.failing = true;
    }
    CHECK(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health() == Health{in_sync, failed, in_sync, in_sync});
}

TEST_CASE("sim engine: a drive that hangs holds everything up and loses nothing") {
    Rig rig;
    rig.make_clean();
    rig.drives.in_slot(1).device->hung = true;
    CHECK_FALSE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health() == Health(4, in_sync));
    CHECK(rig.engine.stop(rig.vd.uuid).error().code == Errc::timeout);
    rig.set_absent(1);
    CHECK(rig.engine.apply(rig.vd).error().code == Errc::timeout);
    rig.drives.in_slot(1).device->hung = false;
    CHECK(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health() == Health(4, in_sync));
}

TEST_CASE("sim engine: what a departed member does not know, its equal count hides") {
    Rig rig;
    rig.make_clean();
    // Taken out by userspace: its last record and the survivors' next one have the same count.
    const auto whole = rig.vd;
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.set_absent(0);
    rig.start();
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.engine.idle(rig.vd.uuid);
    CHECK(rig.record(0).events == rig.record(1).events);
    CHECK(rig.record(1).failed_rows == std::vector<int>{0});
    CHECK(rig.record(0).failed_rows.empty());
    rig.power_cycle();
    // Whoever starts it with all members gets the lie of the one that comes first.
    rig.vd = whole;
    rig.start();
    CHECK(rig.health() == Health(4, in_sync));
    CHECK(rig.engine.wrongly_trusted(rig.vd.uuid) == std::vector<std::size_t>{0});
}

TEST_CASE("sim engine: an old record is believed unless the newest one calls it failed") {
    Rig rig;
    rig.make_clean();
    const auto whole = rig.vd;
    const auto old = *rig.drives.in_slot(3).device->read(GiB, 32 * MiB);
    SECTION("called failed: rebuilt where the bitmap is marked") {
        rig.engine.fail_member(rig.vd.uuid, 3);
        REQUIRE(rig.engine.write(rig.vd.uuid));
        rig.power_cycle();
        rig.start();
        CHECK(rig.health() == Health{in_sync, in_sync, in_sync, rebuilding});
        CHECK(rig.status().task == EngineTask::rebuild);
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
        rig.engine.finish_rebuild(rig.vd.uuid);
        CHECK(rig.health() == Health(4, in_sync));
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
    }
    SECTION("not called failed: trusted, with old data") {
        REQUIRE(rig.engine.write(rig.vd.uuid));
        REQUIRE(rig.engine.stop(rig.vd.uuid));
        rig.drives.in_slot(3).device->store(GiB, old);
        rig.start();
        CHECK(rig.health() == Health(4, in_sync));
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid) == std::vector<std::size_t>{3});
    }
}

TEST_CASE("sim engine: a second loss of a RAID5 is recorded too, and then nothing starts") {
    Rig rig;
    rig.make_clean();
    rig.drives.pull(0);
    rig.drives.pull(1);
    CHECK_FALSE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health() == Health{failed, failed, in_sync, in_sync});
    CHECK(rig.record(2).failed_rows == std::vector<int>{0, 1});
    rig.power_cycle();
    rig.drives.insert(0);
    rig.drives.insert(1);
    for (std::size_t row = 0; row < 2; ++row) {
        rig.vd.members[row].partition =
            rig.drives.in_slot(static_cast<int>(row)).identity.partition_path();
    }
    CHECK(rig.refusal().find("not enough operational devices") != std::string::npos);
    // With the record rewritten as of before the loss it does.
    const auto events = rig.record(0).events;
    for (int row = 2; row < 4; ++row) {
        const auto bytes = rig.metadata(row);
        const auto rewritten = rig.engine.rewrite_record(bytes, events, {});
        REQUIRE(rewritten);
        CHECK(*rewritten == *dm::rewrite_superblock(bytes, events, {}));
        const auto& extent =
            rig.vd.members[static_cast<std::size_t>(row)].extent(ExtentType::dm_raid);
        REQUIRE(
            rig.drive_of(row).device->write(PERCH_FRONT_RESERVE_BYTES + extent.offset, *rewritten));
    }
    rig.start();
    CHECK(rig.health() == Health(4, in_sync));
    CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
}

TEST_CASE("sim engine: each level dies of what it does not survive, and of nothing less") {
    struct Case {
        RaidLevel level;
        int members;
        std::vector<int> survives;
        std::vector<int> dies;
    };
    const auto row = GENERATE(
        Case{RaidLevel::raid0, 3, {}, {1}}, Case{RaidLevel::raid1, 3, {0, 2}, {0, 1, 2}},
        Case{RaidLevel::raid10, 6, {0, 3, 5}, {2, 3}}, Case{RaidLevel::raid5, 4, {2}, {1, 2}},
        Case{RaidLevel::raid6, 5, {0, 4}, {0, 1, 4}}, Case{RaidLevel::raid50, 6, {0, 5}, {3, 4}},
        Case{RaidLevel::raid60, 8, {0, 3, 4, 7}, {4, 5, 6}});
    CAPTURE(to_string(row.level));
    for (const auto& [slots, lives] : {std::pair{row.survives, true}, std::pair{row.dies, false}}) {
        Rig rig(row.level, row.members, 0);
        rig.make_clean();
        for (const int slot : slots) {
            rig.drives.pull(slot);
        }
        CHECK(rig.engine.write(rig.vd.uuid) == lives);
        const auto health = rig.health();
        const bool mirrors = row.level == RaidLevel::raid1 || row.level == RaidLevel::raid10;
        // The last copy of a mirror is never called failed.
        CHECK(std::count(health.begin(), health.end(), failed) ==
              static_cast<std::ptrdiff_t>(slots.size()) - (mirrors && !lives ? 1 : 0));
        CHECK(rig.engine.write(rig.vd.uuid) == lives);
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
    }
}

TEST_CASE("sim engine: RAID0 keeps no records") {
    Rig rig(RaidLevel::raid0, 3, 1);
    rig.start();
    CHECK(rig.status().task == EngineTask::none);
    CHECK(*rig.engine.decode_record(rig.metadata(0)) == std::nullopt);
    CHECK(rig.engine.start_check(rig.vd.uuid).error().code == Errc::io);
    rig.vd.members[1] = rig.member(3, MemberRole::in_sync);
    CHECK(rig.engine.apply(rig.vd).error().code == Errc::wrong_state);
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    rig.set_absent(1);
    CHECK(rig.engine.apply(rig.vd).error().code == Errc::io);
    CHECK(rig.engine.running()->empty());
}

TEST_CASE("sim engine: new members beside old ones") {
    Rig rig;
    rig.make_clean();
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    SECTION("need to be said to be rebuilt") {
        rig.zero_metadata(1);
        CHECK(rig.refusal().find("New device injected into existing raid set") !=
              std::string::npos);
        rig.zero_metadata(2);
        CHECK(rig.refusal().find("New device injected") != std::string::npos);
        // One that is said does not speak for the other.
        rig.vd.members[1].role = MemberRole::rebuild_fresh;
        CHECK(rig.refusal().find("1 'rebuild' devices cannot be injected") != std::string::npos);
    }
    SECTION("a whole set with a hole is no new set") {
        for (int row = 0; row < 4; ++row) {
            rig.zero_metadata(row);
        }
        rig.set_absent(3);
        CHECK(rig.refusal().find("New device injected") != std::string::npos);
    }
    SECTION("are rebuilt from the start, whatever lies there") {
        rig.vd.members[1] = rig.member(4, MemberRole::rebuild_fresh);
        rig.start();
        CHECK(rig.health() == Health{in_sync, rebuilding, in_sync, in_sync});
        CHECK_FALSE(rig.record(1).rebuilt);
        CHECK(rig.record(1).rebuilt_sectors == 0);
        CHECK(rig.record(0).failed_rows.empty());
        rig.engine.finish_rebuild(rig.vd.uuid);
        CHECK(rig.record(1).rebuilt);
        CHECK(rig.health() == Health(4, in_sync));
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
    }
    CHECK(rig.engine.running()->size() <= 1);
}

TEST_CASE("sim engine: two rebuilds of a RAID6 at once") {
    Rig rig(RaidLevel::raid6, 5, 2);
    rig.make_clean();
    rig.vd.members[0] = rig.member(5, MemberRole::rebuild_fresh);
    rig.vd.members[3] = rig.member(6, MemberRole::rebuild_fresh);
    rig.start();
    CHECK(rig.health() == Health{rebuilding, in_sync, in_sync, rebuilding, in_sync});
    rig.engine.finish_rebuild(rig.vd.uuid);
    CHECK(rig.health() == Health(5, in_sync));
    rig.zero_metadata(1);
    rig.zero_metadata(2);
    REQUIRE(rig.engine.stop(rig.vd.uuid));
}

TEST_CASE("sim engine: too many to rebuild is refused") {
    Rig rig;
    rig.make_clean();
    rig.vd.members[0] = rig.member(4, MemberRole::rebuild_fresh);
    rig.vd.members[1] = rig.member(5, MemberRole::rebuild_fresh);
    CHECK(rig.refusal().find("Insufficient redundancy") != std::string::npos);
    CHECK(rig.health() == Health(4, in_sync));
}

TEST_CASE("sim engine: members do not change places") {
    Rig rig;
    rig.make_clean();
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    std::swap(rig.vd.members[0], rig.vd.members[1]);
    CHECK(rig.refusal().find("Cannot change device positions") != std::string::npos);
}

TEST_CASE("sim engine: dirty and degraded") {
    Rig rig;
    SECTION("while a resync is pending: refused") {
        rig.start();
        rig.power_cycle();
        rig.set_absent(2);
        CHECK(rig.refusal().find("cannot start dirty degraded array") != std::string::npos);
        // A rebuild makes the kernel forget that the parity is worth nothing.
        rig.vd.members[2] = rig.member(4, MemberRole::rebuild_fresh);
        rig.start();
        CHECK(rig.status().task == EngineTask::rebuild);
        CHECK_FALSE(rig.record(0).resync_pending);
    }
    SECTION("with a marked bitmap: started as if nothing were") {
        rig.make_clean();
        REQUIRE(rig.engine.write(rig.vd.uuid));
        rig.power_cycle();
        rig.set_absent(2);
        rig.start();
        CHECK(rig.health() == Health{in_sync, in_sync, absent, in_sync});
        CHECK(rig.status().task == EngineTask::none);
        CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
        // Marks stay while it is degraded, also over a clean stop.
        REQUIRE(rig.engine.stop(rig.vd.uuid));
        CHECK(rig.record(0).dirty);
    }
    SECTION("a RAID6 with one lost goes on resyncing only if it runs") {
        Rig six(RaidLevel::raid6, 5, 0);
        six.start();
        six.engine.fail_member(six.vd.uuid, 0);
        CHECK(six.status().task == EngineTask::resync);
        six.power_cycle();
        six.set_absent(0);
        CHECK(six.refusal().find("dirty degraded") != std::string::npos);
    }
    SECTION("a RAID5 that loses one in its first resync counts as done") {
        rig.start();
        rig.engine.fail_member(rig.vd.uuid, 0);
        CHECK(rig.status().task == EngineTask::none);
        CHECK_FALSE(rig.record(1).resync_pending);
        CHECK(rig.engine.wrong_sectors(rig.vd.uuid) > 0);
    }
}

TEST_CASE("sim engine: time makes tasks go on, as fast as the slowest drive") {
    Rig rig;
    for (int slot = 0; slot < 6; ++slot) {
        rig.drives.in_slot(slot).bytes_per_second = 8 * MiB;
    }
    rig.drives.in_slot(1).bytes_per_second = 4 * MiB;
    rig.start();
    CHECK(*rig.engine.next_end() == Approx(member_data / (4 * mib_per_second)));
    rig.now += 8;
    CHECK(rig.status().task_done_sectors == 32 * MiB / sector_bytes);
    // The record follows in sixteenths.
    CHECK(rig.record(0).resync_pending);
    rig.drives.in_slot(1).device->hung = true;
    rig.now += 100;
    CHECK(rig.status().task_done_sectors == 32 * MiB / sector_bytes);
    CHECK_FALSE(rig.engine.next_end());
    rig.drives.in_slot(1).device->hung = false;
    rig.now += 1;
    CHECK(rig.status().task_done_sectors == 36 * MiB / sector_bytes);
    // A restart goes on from the last record.
    rig.power_cycle();
    rig.start();
    CHECK(rig.status().task_done_sectors == 36 * MiB / sector_bytes);
    rig.now += 7.05;
    // The status line is ahead of the records.
    CHECK(rig.status().task == EngineTask::none);
    CHECK(rig.record(0).resync_pending);
    rig.now += 1;
    CHECK(rig.status().task == EngineTask::none);
    CHECK_FALSE(rig.record(0).resync_pending);
    CHECK_FALSE(rig.engine.next_end());
}

TEST_CASE("sim engine: a rebuild is recorded as it goes on, and continues from there") {
    Rig rig;
    rig.make_clean();
    for (int slot = 0; slot < 6; ++slot) {
        rig.drives.in_slot(slot).bytes_per_second = MiB;
    }
    rig.vd.members[2] = rig.member(5, MemberRole::rebuild_fresh);
    rig.start();
    rig.now += 33;
    CHECK(rig.status().task_done_sectors == 33 * MiB / sector_bytes);
    const auto done = rig.record(2).rebuilt_sectors;
    CHECK(done >= 28 * MiB / sector_bytes);
    CHECK(done <= 33 * MiB / sector_bytes);
    rig.power_cycle();
    rig.vd.members[2].role = MemberRole::rebuild_continue;
    rig.start();
    CHECK(rig.health()[2] == rebuilding);
    CHECK(rig.status().task_done_sectors == done);
    rig.now += 40;
    CHECK(rig.health() == Health(4, in_sync));
    rig.now += 1;
    CHECK(rig.health() == Health(4, in_sync));
    CHECK(rig.record(2).rebuilt);
}

TEST_CASE("sim engine: tasks on the same drives share them") {
    Rig rig(RaidLevel::raid1, 2, 0);
    rig.drives.in_slot(0).bytes_per_second = 8 * MiB;
    rig.drives.in_slot(1).bytes_per_second = 8 * MiB;
    rig.start();
    auto other = rig.vd;
    other.uuid = Uuid::random();
    other.name = "v2";
    for (int row = 0; row < 2; ++row) {
        auto& member = other.members[static_cast<std::size_t>(row)];
        member.instance = Uuid::random();
        std::vector<Extent> used = rig.vd.members[0].extents;
        member.extents =
            *allocate_member(free_ranges(partition_layout(3 * GiB)->length, used), member_data);
    }
    REQUIRE(rig.engine.apply(other));
    rig.now += 8;
    CHECK(rig.status().task_done_sectors == 32 * MiB / sector_bytes);
    CHECK((*rig.engine.status(other.uuid))->task_done_sectors == 32 * MiB / sector_bytes);
    // The other one's share is its own again when it ends.
    rig.engine.finish_resync(other.uuid);
    rig.now += 2;
    CHECK(rig.status().task_done_sectors == 48 * MiB / sector_bytes);
}

TEST_CASE("sim engine: initialization writes the whole VD, and belongs to the program") {
    Rig rig(RaidLevel::raid5, 3, 0);
    rig.make_clean();
    for (int slot = 0; slot < 3; ++slot) {
        rig.drives.in_slot(slot).bytes_per_second = 8 * MiB;
    }
    const auto uuid = rig.vd.uuid;
    rig.engine.set_open(uuid, true);
    CHECK(rig.engine.start_init(uuid, 0).error().code == Errc::in_use);
    CHECK(rig.engine.zero(uuid, 0, MiB).error().code == Errc::in_use);
    CHECK(rig.engine.stop(uuid).error().code == Errc::in_use);
    rig.engine.set_open(uuid, false);
    REQUIRE(rig.engine.zero(uuid, 0, MiB));
    CHECK(rig.engine.zero(uuid, rig.vd.vd_bytes, MiB).error().code == Errc::io);
    CHECK_FALSE(rig.record(0).dirty);
    REQUIRE(rig.engine.start_init(uuid, 32 * MiB));
    CHECK(rig.record(0).dirty);
    rig.now += 2;
    CHECK(rig.status().task == EngineTask::init);
    CHECK(rig.status().init->done_bytes == 64 * MiB);
    CHECK(rig.status().init->running);
    CHECK(rig.status().open_count == 0);
    SECTION("to its end") {
        rig.now += 10;
        CHECK(rig.status().task == EngineTask::none);
        CHECK(rig.status().init->done_bytes == rig.vd.vd_bytes);
        CHECK_FALSE(rig.status().init->running);
        CHECK_FALSE(rig.record(0).dirty);
        REQUIRE(rig.engine.stop_task(uuid));
        CHECK_FALSE(rig.status().init);
    }
    SECTION("stopped") {
        REQUIRE(rig.engine.stop_task(uuid));
        CHECK_FALSE(rig.status().init);
        CHECK(rig.status().task == EngineTask::none);
        REQUIRE(rig.engine.stop_task(uuid));
    }
    SECTION("killed with the program") {
        rig.engine.kill_program();
        CHECK_FALSE(rig.status().init);
    }
}

TEST_CASE("sim engine: a check can be stopped") {
    Rig rig;
    rig.make_clean();
    REQUIRE(rig.engine.start_check(rig.vd.uuid));
    CHECK(rig.status().task == EngineTask::check);
    REQUIRE(rig.engine.stop_task(rig.vd.uuid));
    CHECK(rig.status().task == EngineTask::none);
    CHECK_FALSE(rig.record(0).resync_pending);
}

TEST_CASE("sim engine: spans are arrays of their own") {
    Rig rig(RaidLevel::raid50, 6, 1);
    rig.make_clean();
    rig.drives.pull(4);
    REQUIRE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health() == Health{in_sync, in_sync, in_sync, in_sync, failed, in_sync});
    CHECK(rig.record(0).failed_rows.empty());
    CHECK(rig.record(3).failed_rows == std::vector<int>{1});
    CHECK(rig.record(3).events > rig.record(0).events);
    rig.vd.members[4] = rig.member(6, MemberRole::rebuild_fresh);
    rig.start();
    CHECK(rig.status().task == EngineTask::rebuild);
    CHECK(rig.status().task_total_sectors == member_data / sector_bytes);
    CHECK(rig.health()[4] == rebuilding);
    rig.engine.finish_rebuild(rig.vd.uuid);
    CHECK(rig.health() == Health(6, in_sync));
}

TEST_CASE("sim engine: another loss while a table is changed is not papered over") {
    Rig rig(RaidLevel::raid6, 5, 1);
    rig.make_clean();
    // Pulled, not yet noticed: the record of the suspend finds it.
    rig.drives.pull(1);
    rig.drives.insert(1);
    rig.vd.members[1].partition = rig.drives.in_slot(1).identity.partition_path();
    REQUIRE(rig.engine.write(rig.vd.uuid));
    CHECK(rig.health()[1] == failed);
    rig.vd.members[1].instance = Uuid::random();
    rig.vd.members[3] = rig.member(5, MemberRole::rebuild_fresh);
    // A new instance over the old record, wrongly held to be in sync: the live table knows better.
    CHECK(rig.refusal().find("lost another member") != std::string::npos);
    CHECK(rig.health()[1] == failed);
    CHECK_FALSE(rig.status().suspended);
    CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
}

TEST_CASE("sim engine: a killed program leaves a device suspended with the next table loaded") {
    Rig rig;
    rig.make_clean();
    rig.vd.members[0] = rig.member(4, MemberRole::rebuild_fresh);
    rig.steps.set_counts_kernel(false);
    rig.steps.arm(2);
    CHECK_THROWS_AS(rig.engine.apply(rig.vd), Stopped);
    CHECK(rig.status().suspended);
    CHECK_FALSE(rig.engine.write(rig.vd.uuid));
    CHECK(*rig.engine.resume_suspended() == 1);
    CHECK_FALSE(rig.status().suspended);
    CHECK(rig.health()[0] == rebuilding);
    CHECK(*rig.engine.resume_suspended() == 0);
    rig.start();
}

TEST_CASE("sim engine: a failed member that can be read again comes back when it is resumed") {
    Rig rig;
    rig.make_clean();
    rig.engine.fail_member(rig.vd.uuid, 2);
    rig.vd.members[0] = rig.member(4, MemberRole::rebuild_fresh);
    rig.vd.members[2].role = MemberRole::absent;
    CHECK(rig.refusal().find("Insufficient redundancy") != std::string::npos);
    // A swap that is given up in the middle: the kernel tries the member again.
    rig.vd.members[0] = rig.member(0, MemberRole::in_sync);
    rig.vd.members[2].role = MemberRole::in_sync;
    CHECK(rig.refusal().find("lost another member") != std::string::npos);
    CHECK(rig.health()[2] == rebuilding);
    CHECK(rig.status().task == EngineTask::rebuild);
}

TEST_CASE("sim engine: power is cut in the middle of the records") {
    // Any subset of the members has the new record: they differ by one event at most.
    for (unsigned subset = 0; subset < 16; ++subset) {
        Rig rig;
        rig.make_clean();
        const auto before = rig.record(0).events;
        rig.steps.arm(
            {0,
             {(subset & 1U) != 0, (subset & 2U) != 0, (subset & 4U) != 0, (subset & 8U) != 0},
             true,
             1});
        CHECK_THROWS_AS(rig.engine.write(rig.vd.uuid), Stopped);
        rig.power_cycle();
        for (int row = 0; row < 4; ++row) {
            const bool done = (subset >> static_cast<unsigned>(row) & 1U) != 0;
            const auto events = rig.record(row).events;
            CHECK((events == before + 1 || (!done && events == before)));
            CHECK_FALSE(rig.record(row).dirty);
        }
        rig.start();
        CHECK(rig.health() == Health(4, in_sync));
        CHECK(rig.engine.wrongly_trusted(rig.vd.uuid).empty());
    }
}

TEST_CASE("sim engine: a VD follows its new name") {
    Rig rig;
    rig.start();
    CHECK(rig.engine.find("v1") == rig.vd.uuid);
    rig.vd.name = "data";
    rig.start();
    CHECK(rig.engine.find("data") == rig.vd.uuid);
    CHECK_FALSE(rig.engine.find("v1"));
    CHECK(rig.status().kernel_name == "sim0");
}

TEST_CASE("sim engine: a drive under a VD is in use, until it is pulled") {
    Rig rig;
    rig.start();
    const auto identity = rig.drives.in_slot(1).identity;
    CHECK(rig.drives.release(identity).error().code == Errc::in_use);
    CHECK(rig.drives.take(identity, Uuid::random(), Coercion::gib_1).error().code == Errc::in_use);
    rig.drives.pull(1);
    const auto again = rig.drives.insert(1).identity;
    CHECK(rig.drives.release(again));
    REQUIRE(rig.engine.stop(rig.vd.uuid));
    CHECK(rig.drives.release(rig.drives.in_slot(0).identity));
}

TEST_CASE("sim engine: shutting down stops all in order") {
    Rig rig;
    rig.make_clean();
    REQUIRE(rig.engine.write(rig.vd.uuid));
    rig.engine.set_open(rig.vd.uuid, true);
    rig.engine.shut_down();
    CHECK(rig.engine.running()->empty());
    CHECK_FALSE(rig.record(0).dirty);
}

TEST_CASE("sim record: bytes that are none are said to be none") {
    CHECK(*decode_sim_record(Bytes(8192)) == std::nullopt);
    CHECK(decode_sim_record(Bytes(8192, std::byte{1})).error().code == Errc::corrupt);
    CHECK(decode_sim_record(Bytes(8)).error().code == Errc::corrupt);
    SimRecord record;
    record.devices = 200;
    record.position = 199;
    record.events = 77;
    record.failed.set(3);
    record.failed.set(130);
    record.member_sectors = 6'000'000'000ULL;
    record.dirty = true;
    const auto back = decode_sim_record(encode_sim_record(record));
    REQUIRE(back);
    REQUIRE(*back);
    CHECK(member_record(**back).failed_rows == std::vector<int>{3, 130});
    CHECK((*back)->events == 77);
    CHECK((*back)->position == 199);
    CHECK((*back)->dirty);
}

}  // namespace perch::test
