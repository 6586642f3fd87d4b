// SPDX-License-Identifier: GPL-2.0-or-later
// Every operation of the controller, stopped before each of its steps (a write to a drive, a change
// in the kernel) in turn, then started again from what the drives and the kernel hold. Two ways to
// stop: the daemon is killed (the kernel keeps running the VDs), or power is cut (only the drives
// remain, and the interrupted write may be torn). After each, the state must be the one before the
// operation or the one after it, everything that should run runs, and the next operation works.
//
// What is enumerated: every step of create, delete, set offline, rebuild, insert, and of recording
// a drop, times {kill, power cut, power cut with a torn write}. Not covered: drives with volatile
// caches (metadata is written with O_DSYNC) and two failures at once.
#include <algorithm>
#include <iostream>

#include "catch.hpp"
#include "support/controller_world.hpp"

namespace perch::test {

namespace {

/// Six drives and what runs on them; survives any number of controllers.
struct World : ControllerWorld {
    World() : ControllerWorld(6) {}
};

CreateRequest four_drives() {
    return {{"e0s0", "e0s1", "e0s2", "e0s3"}, "data", default_strip_bytes, false};
}

void create(World& world) {
    const auto id = world.controller->create_vd(four_drives());
    REQUIRE(id);
    world.settle();
}

enum class Stop { kill, power_cut, torn_power_cut };

struct Scenario {
    const char* name;
    std::function<void(World&)> before;
    std::function<void(World&)> operation;
    /// What must hold after the restart, whether or not the operation had taken effect.
    std::function<void(World&)> check;
};

/// Every VD that is configured runs, no device is left suspended, and no drive is lost to the
/// controller.
void check_world(World& world) {
    const auto shown = world.controller->snapshot();
    REQUIRE(shown.problems.size() <= 1);
    for (const auto& vd : shown.vds) {
        CAPTURE(vd.state_reason);
        REQUIRE(vd.state != VdState::offline);
        const auto status = world.engine.status(*Uuid::parse(vd.uuid));
        REQUIRE(status);
        REQUIRE(status->has_value());
        REQUIRE_FALSE((*status)->suspended);
    }
    REQUIRE(world.engine.running()->size() == shown.vds.size());
    for (const auto& drive : shown.drives) {
        REQUIRE(drive.state != DriveState::unusable);
        REQUIRE(drive.state != DriveState::foreign);
    }
}

/// Runs the scenario stopped before each step in turn; returns how many steps there are.
int enumerate(const Scenario& scenario, Stop how) {
    int total = 0;
    for (int step = 0;; ++step) {
        CAPTURE(scenario.name, step, static_cast<int>(how));
        World world;
        scenario.before(world);
        for (int slot = 0; slot < 6; ++slot) {
            world.drives.in_slot(slot).device->torn = how == Stop::torn_power_cut;
        }
        world.steps.reset();
        world.steps.arm(step);
        bool stopped = false;
        try {
            scenario.operation(world);
        } catch (const Stopped&) {
            stopped = true;
        }
        world.steps.arm(-1);
        total = world.steps.count();
        if (how != Stop::kill) {
            world.engine.power_cut();
        }
        world.boot();
        world.settle();
        check_world(world);
        scenario.check(world);
        if (!stopped) {
            return total;
        }
    }
}

std::vector<Member> members(const World& world) {
    return world.controller->snapshot().vds.at(0).members;
}

std::vector<Scenario> scenarios() {
    const auto nothing = [](World&) {};
    const auto lose_slot_3 = [](World& world) {
        create(world);
        world.drives.in_slot(3).present = false;
        world.engine.fail_member(world.uuid(), 3);
        world.controller->refresh();
        REQUIRE(members(world)[3].status == DriveStatus::missing);
    };
    return {
        {"create", nothing, [](World& world) { (void)world.controller->create_vd(four_drives()); },
         [](World& world) {
             const auto before = world.controller->snapshot().vds.size();
             REQUIRE(before <= 1);
             // Again is harmless: the same VD, or now it is made.
             create(world);
             REQUIRE(world.controller->snapshot().vds.size() == 1);
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
         }},
        {"delete", create, [](World& world) { (void)world.controller->delete_vd(1); },
         [](World& world) {
             if (world.controller->snapshot().vds.size() == 1) {
                 REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
                 REQUIRE(world.controller->delete_vd(1));
             }
             REQUIRE(world.controller->snapshot().vds.empty());
             create(world);
         }},
        {"set offline", create, [](World& world) { (void)world.controller->set_offline("e0s1"); },
         [](World& world) {
             const auto status = members(world)[1].status;
             REQUIRE((status == DriveStatus::online || status == DriveStatus::offline));
             if (status == DriveStatus::offline) {
                 REQUIRE(world.controller->start_rebuild("e0s1"));
             }
         }},
        {"drop of a pulled drive", create,
         [](World& world) {
             world.drives.in_slot(2).present = false;
             world.controller->refresh();
         },
         [](World& world) {
             REQUIRE(members(world)[2].status == DriveStatus::missing);
             // It comes back: whatever it says, it is not trusted.
             world.drives.in_slot(2).present = true;
             world.controller->refresh();
             REQUIRE(members(world)[2].status == DriveStatus::offline);
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::degraded);
         }},
        {"insert and rebuild", lose_slot_3,
         [](World& world) {
             (void)world.controller->insert_member({"e0s5", 0, 0, 3, false});
         },
         [](World& world) {
             const auto status = members(world)[3].status;
             if (status == DriveStatus::missing) {
                 REQUIRE(world.controller->insert_member({"e0s5", 0, 0, 3, false}));
             } else if (status == DriveStatus::offline) {
                 REQUIRE(world.controller->start_rebuild("e0s5"));
             } else {
                 REQUIRE(status == DriveStatus::rebuild);
             }
             // Never online before its own record proves it.
             REQUIRE(members(world)[3].status == DriveStatus::rebuild);
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::degraded);
             world.engine.finish_rebuild(world.uuid());
             world.controller->refresh();
             REQUIRE(members(world)[3].status == DriveStatus::online);
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
         }},
        {"confirming a rebuild",
         [lose_slot_3](World& world) {
             lose_slot_3(world);
             REQUIRE(world.controller->insert_member({"e0s5", 0, 0, 3, false}));
             world.engine.finish_rebuild(world.uuid());
         },
         [](World& world) { world.controller->refresh(); },
         [](World& world) {
             // After a power cut the engine goes on with what the member's record says.
             if (members(world)[3].status == DriveStatus::rebuild) {
                 world.engine.finish_rebuild(world.uuid());
                 world.controller->refresh();
             }
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
         }},
        {"stop rebuild",
         [lose_slot_3](World& world) {
             lose_slot_3(world);
             REQUIRE(world.controller->insert_member({"e0s5", 0, 0, 3, false}));
         },
         [](World& world) { (void)world.controller->stop_rebuild("e0s5"); },
         [](World& world) {
             const auto status = members(world)[3].status;
             REQUIRE((status == DriveStatus::rebuild || status == DriveStatus::offline));
         }},
    };
}

}  // namespace

TEST_CASE("every configuration change survives a stop at each of its steps") {
    // Fewer steps than this and the scenario no longer does what it is here for.
    const std::map<std::string, int> at_least{{"create", 30},
                                              {"delete", 20},
                                              {"set offline", 6},
                                              {"drop of a pulled drive", 4},
                                              {"insert and rebuild", 12},
                                              {"confirming a rebuild", 3},
                                              {"stop rebuild", 6}};
    int points = 0;
    for (const auto& scenario : scenarios()) {
        for (const auto how : {Stop::kill, Stop::power_cut, Stop::torn_power_cut}) {
            const int steps = enumerate(scenario, how);
            INFO(scenario.name << ": " << steps << " steps");
            CHECK(steps >= at_least.at(scenario.name));
            points += steps + 1;
        }
        std::cout << "  " << scenario.name << ": enumerated\n";
    }
    std::cout << "  " << points << " stop points\n";
}

TEST_CASE("a drive that was dropped while the daemon was dead is not trusted at the next start") {
    World world;
    create(world);
    const auto uuid = world.uuid();
    // The kernel drops it and records that on the others; nobody tells the configuration.
    world.engine.fail_member(uuid, 0);
    world.engine.power_cut();
    world.boot();
    REQUIRE(members(world)[0].status == DriveStatus::failed);
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::degraded);
}

TEST_CASE("a second loss is not recorded, and nothing starts below redundancy") {
    World world;
    create(world);
    world.drives.in_slot(0).present = false;
    world.drives.in_slot(1).present = false;
    world.controller->refresh();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::offline);
    world.engine.power_cut();
    world.boot();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::offline);
    REQUIRE(world.engine.running()->empty());
    // Both come back: the last in-sync set is whole again.
    world.drives.in_slot(0).present = true;
    world.drives.in_slot(1).present = true;
    world.controller->refresh();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
}

TEST_CASE(
    "an unclean stop is followed by a resync, and only its end makes the VD survive a drive") {
    World world;
    create(world);
    REQUIRE(world.vd().survives == 1);
    world.engine.write(world.uuid());
    world.engine.power_cut();
    world.start();
    REQUIRE(world.vd().state == VdState::optimal);
    REQUIRE(world.vd().survives == 0);
    REQUIRE_FALSE(world.vd().consistent);
    // Killed in the middle: it is asked for again, not taken as done.
    world.start();
    REQUIRE(world.vd().survives == 0);
    world.settle();
    REQUIRE(world.vd().survives == 1);
    REQUIRE(world.vd().consistent);
    // A clean stop leaves nothing to do.
    REQUIRE(world.engine.stop(world.uuid()));
    world.start();
    REQUIRE(world.vd().survives == 1);
}

TEST_CASE("an unclean stop that cost a member is said, and not forgotten") {
    World world;
    create(world);
    world.engine.write(world.uuid());
    world.engine.power_cut();
    world.drives.in_slot(3).present = false;
    world.boot();
    REQUIRE(world.vd().state == VdState::degraded);
    const auto problems = world.shown().problems;
    REQUIRE(std::any_of(problems.begin(), problems.end(), [](const auto& problem) {
        return problem.what.find("may be wrong") != std::string::npos;
    }));
}

TEST_CASE("a drop that the VD's own members did not take is no drop") {
    // Two drive groups: those of the other VD alone are no witnesses after a restart.
    World world;
    REQUIRE(
        world.controller->create_vd({{"e0s0", "e0s1", "e0s2"}, "one", default_strip_bytes, false}));
    REQUIRE(
        world.controller->create_vd({{"e0s3", "e0s4", "e0s5"}, "two", default_strip_bytes, false}));
    world.settle();
    world.drives.in_slot(0).device->failing = true;
    REQUIRE_FALSE(world.controller->set_offline("e0s2"));
    REQUIRE(world.member(2) == DriveStatus::online);
    world.drives.in_slot(0).device->failing = false;
    world.boot();
    REQUIRE(world.member(2) == DriveStatus::online);
}

TEST_CASE("drives of another controller never take over from ours while it has drives") {
    World world;
    REQUIRE(world.controller->create_vd(
        {{"e0s0", "e0s1", "e0s2"}, "ours", default_strip_bytes, false}));
    world.settle();
    World other;
    REQUIRE(other.controller->create_vd(four_drives()));
    other.settle();
    for (int slot = 0; slot < 4; ++slot) {
        auto& guest = world.drives.add(10 + slot, ControllerWorld::drive_bytes);
        auto& source = *other.drives.in_slot(slot).device;
        for (const auto& [from, length] :
             {std::pair{GiB, 14 * MiB}, std::pair{2 * GiB - MiB, std::uint64_t{MiB}}}) {
            REQUIRE(guest.device->write(from, *source.read(from, length)));
        }
    }
    world.controller->refresh();
    REQUIRE(world.shown().vds.size() == 1);
    REQUIRE(world.vd().name == "ours");
    REQUIRE(world.vd().state == VdState::optimal);
    REQUIRE(world.drive("e0s10").state == DriveState::foreign);
    REQUIRE(world.engine.running()->size() == 1);
}

TEST_CASE("a drive with a VD of another history is not free") {
    World world;
    create(world);
    auto drives = world.drives.look();
    // A configuration that has gone another way: it never heard of the VD on these drives.
    auto other = *drives[0].configuration;
    other.vds.clear();
    settle_identities(drives, other);
    REQUIRE(drives[0].content.find("data") != std::string::npos);
    REQUIRE(drives[4].content.empty());
    // One that deleted it has the right to its drives.
    drives = world.drives.look();
    other.tombstones.push_back(world.uuid());
    settle_identities(drives, other);
    REQUIRE(drives[0].content.empty());
}

TEST_CASE("an absent member is waited for before a degraded start, and then recorded") {
    World world;
    create(world);
    world.engine.power_cut();
    world.drives.in_slot(3).present = false;
    world.controller =
        std::make_unique<Controller>(world.drives, world.engine, world.events,
                                     Clock{[&] { return world.now; }, [] { return 0; }});
    REQUIRE(world.controller->start());
    REQUIRE(world.engine.running()->empty());
    REQUIRE(world.controller->snapshot().vds[0].state_reason.find("starts degraded in 10 s") !=
            std::string::npos);
    world.now += 11;
    world.controller->refresh();
    REQUIRE(world.engine.running()->size() == 1);
    REQUIRE(members(world)[3].status == DriveStatus::missing);
    REQUIRE(std::count(world.events.kinds.begin(), world.events.kinds.end(),
                       EventKind::vd_started_degraded) == 1);
}

TEST_CASE("the wait before a degraded start begins anew with each arrival") {
    World world;
    create(world);
    world.engine.power_cut();
    world.drives.in_slot(2).present = false;
    world.drives.in_slot(3).present = false;
    world.controller =
        std::make_unique<Controller>(world.drives, world.engine, world.events,
                                     Clock{[&] { return world.now; }, [] { return 0; }});
    REQUIRE(world.controller->start());
    world.now += 30;
    world.drives.in_slot(2).present = true;
    world.controller->refresh();
    REQUIRE(world.engine.running()->empty());
    world.now += 5;
    world.drives.in_slot(3).present = true;
    world.controller->refresh();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
}

}  // namespace perch::test
