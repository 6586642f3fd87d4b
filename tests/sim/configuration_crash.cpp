// SPDX-License-Identifier: GPL-2.0-or-later
// Every change of the configuration, stopped at each of its steps in turn and then started again
// from what the drives and the kernel hold.
//
// A step is a write to a drive, a write to several drives beside each other (a configuration,
// superblocks, zeroing), a call into the kernel, or a record that the kernel writes. Where several
// drives are written, every subset of them has it when the stop comes, and 64 subsets where there
// are more. Three ways to stop: the daemon is killed (the kernel ends what it has begun and keeps
// running the VDs), power is cut (only the drives remain), or power is cut and the writes that did
// not arrive whole are torn at 4 KiB, each drive's elsewhere.
//
// After each the state must be that before the change or that after it; a change of several
// configurations may also have come half way, where its scenario says so. In all of them everything
// that is configured runs, no member is trusted that lacks an acknowledged write, no parity is
// called consistent that is not, no drive is lost, and the change can be made to its end (tried
// from every state that a step leaves, and from a quarter of the points). Not covered: drives with
// volatile caches (metadata is written with O_DSYNC), and two failures at once.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <set>

#include "catch.hpp"
#include "support/controller_world.hpp"

namespace perch::test {

namespace {

constexpr std::size_t most_subsets = 64;

/// Five drives and what runs on them; survives any number of controllers.
struct World : ControllerWorld {
    World() : ControllerWorld(5) {}
};

enum class Stop { kill, power_cut, torn };
constexpr std::array<Stop, 3> all_stops{Stop::kill, Stop::power_cut, Stop::torn};

struct Scenario {
    std::string name;
    std::function<void(World&)> before;
    std::function<void(World&)> change;
    /// Makes the change to its end, from whatever a stop has left. Absent: the change itself does.
    std::function<void(World&)> complete = {};
    /// What may be there beside the state before and the state after; given as summary() says it.
    std::function<bool(const std::string&)> halfway = {};
    int least_points = 0;  ///< fewer, and it no longer does what it is here for
    bool busy = false;     ///< the host is writing when the change begins
    bool cold = false;     ///< power was cut before the change, which is the start
};

/// What an administrator sees, without what differs from run to run.
std::string summary(const World& world) {
    const auto shown = world.shown();
    std::string text;
    for (const auto& drive : shown.drives) {
        text += fmt::format("{}:{}", drive.id, to_string(drive.state));
        if (drive.status != DriveStatus::good && drive.status != DriveStatus::online) {
            text += fmt::format("/{}", to_string(drive.status));
        }
        for (const int group : drive.spare_for) {
            text += fmt::format("+{}", group);
        }
        text += ' ';
    }
    for (const auto& vd : shown.vds) {
        text += fmt::format("| v{} {} {} {}", vd.id, vd.name, vd.level, to_string(vd.state));
        for (const auto& member : vd.members) {
            text += fmt::format(" {}={}", member.drive, to_string(member.status));
        }
        text += ' ';
    }
    return text + fmt::format("| {} foreign, {}", shown.foreign.size(), shown.coercion);
}

/// What holds whatever happened.
void check_world(World& world) {
    const auto shown = world.shown();
    for (const auto& vd : shown.vds) {
        CAPTURE(vd.name, vd.state_reason);
        const auto uuid = *Uuid::parse(vd.uuid);
        REQUIRE(vd.state != VdState::offline);
        const auto status = world.engine.status(uuid);
        REQUIRE(status);
        REQUIRE(*status);
        REQUIRE_FALSE((*status)->suspended);
        REQUIRE(world.engine.wrongly_trusted(uuid).empty());
        if (vd.consistent) {
            REQUIRE(world.engine.wrong_sectors(uuid) == 0);
        }
        REQUIRE(world.engine.write(uuid));
        world.engine.idle(uuid);
        REQUIRE(world.engine.wrongly_trusted(uuid).empty());
    }
    REQUIRE(world.engine.running()->size() == shown.vds.size());
    for (const auto& drive : shown.drives) {
        CAPTURE(drive.id, drive.content);
        REQUIRE(drive.state != DriveState::unusable);
    }
}

/// Which of `width` jobs are done, in the ways that are tried.
std::vector<std::vector<bool>> subsets(std::size_t width) {
    std::vector<std::vector<bool>> all;
    if (width == 1) {
        return {{false}};  // done is the next step's not done
    }
    const auto bits = [&](std::uint64_t mask) {
        std::vector<bool> subset(width);
        for (std::size_t i = 0; i < width; ++i) {
            subset[i] = (mask >> i & 1U) != 0;
        }
        return subset;
    };
    if (width < 64 && 1ULL << width <= most_subsets) {
        for (std::uint64_t mask = 0; mask < 1ULL << width; ++mask) {
            all.push_back(bits(mask));
        }
        return all;
    }
    all.push_back(std::vector<bool>(width));
    all.push_back(std::vector<bool>(width, true));
    std::mt19937_64 random(width);
    while (all.size() < most_subsets) {
        all.push_back(bits(random()));
    }
    return all;
}

/// The state before the change: the VD, if there is one, has data that was acknowledged.
void prepare(const Scenario& scenario, World& world) {
    scenario.before(world);
    world.settle();
    const auto running = world.engine.running();
    for (const auto& vd : *running) {
        REQUIRE(world.engine.write(vd));
        if (!scenario.busy) {
            world.engine.idle(vd);
        }
    }
    if (scenario.cold) {
        world.engine.power_cut();
    }
}

/// One world that is put back to the state before the change, again and again.
struct Rerun {
    explicit Rerun(const Scenario& of) : scenario(of) {
        prepare(scenario, world);
        drives = world.drives.save();
        engine = world.engine.save();
        now = world.now;
    }
    /// A daemon that has just started on that state; on a cold one the change starts it.
    World& again() {
        world.drives.restore(drives);
        world.engine.restore(*engine);
        world.now = now;
        if (!scenario.cold) {
            world.boot();
        }
        return world;
    }

    const Scenario& scenario;
    World world;
    SimDrives::Saved drives;
    std::shared_ptr<const SimEngine::Saved> engine;
    double now = 0;
};

/// One stop, and the start after it; returns the state that was found.
std::string stop_at(const Scenario& scenario, World& world, Stop how, const StopPoint& point,
                    const std::set<std::string>& allowed) {
    world.steps.set_counts_kernel(how != Stop::kill);
    world.steps.arm(point);
    try {
        scenario.change(world);
    } catch (const Stopped&) {
    }
    world.steps.arm(-1);
    world.steps.set_counts_kernel(false);
    if (how != Stop::kill) {
        world.engine.power_cut();
    }
    world.boot();
    world.settle();
    check_world(world);
    const auto found = summary(world);
    if (!allowed.contains(found) && !(scenario.halfway && scenario.halfway(found))) {
        std::string text;
        for (const auto& state : allowed) {
            text += "\n  " + state;
        }
        FAIL("a third state:\n  " << found << "\ninstead of one of:" << text);
    }
    return found;
}

/// Makes the change to its end.
void complete(const Scenario& scenario, World& world, const std::string& after) {
    (scenario.complete ? scenario.complete : scenario.change)(world);
    world.settle();
    check_world(world);
    REQUIRE(summary(world) == after);
}

/// Stops the change at every point; returns how many there are.
int enumerate(const Scenario& scenario) {
    std::set<std::string> allowed;
    std::string after;
    Rerun rerun(scenario);
    {
        auto& world = rerun.again();
        if (!scenario.cold) {
            allowed.insert(summary(world));
        }
        scenario.change(world);
        world.settle();
        allowed.insert(summary(world));
        if (scenario.complete) {
            scenario.complete(world);
            world.settle();
        }
        after = summary(world);
    }
    int points = 0;
    std::set<std::tuple<Stop, std::size_t, std::string>> seen;
    for (const auto how : all_stops) {
        auto& dry = rerun.again();
        dry.steps.set_counts_kernel(how != Stop::kill);
        dry.steps.reset();
        scenario.change(dry);
        const auto widths = dry.steps.widths();
        for (std::size_t step = 0; step < widths.size(); ++step) {
            for (const auto& done : subsets(widths[step])) {
                const bool all = std::find(done.begin(), done.end(), false) == done.end();
                if (how == Stop::torn && all) {
                    continue;  // nothing is left to be torn
                }
                const StopPoint point{static_cast<int>(step), done, how == Stop::torn,
                                      static_cast<unsigned>(points)};
                CAPTURE(scenario.name, static_cast<int>(how), step, done, points);
                auto& world = rerun.again();
                const auto found = stop_at(scenario, world, how, point, allowed);
                // From each state that a step leaves, and from some of the rest.
                constexpr int some = 4;
                if (seen.insert({how, step, found}).second || points % some == 0) {
                    complete(scenario, world, after);
                }
                ++points;
            }
        }
    }
    return points;
}

void done(const Result<void>& result) {
    INFO((result ? "" : result.error().message));
    REQUIRE(result);
}

/// A RAID5 of the first three drives, running and resynced.
void create(World& world) {
    const auto id = world.controller->create_vd(raid5({0, 1, 2}));
    INFO((id ? "" : id.error().message));
    REQUIRE(id);
    world.settle();
}

/// The same without the drive in slot 2, which failed and was pulled.
void create_degraded(World& world) {
    create(world);
    world.drives.pull(2);
    world.engine.fail_member(world.uuid(), 2);
    world.controller->refresh();
    REQUIRE(world.vd().state == VdState::degraded);
}

/// Two drives of another machine in slots 10 and 11, with a RAID1 of their own.
void add_foreign(World& world) {
    World other;
    CreateRequest request;
    request.level = RaidLevel::raid1;
    request.drives = {"e0s0", "e0s1"};
    request.name = "theirs";
    REQUIRE(other.controller->create_vd(request));
    other.settle();
    other.engine.shut_down();
    for (int slot = 0; slot < 2; ++slot) {
        world.drives.add(10 + slot, ControllerWorld::drive_bytes)
            .device->set_pages(other.drives.in_slot(slot).device->pages());
    }
    world.controller->refresh();
    REQUIRE(world.shown().foreign.size() == 1);
}

bool has_words(const std::string& text, const std::vector<std::string>& words) {
    return std::all_of(words.begin(), words.end(),
                       [&](const auto& word) { return text.find(word) != std::string::npos; });
}

bool has_vd(const World& world) {
    return !world.shown().vds.empty();
}

Scenario create_scenario(const std::string& name, RaidLevel level, int drives) {
    const auto request = [=] {
        CreateRequest result;
        result.level = level;
        result.name = "data";
        for (int slot = 0; slot < drives; ++slot) {
            result.drives.push_back(fmt::format("e0s{}", slot));
        }
        return result;
    };
    return {name, [](World&) {},
            [=](World& world) { (void)world.controller->create_vd(request()); },
            [=](World& world) { REQUIRE(world.controller->create_vd(request())); }};
}

std::vector<Scenario> vd_scenarios() {
    std::vector<Scenario> all;
    all.push_back(create_scenario("create a RAID5", RaidLevel::raid5, 3));
    all.back().least_points = 150;
    all.push_back(create_scenario("create a RAID1", RaidLevel::raid1, 2));
    all.push_back(create_scenario("create a RAID0", RaidLevel::raid0, 2));
    all.push_back({"create in a drive group that has a VD",
                   [](World& world) {
                       auto request = raid5({0, 1, 2}, "first");
                       request.size_bytes = 64 * MiB;
                       REQUIRE(world.controller->create_vd(request));
                   },
                   [](World& world) {
                       (void)world.controller->create_vd(raid5({0, 1, 2}, "second"));
                   },
                   [](World& world) {
                       REQUIRE(world.controller->create_vd(raid5({0, 1, 2}, "second")));
                   }});
    all.push_back({"delete",
                   create,
                   [](World& world) { (void)world.controller->delete_vd(1); },
                   [](World& world) {
                       if (has_vd(world)) {
                           done(world.controller->delete_vd(1));
                       }
                   },
                   {},
                   60});
    all.push_back({"rename", create,
                   [](World& world) { (void)world.controller->rename_vd(1, "other"); },
                   [](World& world) { done(world.controller->rename_vd(1, "other")); }});
    all.push_back({"fast initialization", create,
                   [](World& world) { (void)world.controller->start_init(1, false); },
                   [](World& world) { done(world.controller->start_init(1, false)); }});
    all.back().least_points = 80;
    all.push_back({"full initialization", create,
                   [](World& world) {
                       (void)world.controller->start_init(1, true);
                       world.engine.finish_init(world.uuid());
                       world.controller->refresh();
                   },
                   [](World& world) {
                       // A restart goes on with it by itself.
                       if (!world.vd().operation) {
                           done(world.controller->start_init(1, true));
                       }
                       world.engine.finish_init(world.uuid());
                       world.controller->refresh();
                   }});
    return all;
}

std::vector<Scenario> member_scenarios() {
    std::vector<Scenario> all;
    all.push_back({"add a spare", create,
                   [](World& world) { (void)world.controller->add_spare("e0s3", {0}); },
                   [](World& world) {
                       if (world.drive("e0s3").state != DriveState::dedicated_spare) {
                           done(world.controller->add_spare("e0s3", {0}));
                       }
                   }});
    all.push_back({"delete a spare",
                   [](World& world) {
                       create(world);
                       done(world.controller->add_spare("e0s3", {}));
                   },
                   [](World& world) { (void)world.controller->delete_spare("e0s3"); },
                   [](World& world) {
                       if (world.drive("e0s3").state == DriveState::global_spare) {
                           done(world.controller->delete_spare("e0s3"));
                       }
                   }});
    all.push_back({"set offline", create,
                   [](World& world) { (void)world.controller->set_offline("e0s1"); },
                   [](World& world) {
                       if (world.member(1) == DriveStatus::online) {
                           done(world.controller->set_offline("e0s1"));
                       }
                   }});
    all.push_back({"drop of a pulled drive", create,
                   [](World& world) {
                       world.drives.pull(2);
                       world.controller->refresh();
                   },
                   [](World& world) {
                       if (world.drives.in_slot(2).present) {
                           world.pull(2);
                       }
                   }});
    all.push_back({"insert and rebuild", create_degraded,
                   [](World& world) {
                       (void)world.controller->insert_member({"e0s4", 0, 0, 2, false});
                   },
                   [](World& world) {
                       if (world.member(2) == DriveStatus::missing) {
                           done(world.controller->insert_member({"e0s4", 0, 0, 2, false}));
                       } else if (world.member(2) == DriveStatus::offline) {
                           done(world.controller->start_rebuild("e0s4"));
                       }
                       REQUIRE(world.member(2) == DriveStatus::rebuild);
                       world.engine.finish_rebuild(world.uuid());
                       world.controller->refresh();
                   },
                   // The place is its own before its rebuild begins.
                   [](const std::string& found) {
                       return has_words(found, {"e0s4:Configured/Offline",
                                                "Degraded e0s0=Online e0s1=Online e0s4=Offline"});
                   }});
    all.back().least_points = 60;
    all.push_back({"the end of a rebuild",
                   [](World& world) {
                       create_degraded(world);
                       done(world.controller->insert_member({"e0s4", 0, 0, 2, false}));
                   },
                   [](World& world) {
                       world.engine.finish_rebuild(world.uuid());
                       world.controller->refresh();
                   },
                   [](World& world) {
                       if (world.member(2) == DriveStatus::rebuild) {
                           world.engine.finish_rebuild(world.uuid());
                           world.controller->refresh();
                       }
                   }});
    all.push_back({"stop a rebuild",
                   [](World& world) {
                       create_degraded(world);
                       done(world.controller->insert_member({"e0s4", 0, 0, 2, false}));
                   },
                   [](World& world) { (void)world.controller->stop_rebuild("e0s4"); },
                   [](World& world) {
                       if (world.member(2) == DriveStatus::rebuild) {
                           done(world.controller->stop_rebuild("e0s4"));
                       }
                   }});
    all.push_back({"set missing",
                   [](World& world) {
                       create(world);
                       done(world.controller->set_offline("e0s1"));
                   },
                   [](World& world) { (void)world.controller->set_missing("e0s1"); },
                   [](World& world) {
                       if (world.member(1) == DriveStatus::offline) {
                           done(world.controller->set_missing("e0s1"));
                       }
                   }});
    return all;
}

std::vector<Scenario> drive_scenarios() {
    std::vector<Scenario> all;
    all.push_back({"set coercion", create,
                   [](World& world) { (void)world.controller->set_coercion(Coercion::mib_128); },
                   [](World& world) { done(world.controller->set_coercion(Coercion::mib_128)); }});
    all.push_back({"set JBOD", create,
                   [](World& world) { (void)world.controller->set_jbod("e0s3", false); },
                   [](World& world) {
                       if (world.drive("e0s3").state != DriveState::jbod) {
                           done(world.controller->set_jbod("e0s3", false));
                       }
                   }});
    all.push_back({"set unconfigured",
                   [](World& world) {
                       create(world);
                       SimDrives::set_content(world.drives.in_slot(3), "ext4 filesystem");
                       world.controller->refresh();
                   },
                   [](World& world) { (void)world.controller->set_unconfigured("e0s3", true); },
                   [](World& world) {
                       if (world.drive("e0s3").state == DriveState::jbod) {
                           done(world.controller->set_unconfigured("e0s3", true));
                       }
                   }});
    all.push_back({"the start after an unclean stop", create, [](World& world) {
                       world.boot();
                       world.settle();
                   }});
    all.back().busy = all.back().cold = true;
    all.back().least_points = 50;
    all.push_back({"a degraded start",
                   [](World& world) {
                       create(world);
                       world.engine.idle(world.uuid());
                   },
                   [](World& world) {
                       if (world.drives.in_slot(1).present) {
                           world.drives.pull(1);
                       }
                       world.boot();
                   }});
    all.back().cold = true;
    all.push_back({"a partition table is mended", create, [](World& world) {
                       SimDrives::damage_table(world.drives.in_slot(0), true, false);
                       world.boot();
                       world.settle();
                   }});
    all.back().cold = true;
    return all;
}

std::vector<Scenario> foreign_scenarios() {
    std::vector<Scenario> all;
    all.push_back({"import",
                   [](World& world) {
                       create(world);
                       add_foreign(world);
                   },
                   [](World& world) { (void)world.controller->import_foreign({}); },
                   [](World& world) {
                       if (world.shown().vds.size() == 1) {
                           done(world.controller->import_foreign({}));
                       }
                   }});
    all.back().least_points = 150;
    all.push_back({"clear a foreign configuration",
                   [](World& world) {
                       create(world);
                       add_foreign(world);
                   },
                   [](World& world) { (void)world.controller->clear_foreign({}); },
                   [](World& world) {
                       if (!world.shown().foreign.empty()) {
                           done(world.controller->clear_foreign({}));
                       }
                       // Half erased it has a label and no configuration: no group, but a drive.
                       for (const auto* id : {"e0s10", "e0s11"}) {
                           if (world.drive(id).state == DriveState::foreign) {
                               done(world.controller->set_unconfigured(id, true));
                           }
                       }
                   },
                   // One drive after the other.
                   [](const std::string& found) {
                       return has_words(found, {"e0s3:Unconfigured e0s4:Unconfigured e0s10:",
                                                "Optimal e0s0=Online e0s1=Online e0s2=Online"});
                   }});
    all.back().least_points = 80;
    return all;
}

/// Runs them all and prints how many points there were. PERCH_SCENARIO=word: those whose name
/// contains it.
void enumerate_all(const std::vector<Scenario>& scenarios) {
    const char* chosen = std::getenv("PERCH_SCENARIO");
    int points = 0;
    for (const auto& scenario : scenarios) {
        if (chosen != nullptr && scenario.name.find(chosen) == std::string::npos) {
            continue;
        }
        const auto begun = std::chrono::steady_clock::now();
        const int these = enumerate(scenario);
        INFO(scenario.name << ": " << these << " points");
        CHECK(these >= std::max(scenario.least_points, 3));
        points += these;
        std::cout << fmt::format(
            "  {:42} {:5} points {:6.1f} s\n", scenario.name, these,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    }
    std::cout << "  " << points << " stop points\n";
}

}  // namespace

TEST_CASE("every change of a VD survives a stop at each of its steps") {
    enumerate_all(vd_scenarios());
}

TEST_CASE("every change of a member survives a stop at each of its steps") {
    enumerate_all(member_scenarios());
}

TEST_CASE("every change of drives, and every start, survives a stop at each of its steps") {
    enumerate_all(drive_scenarios());
}

TEST_CASE("taking over and erasing a foreign configuration survive a stop at each of their steps") {
    enumerate_all(foreign_scenarios());
}

}  // namespace perch::test
