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
#include "operations/controller.hpp"
#include "support/memory_drives.hpp"
#include "support/model_engine.hpp"
#include "util/units.hpp"

namespace perch::test {

namespace {

constexpr std::uint64_t drive_bytes = 3 * GiB;

class NullEvents final : public EventSink {
  public:
    void emit(EventKind kind, const std::string& text) override {
        kinds.push_back(kind);
        texts.push_back(text);
    }
    std::vector<EventKind> kinds;
    std::vector<std::string> texts;
};

/// Six drives and what runs on them; survives any number of controllers.
struct World {
    World() {
        for (int slot = 0; slot < 6; ++slot) {
            drives.add(slot, drive_bytes);
        }
        boot();
    }

    void boot() {
        controller = std::make_unique<Controller>(drives, engine, events,
                                                  Clock{[this] { return now; }, [] { return 0; }});
        if (auto done = controller->start(); !done) {
            throw std::runtime_error(done.error().message);
        }
        now += 60;  // beyond the wait for a degraded start
        controller->refresh();
    }

    Uuid vd_uuid() const { return *Uuid::parse(controller->snapshot().vds.at(0).uuid); }

    StepCounter steps;
    MemoryDrives drives{steps};
    ModelEngine engine{drives, steps};
    NullEvents events;
    double now = 0;
    std::unique_ptr<Controller> controller;
};

CreateRequest four_drives() {
    return {{"e0s0", "e0s1", "e0s2", "e0s3"}, "data", default_strip_bytes, false};
}

void create(World& world) {
    const auto id = world.controller->create_vd(four_drives());
    REQUIRE(id);
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
        world.engine.fail_member(world.vd_uuid(), 3);
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
             world.engine.finish_rebuild(world.vd_uuid());
             world.controller->refresh();
             REQUIRE(members(world)[3].status == DriveStatus::online);
             REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
         }},
        {"confirming a rebuild",
         [lose_slot_3](World& world) {
             lose_slot_3(world);
             REQUIRE(world.controller->insert_member({"e0s5", 0, 0, 3, false}));
             world.engine.finish_rebuild(world.vd_uuid());
         },
         [](World& world) { world.controller->refresh(); },
         [](World& world) {
             // After a power cut the engine goes on with what the member's record says.
             if (members(world)[3].status == DriveStatus::rebuild) {
                 world.engine.finish_rebuild(world.vd_uuid());
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
    const auto uuid = world.vd_uuid();
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
