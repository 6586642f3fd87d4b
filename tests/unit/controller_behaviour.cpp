// SPDX-License-Identifier: GPL-2.0-or-later
// What the controller does by itself and what it shows.
#include "catch.hpp"
#include "support/controller_world.hpp"
#include "support/text.hpp"

using namespace perch;
using namespace perch::test;

namespace {

struct WithVd : ControllerWorld {
    WithVd() {
        REQUIRE(controller->create_vd(raid5({0, 1, 2, 3})));
        settle();
        events.clear();
    }
};

std::vector<std::string> duplicate_ids(const Snapshot& snapshot) {
    std::vector<std::string> ids;
    std::vector<std::string> twice;
    for (const auto& drive : snapshot.drives) {
        if (std::find(ids.begin(), ids.end(), drive.id) != ids.end()) {
            twice.push_back(drive.id);
        }
        ids.push_back(drive.id);
    }
    return twice;
}

}  // namespace

TEST_CASE("controller: a fresh one shows blank drives and no problem") {
    const ControllerWorld world;
    const auto shown = world.shown();
    CHECK(shown.controller_uuid.empty());
    REQUIRE(shown.drives.size() == 8);
    for (const auto& drive : shown.drives) {
        CHECK(drive.state == DriveState::unconfigured);
        CHECK(drive.status == DriveStatus::good);
        CHECK(drive.safe_to_pull);
        CHECK(drive.usable_bytes == GiB);
    }
    CHECK(shown.problems.empty());
    CHECK(world.steps.count() == 0);
}

TEST_CASE("create: what was asked for runs, and is shown so") {
    ControllerWorld world;
    auto request = raid5({2, 0, 1}, "");
    request.strip_bytes = 128 * KiB;
    REQUIRE(*world.controller->create_vd(request) == 1);
    const auto vd = world.vd();
    CHECK(vd.name == "v1");
    CHECK(vd.state == VdState::optimal);
    CHECK(vd.strip_bytes == 128 * KiB);
    // What the partition has for extents, less a member's metadata.
    const auto data = most_data(free_ranges(GiB, {}));
    CHECK(data > 950 * MiB);
    CHECK(vd.size_bytes == 2 * data);
    // Parity of a fresh VD is not known yet; it says so, and does something about it.
    CHECK(vd.survives == 0);
    CHECK_FALSE(vd.consistent);
    CHECK(vd.device == "/dev/perch/v1");
    REQUIRE(vd.members.size() == 3);
    // In the order asked for, not by slot.
    CHECK(vd.members[0].drive == "e0s2");
    CHECK(vd.members[1].drive == "e0s0");
    CHECK(world.drive("e0s0").group == 0);
    CHECK(world.drive("e0s0").row == 1);
    CHECK_FALSE(world.drive("e0s0").safe_to_pull);
    CHECK(world.drive("e0s5").safe_to_pull);
    CHECK(world.events.count(EventKind::vd_created) == 1);
    world.settle();
    CHECK(world.vd().survives == 1);
    CHECK(world.vd().consistent);
    // The next one gets a number and group of its own.
    REQUIRE(*world.controller->create_vd(raid5({3, 4, 5}, "more")) == 2);
    CHECK(world.vd(1).group == 1);
}

TEST_CASE("create: the same request again returns the same VD and touches nothing (failures 53)") {
    WithVd world;
    const auto uuid = world.uuid();
    world.steps.reset();
    const auto again = world.controller->create_vd(raid5({0, 1, 2, 3}));
    REQUIRE(again);
    CHECK(*again == 1);
    CHECK(world.uuid() == uuid);
    CHECK(world.shown().vds.size() == 1);
    CHECK(world.steps.count() == 0);
    CHECK(world.events.kinds.empty());
    // Also with force: it never means "again from scratch".
    auto forced = raid5({0, 1, 2, 3});
    forced.force = true;
    CHECK(*world.controller->create_vd(forced) == 1);
    CHECK(world.steps.count() == 0);
}

TEST_CASE("create: the same name with other parameters is another VD, and refused") {
    WithVd world;
    auto other = raid5({0, 1, 2, 3});
    other.strip_bytes = 16 * KiB;
    CHECK_FALSE(world.controller->create_vd(other));
    CHECK_FALSE(world.controller->create_vd(raid5({1, 0, 2, 3})));
    CHECK(world.vd().state == VdState::optimal);
}

TEST_CASE("delete: its drives are free again, and its UUID never returns") {
    WithVd world;
    const auto uuid = world.uuid();
    REQUIRE(world.controller->delete_vd(1));
    CHECK(world.shown().vds.empty());
    CHECK(world.engine.running()->empty());
    CHECK(world.drive("e0s0").state == DriveState::unconfigured);
    CHECK(world.events.count(EventKind::vd_deleted) == 1);
    for (const auto& drive : world.drives.look()) {
        if (drive.configuration) {
            CHECK(drive.configuration->tombstones == std::vector{uuid});
        }
    }
    REQUIRE(world.controller->create_vd(raid5({0, 1, 2, 3})));
    CHECK(world.uuid() != uuid);
}

TEST_CASE(
    "delete: nothing of the old VD shows through a new one on the same drives (failures 17)") {
    WithVd world;
    // A filesystem's superblock at the start of the VD, something at its end.
    const auto data = GiB + 13 * MiB;
    auto& device = *world.drives.in_slot(0).device;
    REQUIRE(device.write(data, Bytes(4096, std::byte{0x53})));
    REQUIRE(device.write(GiB + GiB - MiB - 4096, Bytes(4096, std::byte{0x53})));
    REQUIRE(world.controller->delete_vd(1));
    CHECK(*device.read(data, 4096) == Bytes(4096));
    CHECK(*device.read(GiB + GiB - MiB - 4096, 4096) == Bytes(4096));
}

TEST_CASE("a pulled member: its row, slot and serial stay visible (failures 13, 52)") {
    WithVd world;
    world.pull(2);
    CHECK(world.vd().state == VdState::degraded);
    CHECK(world.vd().survives == 0);
    CHECK(world.member(2) == DriveStatus::missing);
    const auto missing = world.drive("e0s2");
    CHECK(missing.slot == 2);
    CHECK(missing.serial == "SIM0002");
    CHECK(missing.status == DriveStatus::missing);
    CHECK(missing.group == 0);
    CHECK(missing.row == 2);
    CHECK(missing.device.empty());
    CHECK(missing.size_bytes == 3 * GiB);
    CHECK(world.events.count(EventKind::drive_removed) >= 1);
    CHECK(world.events.count(EventKind::vd_degraded) == 1);
    CHECK(mentions(world.events.last(EventKind::vd_degraded), "survives 0"));
    REQUIRE(world.shown().problems.size() == 1);
    const auto problem = world.shown().problems[0];
    CHECK(problem.severity == Severity::critical);
    CHECK(mentions(problem.what, "v1 (data) is Degraded"));
    CHECK(mentions(problem.what, "s2 (SN SIM0002)"));
    CHECK(mentions(problem.action, "insert dg=0 array=0 row=2"));
    // No other member may be pulled now.
    CHECK_FALSE(world.drive("e0s0").safe_to_pull);
    CHECK(mentions(world.drive("e0s0").pull_reason, "would go Offline"));
}

TEST_CASE("a pulled member: another drive in its slot does not hide it") {
    WithVd world;
    world.pull(2);
    world.drives.add(2, 3 * GiB);
    world.controller->refresh();
    const auto shown = world.shown();
    CHECK(duplicate_ids(shown).empty());
    CHECK(world.drive("e0s2").serial == "SIM0008");
    CHECK(world.drive("e0s2").state == DriveState::unconfigured);
    const auto missing = world.drive("missing-SIM0002");
    CHECK(missing.status == DriveStatus::missing);
    CHECK(missing.row == 2);
    CHECK(world.vd().members[2].drive == "missing-SIM0002");
    CHECK(world.drive("e0s2").pid != missing.pid);
    // And the new one can take its place.
    REQUIRE(world.controller->insert_member({"e0s2", 0, 0, 2, false}));
    CHECK(world.member(2) == DriveStatus::rebuild);
}

TEST_CASE("a member that returns is not trusted (failures 12)") {
    WithVd world;
    world.pull(2);
    world.put_back(2);
    CHECK(world.member(2) == DriveStatus::offline);
    CHECK(world.vd().state == VdState::degraded);
    // Nor after a reboot, although its own record says that it is whole.
    world.power_cycle();
    CHECK(world.member(2) == DriveStatus::offline);
    CHECK(world.vd().state == VdState::degraded);
    const auto problem = world.shown().problems.at(0);
    CHECK(mentions(problem.action, "/c0/e0/s2 start rebuild"));
    // Its rebuild starts from nothing and ends when its record says so.
    REQUIRE(world.controller->start_rebuild("e0s2"));
    CHECK(world.member(2) == DriveStatus::rebuild);
    CHECK(world.vd().survives == 0);
    world.engine.finish_rebuild(world.uuid());
    world.controller->refresh();
    CHECK(world.member(2) == DriveStatus::online);
    CHECK(world.vd().state == VdState::optimal);
    CHECK(world.events.count(EventKind::rebuild_done) == 1);
    CHECK(world.events.count(EventKind::vd_optimal) == 1);
}

TEST_CASE("a member with an unfinished rebuild is no member in sync after a reboot (failures 12)") {
    WithVd world;
    REQUIRE(world.controller->set_offline("e0s1"));
    REQUIRE(world.controller->start_rebuild("e0s1"));
    world.power_cycle();
    CHECK(world.member(1) == DriveStatus::rebuild);
    CHECK(world.vd().state == VdState::degraded);
    CHECK(world.vd().survives == 0);
}

TEST_CASE("a member with spoilt metadata is named and can be rebuilt, the VD starts (failures 5)") {
    const auto spoilt = GENERATE(ExtentType::superblock, ExtentType::dm_raid);
    CAPTURE(static_cast<int>(spoilt));
    WithVd world;
    world.engine.power_cut();
    const auto found = world.drives.look();
    const auto& member = found.at(1).configuration->vds.at(0).members.at(1);
    const auto* extent = find_extent(member, spoilt);
    const auto begin = found.at(1).label->partition.offset + extent->offset;
    REQUIRE(world.drives.in_slot(1).device->write(begin, Bytes(extent->bytes, std::byte{0xa5})));
    world.boot();
    CHECK(world.vd().state == VdState::degraded);
    CHECK(world.member(1) == DriveStatus::offline);
    CHECK(world.member(0) == DriveStatus::online);
    CHECK(mentions(world.events.last(EventKind::vd_started_degraded), "s1 (SN SIM0001)"));
    CHECK(mentions(world.shown().problems.at(0).action, "/c0/e0/s1 start rebuild"));
    REQUIRE(world.controller->start_rebuild("e0s1"));
    world.engine.finish_rebuild(world.uuid());
    world.controller->refresh();
    CHECK(world.vd().state == VdState::optimal);
}

TEST_CASE("a member that the kernel dropped is failed, and stays so") {
    WithVd world;
    world.engine.fail_member(world.uuid(), 1);
    world.controller->refresh();
    CHECK(world.member(1) == DriveStatus::failed);
    CHECK(world.vd().state == VdState::degraded);
    CHECK(world.events.count(EventKind::drive_failed) == 1);
    CHECK(mentions(world.events.last(EventKind::drive_failed), "s1 (SN SIM0001)"));
    world.power_cycle();
    CHECK(world.member(1) == DriveStatus::failed);
    CHECK(world.drive("e0s1").safe_to_pull);
}

TEST_CASE("still degraded at the next start is still reported (failures 51)") {
    WithVd world;
    world.pull(0);
    const bool reboot = GENERATE(false, true);
    CAPTURE(reboot);
    for (int boots = 0; boots < 2; ++boots) {
        world.events.clear();
        if (reboot) {
            world.power_cycle();
        } else {
            world.boot();
        }
        CHECK(world.events.count(EventKind::vd_degraded) == 1);
        CHECK(mentions(world.events.last(EventKind::vd_degraded), "v1 (data)"));
    }
    // But not again and again.
    world.events.clear();
    world.controller->refresh();
    world.controller->refresh();
    CHECK(world.events.kinds.empty());
}

TEST_CASE("a drive in another slot is followed") {
    WithVd world;
    world.engine.power_cut();
    world.drives.in_slot(1).identity.slot = 12;
    world.boot();
    CHECK(world.vd().state == VdState::optimal);
    CHECK(world.vd().members[1].drive == "e0s12");
    CHECK(duplicate_ids(world.shown()).empty());
    // Pulled from there, it is missing from there.
    world.pull(12);
    CHECK(world.drive("e0s12").status == DriveStatus::missing);
    CHECK(world.drive("e0s12").serial == "SIM0001");
    // And back where it came from.
    world.drives.in_slot(12).identity.slot = 1;
    world.put_back(1);
    CHECK(world.drive("e0s1").status == DriveStatus::offline);
    CHECK(world.vd().members[1].drive == "e0s1");
}

TEST_CASE("all drives in other slots: the same VD") {
    WithVd world;
    const auto uuid = world.uuid();
    world.engine.power_cut();
    for (int slot = 0; slot < 4; ++slot) {
        world.drives.in_slot(slot).identity.slot = 23 - slot;
    }
    world.boot();
    CHECK(world.uuid() == uuid);
    CHECK(world.vd().state == VdState::optimal);
    CHECK(world.vd().members[0].drive == "e0s23");
}

TEST_CASE("a replaced member that comes back later is no member") {
    WithVd world;
    world.pull(3);
    REQUIRE(world.controller->insert_member({"e0s5", 0, 0, 3, false}));
    world.engine.finish_rebuild(world.uuid());
    world.controller->refresh();
    CHECK(world.vd().state == VdState::optimal);
    world.put_back(3);
    CHECK(world.vd().state == VdState::optimal);
    CHECK(world.vd().members[3].drive == "e0s5");
    CHECK(world.drive("e0s3").state == DriveState::unconfigured);
    CHECK_FALSE(world.drive("e0s3").group);
    world.power_cycle();
    CHECK(world.vd().state == VdState::optimal);
    CHECK(world.vd().members[3].drive == "e0s5");
}

TEST_CASE("a copy of a member, made with dd, does not take the member's place") {
    WithVd world;
    world.engine.power_cut();
    // What is on the drive in slot 1 on another one, which is found before it.
    world.drives.in_slot(0).identity.slot = 20;
    const auto& copy = world.drives.add(0, 3 * GiB);
    auto& original = *world.drives.in_slot(1).device;
    for (const auto& [from, length] : {std::pair{GiB, 14 * MiB}, std::pair{2 * GiB - MiB, MiB}}) {
        REQUIRE(copy.device->write(from, *original.read(from, length)));
    }
    world.boot();
    // Whatever Perch does about it, it must not run on a drive that it cannot tell from another
    // without saying so.
    const auto shown = world.shown();
    bool said = false;
    for (const auto& problem : shown.problems) {
        said = said || mentions(problem.what + problem.action, copy.identity.serial);
    }
    CHECK(said);
    const auto status = world.engine.status(*Uuid::parse(shown.vds.at(0).uuid));
    REQUIRE(status);
    if (*status) {
        CHECK(shown.vds[0].members[1].drive == "e0s1");
    }
}

TEST_CASE("a set offline member is safe to pull, the others are not") {
    WithVd world;
    REQUIRE(world.controller->set_offline("e0s1"));
    CHECK(world.member(1) == DriveStatus::offline);
    CHECK(world.drive("e0s1").safe_to_pull);
    CHECK_FALSE(world.drive("e0s0").safe_to_pull);
    CHECK(world.events.count(EventKind::drive_offline) == 1);
    // Pulled, it is missing; put back, it is offline as before.
    world.pull(1);
    CHECK(world.member(1) == DriveStatus::missing);
    world.put_back(1);
    CHECK(world.member(1) == DriveStatus::offline);
}

TEST_CASE("a rebuild that is stopped leaves the member offline") {
    WithVd world;
    REQUIRE(world.controller->set_offline("e0s1"));
    REQUIRE(world.controller->start_rebuild("e0s1"));
    REQUIRE(world.controller->stop_rebuild("e0s1"));
    CHECK(world.member(1) == DriveStatus::offline);
    CHECK(world.events.count(EventKind::rebuild_stopped) == 1);
    CHECK(world.vd().state == VdState::degraded);
}

TEST_CASE("drives without an answer, and drives with data, are shown as what they are") {
    WithVd world;
    world.drives.in_slot(5).answers = false;
    SimDrives::set_content(world.drives.in_slot(6), "ext4 filesystem 'old'");
    world.drives.in_slot(7).users = {"mounted on /boot"};
    world.controller->refresh();
    CHECK(world.drive("e0s5").state == DriveState::unusable);
    CHECK(world.drive("e0s5").status == DriveStatus::failed);
    CHECK(world.drive("e0s6").state == DriveState::jbod);
    CHECK(world.drive("e0s6").content == "ext4 filesystem 'old'");
    CHECK(world.drive("e0s6").safe_to_pull);
    CHECK(world.drive("e0s7").state == DriveState::jbod);
    CHECK_FALSE(world.drive("e0s7").safe_to_pull);
    bool said = false;
    for (const auto& problem : world.shown().problems) {
        said = said || mentions(problem.what, "SIM0005");
    }
    CHECK(said);
}

TEST_CASE("a member that does not answer any more is shown, and the VD goes on") {
    WithVd world;
    world.drives.in_slot(2).answers = false;
    world.controller->refresh();
    // The kernel may be using it well: not to be read by us is no reason to be dropped.
    CHECK(world.vd().state == VdState::optimal);
    CHECK(duplicate_ids(world.shown()).empty());
    bool said = false;
    for (const auto& problem : world.shown().problems) {
        said = said || mentions(problem.what, "SIM0002");
    }
    CHECK(said);
}

TEST_CASE("a drive that cannot be written does not stop a change the others can hold") {
    WithVd world;
    world.drives.in_slot(3).device->failing = true;
    world.controller->refresh();
    const auto done = world.controller->set_offline("e0s0");
    // Refused or done, but never half: the state is the one shown, and survives a restart.
    const auto status = world.member(0);
    world.drives.in_slot(3).device->failing = false;
    world.boot();
    CHECK(world.member(0) == status);
    CHECK((status == DriveStatus::offline) == done.has_value());
}

TEST_CASE("arrivals and departures are events, but not the drives found at the start") {
    ControllerWorld world;
    CHECK(world.events.count(EventKind::drive_inserted) == 0);
    world.pull(4);
    CHECK(world.events.count(EventKind::drive_removed) == 1);
    CHECK(mentions(world.events.last(EventKind::drive_removed), "s4 (SN SIM0004)"));
    world.put_back(4);
    CHECK(world.events.count(EventKind::drive_inserted) == 1);
    CHECK(mentions(world.events.last(EventKind::drive_inserted), "s4 (SN SIM0004)"));
}

TEST_CASE("a quiet controller writes nothing, however often it looks") {
    WithVd world;
    world.steps.reset();
    for (int i = 0; i < 5; ++i) {
        world.now += 5;
        world.controller->refresh();
    }
    CHECK(world.steps.count() == 0);
    CHECK(world.events.kinds.empty());
    CHECK(world.controller->all_started());
    CHECK_FALSE(world.controller->busy());
}

TEST_CASE("degraded start forbidden: it waits for a person, and says so") {
    WithVd world;
    world.engine.power_cut();
    world.drives.pull(0);
    world.controller = std::make_unique<Controller>(
        world.drives, world.engine, world.events,
        Clock{[&] { return world.now; }, [] { return 0; }}, ControllerPolicy{10, false});
    REQUIRE(world.controller->start());
    world.now += 1000;
    world.controller->refresh();
    CHECK(world.engine.running()->empty());
    CHECK(world.vd().state == VdState::offline);
    CHECK(mentions(world.vd().state_reason, "s0 (SN SIM0000)"));
    CHECK(mentions(world.vd().state_reason, "not allowed"));
    CHECK_FALSE(world.controller->all_started());
    world.put_back(0);
    CHECK(world.vd().state == VdState::optimal);
}

TEST_CASE("a VD left suspended by a killed daemon is resumed, with an event") {
    WithVd world;
    bool suspended = false;
    for (int step = 0; step < 12 && !suspended; ++step) {
        world.steps.arm(step);
        try {
            (void)world.controller->set_offline("e0s1");
        } catch (const Stopped&) {
        }
        world.steps.arm(-1);
        const auto status = world.engine.status(world.uuid());
        suspended = (*status)->suspended;
        if (!suspended) {
            world.boot();
            if (world.member(1) == DriveStatus::offline) {
                REQUIRE(world.controller->start_rebuild("e0s1"));
                world.engine.finish_rebuild(world.uuid());
                world.controller->refresh();
            }
        }
    }
    REQUIRE(suspended);
    world.events.clear();
    world.boot();
    CHECK_FALSE((*world.engine.status(world.uuid()))->suspended);
    CHECK(world.events.count(EventKind::resumed_suspended) == 1);
}
