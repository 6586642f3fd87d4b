// SPDX-License-Identifier: GPL-2.0-or-later
// What is trusted after a stop, and what is not: drops that the daemon did not see, losses beyond
// redundancy, unclean stops, other controllers and other histories, waits before a degraded start.
// tests/sim/configuration_crash.cpp has the stops in the middle of a change.
#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "support/controller_world.hpp"

namespace perch::test {

namespace {

/// Six drives and what runs on them; survives any number of controllers.
struct World : ControllerWorld {
    World() : ControllerWorld(6) {}
};

CreateRequest four_drives() {
    return raid5({0, 1, 2, 3});
}

void create(World& world) {
    const auto id = world.controller->create_vd(four_drives());
    REQUIRE(id);
    world.settle();
}

std::vector<Member> members(const World& world) {
    return world.controller->snapshot().vds.at(0).members;
}

void create(World& world, RaidLevel level, const std::vector<int>& slots) {
    auto request = raid5(slots);
    request.level = level;
    REQUIRE(world.controller->create_vd(request));
    world.settle();
}

/// The machine starts with the drives in these slots only, past every wait.
void boot_with(World& world, const std::set<int>& slots) {
    world.engine.power_cut();
    for (int slot = 0; slot < 6; ++slot) {
        const auto there = world.drives.in_slot(slot).present;
        if (there && !slots.contains(slot)) {
            world.drives.pull(slot);
        } else if (!there && slots.contains(slot)) {
            world.drives.insert(slot);
        }
    }
    world.boot();
}

}  // namespace

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
    world.drives.pull(0);
    world.drives.pull(1);
    world.controller->refresh();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::offline);
    world.engine.power_cut();
    world.boot();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::offline);
    REQUIRE(world.engine.running()->empty());
    // Both come back: the last in-sync set is whole again.
    world.drives.insert(0);
    world.drives.insert(1);
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
    world.drives.pull(3);
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
    REQUIRE(world.controller->create_vd(raid5({0, 1, 2}, "one")));
    REQUIRE(world.controller->create_vd(raid5({3, 4, 5}, "two")));
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
    REQUIRE(world.controller->create_vd(raid5({0, 1, 2}, "ours")));
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
    auto other = successor(*drives[0].configuration);
    other.parent = Uuid::random();
    other.vds.clear();
    for (auto& drive : other.drives) {
        drive.acknowledged = Uuid::random();
        drive.attempted.clear();
    }
    settle_identities(drives, choose_history(drives, other, true));
    REQUIRE(drives[0].content.find("data") != std::string::npos);
    REQUIRE(drives[4].content.empty());
    // One that deleted it has the right to its drives.
    drives = world.drives.look();
    other.tombstones.push_back(world.uuid());
    settle_identities(drives, choose_history(drives, other, true));
    REQUIRE(drives[0].content.empty());
}

TEST_CASE("an absent member is waited for before a degraded start, and then recorded") {
    World world;
    create(world);
    world.engine.power_cut();
    world.drives.pull(3);
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
    world.drives.pull(2);
    world.drives.pull(3);
    world.controller =
        std::make_unique<Controller>(world.drives, world.engine, world.events,
                                     Clock{[&] { return world.now; }, [] { return 0; }});
    REQUIRE(world.controller->start());
    world.now += 30;
    world.drives.insert(2);
    world.controller->refresh();
    REQUIRE(world.engine.running()->empty());
    world.now += 5;
    world.drives.insert(3);
    world.controller->refresh();
    REQUIRE(world.controller->snapshot().vds[0].state == VdState::optimal);
}

TEST_CASE("two halves that ran apart are both foreign, and neither is written (failures 11)") {
    const auto [level, halves] =
        GENERATE(std::pair(RaidLevel::raid1, std::pair(std::set{0}, std::set{1})),
                 std::pair(RaidLevel::raid10, std::pair(std::set{0, 2}, std::set{1, 3})),
                 std::pair(RaidLevel::raid6, std::pair(std::set{0, 1}, std::set{2, 3})));
    const auto& [one, two] = halves;
    CAPTURE(to_string(level), one);
    World world;
    create(world, level, level == RaidLevel::raid1 ? std::vector{0, 1} : std::vector{0, 1, 2, 3});
    for (const auto& half : {one, two}) {
        boot_with(world, half);
        REQUIRE(world.vd().state == VdState::degraded);
        world.engine.write(world.uuid());
    }
    const auto content = [&](int slot) {
        return *world.drives.in_slot(slot).device->read(GiB, 64 * MiB);
    };
    std::map<int, Bytes> before;
    auto all = one;
    all.insert(two.begin(), two.end());
    world.engine.power_cut();
    for (const int slot : all) {
        if (!world.drives.in_slot(slot).present) {
            world.drives.insert(slot);
        }
        before[slot] = content(slot);
    }
    world.boot();
    REQUIRE(world.engine.running()->empty());
    REQUIRE(world.vd().state == VdState::offline);
    const auto foreign = world.shown().foreign;
    REQUIRE(foreign.size() == 2);
    for (const int slot : all) {
        // Each is listed with its side, for a person to choose.
        const auto id = fmt::format("e0s{}", slot);
        REQUIRE(std::ranges::count_if(foreign, [&](const auto& side) {
                    return std::ranges::count(side.drives, id) == 1;
                }) == 1);
        REQUIRE(content(slot) == before[slot]);
    }
    REQUIRE_FALSE(world.controller->import_foreign({0, 1}));
    // A person decides; the other half is then rebuilt, never merged.
    REQUIRE(world.controller->import_foreign({1}));
    world.boot();
    REQUIRE(world.vd().state == VdState::degraded);
    REQUIRE(std::ranges::count_if(members(world), [](const auto& member) {
                return member.status == DriveStatus::offline;
            }) == static_cast<long>(one.size()));
}

TEST_CASE("four of six drives go, and the VD starts again when enough of the last set are back") {
    World world;
    create(world, RaidLevel::raid6, {0, 1, 2, 3, 4, 5});
    const bool at_once = GENERATE(false, true);
    CAPTURE(at_once);
    for (const int slot : {0, 1, 2, 3}) {
        at_once ? world.drives.pull(slot) : world.pull(slot);
    }
    world.controller->refresh();
    REQUIRE(world.vd().state == VdState::offline);
    if (GENERATE(false, true)) {
        world.power_cycle();
        REQUIRE(world.vd().state == VdState::offline);
    }
    // Pulled one by one, the first two are known to be behind: they do not help.
    for (const int slot : {0, 1}) {
        world.put_back(slot);
    }
    world.now += 60;
    world.controller->refresh();
    REQUIRE((world.vd().state == VdState::offline) == !at_once);
    for (const int slot : {2, 3}) {
        world.put_back(slot);
        world.now += 60;
        world.controller->refresh();
    }
    REQUIRE(world.vd().state != VdState::offline);
    REQUIRE(world.member(4) == DriveStatus::online);
    REQUIRE(world.member(5) == DriveStatus::online);
    const auto behind = std::ranges::count_if(
        members(world), [](const auto& member) { return member.status != DriveStatus::online; });
    REQUIRE(behind <= 2);
    if (!at_once) {
        REQUIRE(world.member(2) == DriveStatus::online);
        REQUIRE(world.member(3) == DriveStatus::online);
    }
}

TEST_CASE("a drive whose labels are both destroyed is named, and the others carry on") {
    World world;
    create(world);
    world.engine.power_cut();
    auto& device = *world.drives.in_slot(2).device;
    const auto partition = world.drives.look().at(2).label->partition;
    REQUIRE(device.write(partition.offset, Bytes(MiB, std::byte{0x5a})));
    REQUIRE(device.write(partition.offset + partition.length - MiB, Bytes(MiB, std::byte{0x5a})));
    world.boot();
    REQUIRE(world.vd().state == VdState::degraded);
    REQUIRE(members(world)[2].status == DriveStatus::missing);
    const auto shown = world.drive("e0s2");
    REQUIRE(shown.state == DriveState::unusable);
    REQUIRE(shown.content.find("label") != std::string::npos);
    REQUIRE_FALSE(world.controller->insert_member({"e0s2", 0, 0, 2, false}));
}

}  // namespace perch::test
