// SPDX-License-Identifier: GPL-2.0-or-later
// What the controller refuses: with which code, in which words, and that nothing was written.
#include "catch.hpp"
#include "support/controller_world.hpp"
#include "support/text.hpp"

using namespace perch;
using namespace perch::test;

namespace {

/// Does it and checks that it is refused with that code, words and no write.
template <typename Action>
void refused(ControllerWorld& world, Errc code, const std::vector<std::string>& words,
             Action action) {
    world.controller->refresh();
    const auto before = world.shown();
    world.steps.reset();
    const auto done = action(*world.controller);
    REQUIRE_FALSE(done);
    INFO(done.error().message);
    CHECK(errc_info(done.error().code).name == errc_info(code).name);
    for (const auto& word : words) {
        INFO(word);
        CHECK(mentions(done.error().message, word));
    }
    CHECK(world.steps.count() == 0);
    CHECK(world.shown() == before);
}

void refused_create(ControllerWorld& world, Errc code, const std::vector<std::string>& words,
                    const CreateRequest& request) {
    refused(world, code, words,
            [&](Controller& controller) { return controller.create_vd(request); });
}

/// v1 on slots 0 to 3.
struct WithVd : ControllerWorld {
    WithVd() {
        REQUIRE(controller->create_vd(raid5({0, 1, 2, 3})));
        settle();
    }
};

/// The same with the drive in slot 3 pulled.
struct Degraded : WithVd {
    Degraded() { pull(3); }
};

InsertRequest insert(int slot, int row, bool force = false) {
    return {fmt::format("e0s{}", slot), 0, 0, row, force};
}

}  // namespace

TEST_CASE("create: a drive with data is refused by name and finding, unless forced") {
    ControllerWorld world;
    SimDrives::set_content(world.drives.in_slot(2), "ext4 filesystem 'old'");
    auto request = raid5({0, 1, 2});
    refused_create(world, Errc::data_found,
                   {"s2 (SN SIM0002)", "ext4 filesystem 'old'", "force", "Nothing was written"},
                   request);
    request.force = true;
    CHECK(world.controller->create_vd(request));
}

TEST_CASE("create: an engine that cannot run here is refused with the other one's name") {
    ControllerWorld world;
    auto request = raid5({0, 1, 2});
    request.engine = EngineKind::perch;
    refused_create(world, Errc::unsupported, {"engine dm-raid alone", "engine=dm-raid", "Nothing"},
                   request);
    request.engine = EngineKind::dm_raid;
    CHECK(world.controller->create_vd(request));
}

TEST_CASE("create: a drive in use is refused even with force") {
    ControllerWorld world;
    world.drives.in_slot(1).users = {"mounted on /"};
    auto request = raid5({0, 1, 2});
    for (const bool force : {false, true}) {
        request.force = force;
        refused_create(world, Errc::in_use, {"s1 (SN SIM0001)", "mounted on /", "even with force"},
                       request);
    }
}

TEST_CASE("create: sector sizes do not mix (failures 39)") {
    ControllerWorld world;
    world.drives.add(8, 4 * GiB, 4096);
    refused_create(world, Errc::sector_size, {"s8", "4096", "512"}, raid5({0, 1, 8}));
    auto request = raid5({8, 0, 1});
    request.force = true;
    refused_create(world, Errc::sector_size, {"4096", "512"}, request);
}

TEST_CASE("create: too few and too many drives") {
    ControllerWorld world(40);
    refused_create(world, Errc::invalid_argument, {"no drives"}, raid5({}));
    refused_create(world, Errc::invalid_argument, {"at least 3", "2 given"}, raid5({0, 1}));
    std::vector<int> many;
    many.reserve(33);
    for (int slot = 0; slot < 33; ++slot) {
        many.push_back(slot);
    }
    refused_create(world, Errc::limit, {"at most 32", "33 given"}, raid5(many));
}

TEST_CASE("create: names") {
    WithVd world;
    for (const auto* name : {"../x", "a/b", "a b", "-rf", ".hidden", "sixteen-letters-", "ünicode",
                             "new\nline", "_"}) {
        INFO(name);
        refused_create(world, Errc::invalid_argument, {"not a VD name"}, raid5({4, 5, 6}, name));
    }
    refused_create(world, Errc::invalid_argument, {"'data'", "taken by v1"},
                   raid5({4, 5, 6}, "data"));
    CHECK(world.controller->create_vd(raid5({4, 5, 6}, "fifteen-letters")));
}

TEST_CASE("create: strips") {
    ControllerWorld world;
    for (const std::uint64_t strip : {std::uint64_t{0}, 2 * KiB, 2 * MiB, 65 * KiB}) {
        auto request = raid5({0, 1, 2});
        request.strip_bytes = strip;
        refused_create(world, Errc::invalid_argument, {"strip"}, request);
    }
}

TEST_CASE("create: drives that are not there, twice there, or too small") {
    ControllerWorld world;
    refused_create(world, Errc::not_found, {"e0s77"}, raid5({0, 1, 77}));
    refused_create(world, Errc::invalid_argument, {"twice"}, raid5({0, 1, 1}));
    world.drives.add(9, 2 * GiB);
    refused_create(world, Errc::too_small, {"s9", "2.250 GiB"}, raid5({0, 1, 9}));
    world.drives.in_slot(2).answers = false;
    refused_create(world, Errc::timeout, {"s2", "does not answer"}, raid5({0, 1, 2}));
}

TEST_CASE("create: members of another VD are refused even with force") {
    WithVd world;
    auto request = raid5({3, 4, 5}, "other");
    request.force = true;
    refused_create(world, Errc::wrong_state, {"s3 (SN SIM0003)", "already a member"}, request);
}

TEST_CASE("create: drives of another controller need force") {
    WithVd world;
    Configuration foreign;
    foreign.controller = Uuid::random();
    foreign.sequence = 99;
    foreign.id = Uuid::random();
    const auto identity = world.drives.in_slot(6).identity;
    REQUIRE(world.drives.take(identity, foreign.controller, Coercion::gib_1));
    for (const auto& drive : world.drives.look()) {
        if (drive.identity.slot == 6) {
            REQUIRE(world.drives.write_configuration({drive}, foreign).at(0));
        }
    }
    world.controller->refresh();
    CHECK(world.drive("e0s6").state == DriveState::foreign);
    auto request = raid5({4, 5, 6}, "other");
    refused_create(world, Errc::data_found, {"s6", "foreign"}, request);
    request.force = true;
    CHECK(world.controller->create_vd(request));
    CHECK(world.drive("e0s6").state == DriveState::configured);
}

TEST_CASE("create: a drive written by a newer Perch stops every change, even with force") {
    WithVd world;
    auto& drive = world.drives.in_slot(7);
    // A label with an incompatible feature bit.
    auto bytes = encode_label({Uuid::random(), Uuid::random(), 3 * GiB, {GiB, GiB}, 512});
    bytes[32] = std::byte{1};
    std::fill_n(bytes.begin() + 8, 4, std::byte{0});
    const auto sum = htole32(crc32c(bytes));
    std::memcpy(bytes.data() + 8, &sum, sizeof(sum));
    REQUIRE(drive.device->write(GiB + 4096, bytes));
    auto request = raid5({4, 5, 7}, "other");
    request.force = true;
    refused_create(world, Errc::wrong_state, {"s7", "newer Perch"}, request);
    refused(world, Errc::wrong_state, {"s7"}, [](Controller& c) { return c.delete_vd(1); });
    refused(world, Errc::wrong_state, {"s7"}, [](Controller& c) { return c.set_offline("e0s0"); });
    refused(world, Errc::wrong_state, {"s7"},
            [](Controller& c) { return c.insert_member(insert(4, 0)); });
    CHECK(mentions(world.shown().problems.at(0).what, "newer Perch"));
}

TEST_CASE("create: two drives with one identity are refused, and both are shown (failures 48)") {
    ControllerWorld world;
    world.drives.in_slot(5).identity.identity = world.drives.in_slot(4).identity.identity;
    for (const auto& slots : {std::vector{0, 1, 4}, std::vector{0, 1, 5}}) {
        auto request = raid5(slots);
        request.force = true;
        refused_create(world, Errc::wrong_state, {"same identity"}, request);
    }
    CHECK_NOTHROW(world.drive("e0s4"));
    CHECK_NOTHROW(world.drive("e0s5"));
}

TEST_CASE("create: two drives that claim one slot are refused") {
    ControllerWorld world;
    world.drives.in_slot(5).identity.slot = 4;
    refused_create(world, Errc::wrong_state, {"two drives claim slot"}, raid5({0, 1, 4}));
}

TEST_CASE("delete: what is not there, and what is in use") {
    WithVd world;
    refused(world, Errc::not_found, {"no VD 2"}, [](Controller& c) { return c.delete_vd(2); });
    refused(world, Errc::not_found, {"no VD -1"}, [](Controller& c) { return c.delete_vd(-1); });
    world.engine.set_open(world.uuid(), true);
    refused(world, Errc::in_use, {"v1 (data)", "open", "Nothing changed"},
            [](Controller& c) { return c.delete_vd(1); });
    CHECK(world.vd().state == VdState::optimal);
    world.engine.set_open(world.uuid(), false);
    CHECK(world.controller->delete_vd(1));
}

TEST_CASE("set offline: never the second member") {
    WithVd world;
    REQUIRE(world.controller->set_offline("e0s1"));
    refused(world, Errc::redundancy, {"survives 0", "v1 (data)", "s2"},
            [](Controller& c) { return c.set_offline("e0s2"); });
    refused(world, Errc::wrong_state, {"s1", "offline already"},
            [](Controller& c) { return c.set_offline("e0s1"); });
    // Neither while the first one's rebuild runs.
    REQUIRE(world.controller->start_rebuild("e0s1"));
    refused(world, Errc::redundancy, {"survives 0"},
            [](Controller& c) { return c.set_offline("e0s2"); });
}

TEST_CASE("set offline: what is no member, or not there") {
    WithVd world;
    refused(world, Errc::wrong_state, {"not a member"},
            [](Controller& c) { return c.set_offline("e0s5"); });
    refused(world, Errc::not_found, {"e0s50"},
            [](Controller& c) { return c.set_offline("e0s50"); });
}

TEST_CASE("insert: into a place that is not free, or not there") {
    Degraded world;
    refused(world, Errc::wrong_state, {"row 0", "held by s0"},
            [](Controller& c) { return c.insert_member(insert(4, 0)); });
    for (const int row : {-1, 4, 1000000}) {
        refused(world, Errc::not_found, {fmt::format("no row {}", row)},
                [&](Controller& c) { return c.insert_member(insert(4, row)); });
    }
    refused(world, Errc::not_found, {"drive group 1"}, [](Controller& c) {
        return c.insert_member({"e0s4", 1, 0, 3, false});
    });
    refused(world, Errc::not_found, {"array 1"}, [](Controller& c) {
        return c.insert_member({"e0s4", 0, 1, 3, false});
    });
}

TEST_CASE("insert: of a drive that does not fit") {
    Degraded world;
    world.drives.add(8, 3 * GiB, 4096);
    refused(world, Errc::sector_size, {"s8", "4096", "512", "nothing was written"},
            [](Controller& c) { return c.insert_member(insert(8, 3)); });
    world.drives.add(9, 2 * GiB);
    refused(world, Errc::too_small, {"s9", "nothing was written"},
            [](Controller& c) { return c.insert_member(insert(9, 3)); });
    SimDrives::set_content(world.drives.in_slot(4), "xfs filesystem");
    refused(world, Errc::data_found, {"s4", "xfs", "force"},
            [](Controller& c) { return c.insert_member(insert(4, 3)); });
    world.drives.in_slot(5).users = {"swap"};
    refused(world, Errc::in_use, {"s5", "swap"},
            [](Controller& c) { return c.insert_member(insert(5, 3, true)); });
    refused(world, Errc::wrong_state, {"s1", "already a member"},
            [](Controller& c) { return c.insert_member(insert(1, 3, true)); });
    refused(world, Errc::not_found, {"e0s44"},
            [](Controller& c) { return c.insert_member(insert(44, 3)); });
}

TEST_CASE("insert: one that is 176 KB smaller fits (failures 14)") {
    ControllerWorld world(0);
    for (int slot = 0; slot < 4; ++slot) {
        world.drives.add(slot, 480103981056ULL);
    }
    world.drives.add(4, 480103981056ULL - 344 * sector_bytes);
    REQUIRE(world.controller->create_vd(raid5({0, 1, 2, 3})));
    world.pull(3);
    CHECK(world.controller->insert_member(insert(4, 3)));
}

TEST_CASE("spare: one that could not stand in is refused when it is assigned (failures 15)") {
    ControllerWorld world(0);
    for (int slot = 0; slot < 4; ++slot) {
        world.drives.add(slot, 8 * GiB);
    }
    world.drives.add(5, 7 * GiB + 600 * MiB);  // coercion makes the same of it
    world.drives.add(10, 7 * GiB);
    world.drives.add(11, 8 * GiB, 4096);
    REQUIRE(world.controller->create_vd(raid5({0, 1, 2, 3})));
    world.settle();
    const auto assign = [](int slot, const std::vector<int>& groups) {
        return [=](Controller& c) { return c.add_spare(fmt::format("e0s{}", slot), groups); };
    };
    for (const auto& groups : {std::vector<int>{}, std::vector<int>{0}}) {
        refused(world, Errc::too_small, {"s10 (SN", "v1 (data) needs"}, assign(10, groups));
    }
    refused(world, Errc::sector_size, {"s11 (SN", "sectors of 4096 bytes"}, assign(11, {0}));
    CHECK(assign(5, {0})(*world.controller));
}

TEST_CASE("create: a drive that failed is not used again until that is cleared (failures 16)") {
    WithVd world;
    world.engine.fail_member(world.uuid(), 3);
    world.controller->refresh();
    REQUIRE(world.member(3) == DriveStatus::failed);
    REQUIRE(world.controller->insert_member(insert(4, 3)));
    world.engine.finish_rebuild(world.uuid());
    world.controller->refresh();
    REQUIRE(world.vd().state == VdState::optimal);
    // It is in no VD any more, and still nobody takes it: not by force, and not as a spare.
    const bool forced = GENERATE(false, true);
    auto request = raid5({3, 5, 6}, "next");
    request.force = forced;
    refused_create(world, Errc::wrong_state, {"s3 (SN SIM0003)", "failed before", "set uconf"},
                   request);
    refused(world, Errc::wrong_state, {"failed before"},
            [](Controller& c) { return c.add_spare("e0s3", {0}); });
    world.power_cycle();
    refused_create(world, Errc::wrong_state, {"failed before"}, request);
    REQUIRE(world.controller->set_unconfigured("e0s3", forced));
    CHECK(world.controller->create_vd(request));
}

TEST_CASE("insert: into a VD that is not degraded") {
    Degraded world;
    world.drives.pull(2);
    refused(world, Errc::wrong_state, {"Offline", "running, degraded VD"},
            [](Controller& c) { return c.insert_member(insert(4, 3)); });
}

TEST_CASE("rebuild: of a drive that is missing says what to do instead") {
    Degraded world;
    refused(world, Errc::wrong_state,
            {"s3 (SN SIM0003)", "is missing", "insert dg=0 array=0 row=3"},
            [](Controller& c) { return c.start_rebuild("e0s3"); });
    refused(world, Errc::wrong_state, {"is missing"},
            [](Controller& c) { return c.set_online("e0s3"); });
}

TEST_CASE("rebuild: of a member that needs none, and stopping one that does not run") {
    WithVd world;
    refused(world, Errc::wrong_state, {"online", "nothing to rebuild"},
            [](Controller& c) { return c.start_rebuild("e0s0"); });
    refused(world, Errc::wrong_state, {"no rebuild"},
            [](Controller& c) { return c.stop_rebuild("e0s0"); });
    refused(world, Errc::wrong_state, {"not a member"},
            [](Controller& c) { return c.start_rebuild("e0s5"); });
    REQUIRE(world.controller->set_offline("e0s0"));
    REQUIRE(world.controller->start_rebuild("e0s0"));
    refused(world, Errc::wrong_state, {"being rebuilt already"},
            [](Controller& c) { return c.start_rebuild("e0s0"); });
}

TEST_CASE("two histories: the VD is not started, both sides are foreign, one is imported") {
    WithVd world;
    auto found = world.drives.look();
    auto one = *found.at(0).configuration;
    one.sequence += 1;
    auto two = one;
    one.id = Uuid::random();
    two.id = Uuid::random();
    one.vds[0].members[3].state = MemberState::missing;
    two.vds[0].members[0].state = MemberState::missing;
    REQUIRE(world.drives.write_configuration({found.at(0), found.at(1), found.at(2)}, one).at(0));
    REQUIRE(world.drives.write_configuration({found.at(3)}, two).at(0));
    world.engine.power_cut();
    world.events.clear();
    world.boot();
    CHECK(world.engine.running()->empty());
    CHECK(world.vd().state == VdState::offline);
    CHECK(mentions(world.vd().state_reason, "went two ways"));
    CHECK(world.events.count(EventKind::foreign_found) == 2);
    CHECK(world.drive("e0s3").state == DriveState::foreign);
    const auto foreign = world.shown().foreign;
    REQUIRE(foreign.size() == 2);
    refused(world, Errc::wrong_state, {"incomplete", "Its drives went two ways"},
            [](Controller& c) {
                return c.import_foreign({0, 1});
            });
    // The side with three of four members is worth more; the other one is then only behind.
    const auto side = foreign[0].drives.size() == 3 ? 0 : 1;
    CHECK(foreign[static_cast<std::size_t>(side)].complete);
    CHECK_FALSE(foreign[static_cast<std::size_t>(1 - side)].complete);
    REQUIRE(world.controller->import_foreign({side}));
    world.boot();
    CHECK(world.vd().state == VdState::degraded);
    CHECK(world.shown().foreign.empty());
    CHECK(world.member(3) == DriveStatus::offline);
    REQUIRE(world.controller->start_rebuild("e0s3"));
}
