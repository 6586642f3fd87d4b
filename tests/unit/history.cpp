// SPDX-License-Identifier: GPL-2.0-or-later
// Which configuration counts, and what is another history.
#include "assemble/history.hpp"

#include "catch.hpp"
#include "support/text.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

Uuid uuid(std::uint8_t kind, int number) {
    Uuid result;
    result.bytes[0] = kind;
    result.bytes[14] = static_cast<std::uint8_t>(number >> 8);
    result.bytes[15] = static_cast<std::uint8_t>(number);
    return result;
}
Uuid controller_uuid(int number) {
    return uuid(0xc0, number);
}
Uuid drive_uuid(int number) {
    return uuid(0xd0, number + 1);
}

/// A controller whose configuration changes, and drives that take part in the changes or do not:
/// what Controller::commit does, without its failures.
class Site {
  public:
    explicit Site(int drives, int controller = 1) {
        now_.controller = controller_uuid(controller);
        for (int number = 0; number < drives; ++number) {
            ConfigDrive known;
            known.uuid = drive_uuid(controller * 100 + number);
            known.serial = fmt::format("SN{}", controller * 100 + number);
            known.slot = number;
            known.device_bytes = 3 * GiB;
            known.partition_bytes = GiB;
            now_.drives.push_back(known);
        }
        drives_.resize(static_cast<std::size_t>(drives));
    }
    /// A VD over those drives, in a drive group of its own.
    void add_vd(int id, const std::vector<int>& members, RaidLevel level = RaidLevel::raid1) {
        ConfigVd vd;
        vd.id = id;
        vd.group = id;
        vd.uuid = uuid(0x5d, id);
        vd.name = fmt::format("v{}", id);
        vd.level = level;
        vd.per_span = static_cast<int>(members.size());
        for (const int number : members) {
            vd.members.push_back({now_.drives.at(static_cast<std::size_t>(number)).uuid,
                                  uuid(0xa0, id * 16 + number),
                                  MemberState::online,
                                  {},
                                  "{}"});
        }
        now_.vds.push_back(vd);
    }
    /// The next state, on those drives only; `id` tells states apart.
    void commit(const std::vector<int>& present, int id) {
        now_ = successor(now_);
        now_.id = uuid(0x1d, id);
        for (const int number : present) {
            now_.drives.at(static_cast<std::size_t>(number)).attempted.push_back(now_.id);
        }
        for (const int number : present) {
            drives_.at(static_cast<std::size_t>(number)) = now_;
        }
        for (const int number : present) {
            auto& known = now_.drives.at(static_cast<std::size_t>(number));
            known.acknowledged = now_.id;
            known.attempted.clear();
        }
    }
    void set_state(int vd, int row, MemberState state) {
        find_vd(now_, vd)->members.at(static_cast<std::size_t>(row)).state = state;
    }
    [[nodiscard]] FoundDrive found(int number) const {
        const auto& known = now_.drives.at(static_cast<std::size_t>(number));
        FoundDrive drive;
        drive.identity.name = fmt::format("nvme{}n1", known.serial);
        drive.identity.slot = number;
        drive.identity.serial = known.serial;
        drive.identity.identity = known.serial;
        drive.answered = true;
        drive.label = Label{now_.controller, known.uuid, 3 * GiB, {GiB, GiB}, 512};
        drive.configuration = drives_.at(static_cast<std::size_t>(number));
        if (drive.configuration && drive.configuration->id.is_nil()) {
            drive.configuration.reset();
        }
        return drive;
    }
    [[nodiscard]] std::vector<FoundDrive> found(const std::vector<int>& numbers) const {
        std::vector<FoundDrive> drives;
        drives.reserve(numbers.size());
        for (const int number : numbers) {
            drives.push_back(found(number));
        }
        return drives;
    }
    Configuration& now() { return now_; }

  private:
    Configuration now_;
    std::vector<Configuration> drives_;
};

History choose(const std::vector<FoundDrive>& drives) {
    return choose_history(drives, {}, false);
}

std::vector<FoundDrive> operator+(std::vector<FoundDrive> a, const std::vector<FoundDrive>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

}  // namespace

TEST_CASE("history: no drives, no labels, no configuration: nothing to follow, nothing refused") {
    CHECK(choose({}).configuration.controller.is_nil());
    FoundDrive blank;
    blank.answered = true;
    auto chosen = choose({blank});
    CHECK_FALSE(chosen.refusal);
    CHECK(chosen.configuration.controller.is_nil());
    // Labelled and no more: what a create that was killed leaves.
    const Site site(2);
    chosen = choose(site.found({0, 1}));
    CHECK_FALSE(chosen.refusal);
    CHECK(chosen.configuration.controller == controller_uuid(1));
    CHECK(chosen.configuration.id.is_nil());
    CHECK(chosen.behind.size() == 2);
}

TEST_CASE("history: the newest state counts, wherever it is") {
    for (int newest = 0; newest < 4; ++newest) {
        Site site(4);
        site.add_vd(1, {0, 1, 2, 3});
        site.commit({0, 1, 2, 3}, 1);
        site.commit({newest}, 2);
        const auto chosen = choose(site.found({0, 1, 2, 3}));
        CHECK_FALSE(chosen.refusal);
        CHECK(chosen.configuration.id == uuid(0x1d, 2));
        CHECK(chosen.others.empty());
        CHECK(chosen.diverged.empty());
        CHECK(chosen.behind.size() == 3);
    }
}

TEST_CASE("history: a drive away for 200 changes comes back as behind, not as foreign") {
    Site site(4);
    site.add_vd(1, {0, 1, 2, 3}, RaidLevel::raid6);
    site.commit({0, 1, 2, 3}, 1);
    site.set_state(1, 3, MemberState::missing);
    for (int change = 2; change < 202; ++change) {
        site.commit({0, 1, 2}, change);
    }
    const auto chosen = choose(site.found({0, 1, 2, 3}));
    CHECK(chosen.configuration.id == uuid(0x1d, 201));
    CHECK(chosen.others.empty());
    CHECK(chosen.diverged.empty());
    CHECK(chosen.behind == std::vector{site.found(3).label->drive});
}

TEST_CASE("history: a write that was never answered is our past as well") {
    Site site(3);
    site.add_vd(1, {0, 1, 2}, RaidLevel::raid5);
    site.commit({0, 1, 2}, 1);
    // Drive 2 took the second state, and nobody learned of it: it is only known to be attempted.
    site.commit({0, 1, 2}, 2);
    site.now().drives[2].acknowledged = uuid(0x1d, 1);
    site.now().drives[2].attempted = {uuid(0x1d, 2)};
    for (int change = 3; change < 10; ++change) {
        site.commit({0, 1}, change);
    }
    const auto chosen = choose(site.found({0, 1, 2}));
    CHECK(chosen.others.empty());
    CHECK(chosen.behind.size() == 1);
}

TEST_CASE("history: two halves that ran apart are both foreign and never merged (failures 11)") {
    for (const auto level : {RaidLevel::raid1, RaidLevel::raid10, RaidLevel::raid6}) {
        CAPTURE(to_string(level));
        Site one(4);
        one.add_vd(1, {0, 1, 2, 3}, level);
        one.commit({0, 1, 2, 3}, 1);
        auto two = one;
        for (const int row : {2, 3}) {
            one.set_state(1, row, MemberState::missing);
            two.set_state(1, row - 2, MemberState::missing);
        }
        one.commit({0, 1}, 10);
        two.commit({2, 3}, 20);
        SECTION("after one change each " + to_string(level)) {}
        SECTION("after many on one side " + to_string(level)) {
            for (int change = 21; change < 60; ++change) {
                two.commit({2, 3}, change);
            }
        }
        const auto together = one.found({0, 1}) + two.found({2, 3});
        const auto chosen = choose(together);
        REQUIRE(chosen.others.size() == 1);
        CHECK(chosen.others[0].drives.size() == 2);
        CHECK(chosen.diverged == std::set{1});
        CHECK(chosen.behind.empty());
        // Who runs with one side already stays with it; the other side is foreign all the same.
        const auto running = choose_history(together, one.now(), true);
        CHECK(running.configuration.id == one.now().id);
        CHECK(running.others.size() == 1);
        CHECK(running.diverged == std::set{1});
    }
}

TEST_CASE("history: a half that another drive's configuration has dropped must not start") {
    // The mirror's good half is away; a drive that is no member knows that this half was dropped.
    Site site(5);
    site.add_vd(1, {0, 1});
    site.commit({0, 1, 2, 3, 4}, 1);
    site.set_state(1, 1, MemberState::missing);
    site.commit({0, 2}, 2);
    // More drives hold the old state than the new one.
    const auto chosen = choose(site.found({1, 2, 3, 4}));
    CHECK(chosen.configuration.id == uuid(0x1d, 2));
    CHECK(chosen.configuration.vds[0].members[1].state == MemberState::missing);
}

TEST_CASE("history: groups are judged on their own members") {
    // Two drive groups; the second one's drives were in another machine and changed there.
    Site here(6);
    here.add_vd(1, {0, 1, 2}, RaidLevel::raid5);
    here.add_vd(2, {3, 4, 5}, RaidLevel::raid5);
    here.commit({0, 1, 2, 3, 4, 5}, 1);
    auto there = here;
    here.commit({0, 1, 2}, 10);
    there.set_state(2, 2, MemberState::failed);
    there.commit({3, 4, 5}, 20);
    const auto chosen = choose(here.found({0, 1, 2}) + there.found({3, 4, 5}));
    CHECK(chosen.diverged.empty());
    CHECK(chosen.others.empty());
    REQUIRE(chosen.configuration.vds.size() == 2);
    // What happened to the second group there counts.
    CHECK(find_vd(chosen.configuration, 2)->members[2].state == MemberState::failed);
    CHECK(find_vd(chosen.configuration, 1)->members[2].state == MemberState::online);
}

TEST_CASE("history: the controller with most drives is ours, others never decide") {
    Site ours(3);
    ours.add_vd(1, {0, 1, 2}, RaidLevel::raid5);
    ours.commit({0, 1, 2}, 1);
    Site guest(2, 9);
    guest.add_vd(7, {0, 1});
    for (int change = 1; change < 50; ++change) {
        guest.commit({0, 1}, 500 + change);
    }
    auto drives = guest.found({0, 1}) + ours.found({0, 1, 2});
    auto chosen = choose(drives);
    CHECK(chosen.configuration.controller == controller_uuid(1));
    REQUIRE(chosen.others.size() == 1);
    CHECK(chosen.others[0].drives.size() == 2);
    settle_identities(drives, chosen);
    CHECK(mentions(drives[0].content, "another controller"));
    CHECK(mentions(drives[0].content, "v7"));
    CHECK(drives[2].content.empty());
    // Who we are does not depend on how many guests there are.
    chosen = choose_history(guest.found({0, 1}) + ours.found(std::vector{0}), ours.now(), false);
    CHECK(chosen.configuration.controller == controller_uuid(1));
    // A tie is decided the same way whatever the order.
    CHECK(
        choose(guest.found(std::vector{0}) + ours.found(std::vector{0})).configuration.controller ==
        controller_uuid(1));
    CHECK(
        choose(ours.found(std::vector{0}) + guest.found(std::vector{0})).configuration.controller ==
        controller_uuid(1));
}

TEST_CASE("history: a foreign set with a stale drive is one configuration, not two (failures 49)") {
    Site ours(3);
    ours.add_vd(1, {0, 1, 2}, RaidLevel::raid5);
    ours.commit({0, 1, 2}, 1);
    Site guest(7, 9);
    guest.add_vd(7, {0, 1, 2, 3, 4, 5, 6}, RaidLevel::raid5);
    guest.commit({0, 1, 2, 3, 4, 5, 6}, 501);
    guest.set_state(7, 6, MemberState::missing);
    guest.commit({0, 1, 2, 3, 4}, 502);
    guest.commit({0, 1, 2, 3, 4}, 503);
    const auto chosen = choose_history(ours.found({0, 1, 2}) + guest.found({0, 1, 2, 3, 4, 5, 6}),
                                       ours.now(), true);
    REQUIRE(chosen.others.size() == 1);
    CHECK(chosen.others[0].drives.size() == 7);
    CHECK(chosen.others[0].configuration.id == uuid(0x1d, 503));
    // And an import accounts for all of them.
    const auto merged = with_group(ours.now(), chosen.others[0], 7);
    REQUIRE(merged);
    for (int number = 0; number < 7; ++number) {
        const auto drive = guest.found(number);
        CHECK(accounts_for(*merged, *drive.configuration, drive.label->drive));
    }
}

TEST_CASE("history: an import gives new numbers and names where ours are taken") {
    Site ours(3);
    ours.add_vd(7, {0, 1, 2}, RaidLevel::raid5);
    ours.now().vds[0].uuid = uuid(0x5e, 1);
    ours.commit({0, 1, 2}, 1);
    Site guest(2, 9);
    guest.add_vd(7, {0, 1});
    guest.commit({0, 1}, 501);
    const auto chosen =
        choose_history(ours.found({0, 1, 2}) + guest.found({0, 1}), ours.now(), true);
    REQUIRE(chosen.others.size() == 1);
    const auto merged = with_group(ours.now(), chosen.others[0], 7);
    REQUIRE(merged);
    REQUIRE(merged->vds.size() == 2);
    CHECK(merged->vds[0].name == "v7");
    CHECK(merged->vds[1].name == "v7-2");
    CHECK(merged->vds[1].id == 1);
    CHECK(merged->vds[1].group == 0);
    CHECK(merged->drives.size() == 5);
    // A VD that was deleted here never comes back by itself.
    auto deleted = ours.now();
    deleted.tombstones.push_back(uuid(0x5d, 7));
    CHECK_FALSE(with_group(deleted, chosen.others[0], 7));
}

TEST_CASE("history: a drive with a newer format stops everything, and is named") {
    Site site(3);
    site.commit({0, 1}, 1);
    auto drives = site.found({0, 1, 2});
    drives[2].trouble = Error{Errc::incompatible, "written by a newer Perch (version 2)"};
    auto chosen = choose(drives);
    REQUIRE(chosen.refusal);
    CHECK(mentions(*chosen.refusal, "s2 (SN SN102)"));
    CHECK(mentions(*chosen.refusal, "version 2"));
    // So does one whose label already is too new to be read.
    drives[2].label.reset();
    CHECK(choose(drives).refusal);
}

TEST_CASE("history: a damaged drive does not stop the others") {
    Site site(3);
    site.commit({0, 1, 2}, 9);
    auto drives = site.found({0, 1, 2});
    drives[2].configuration.reset();
    drives[2].trouble = Error{Errc::corrupt, "checksum"};
    const auto chosen = choose(drives);
    CHECK_FALSE(chosen.refusal);
    CHECK(chosen.configuration.id == uuid(0x1d, 9));
}

TEST_CASE("history: two drives with one label: the one that is known stays, a copy is unusable") {
    Site site(2);
    site.now().drives[0].identity = "original";
    site.commit({0, 1}, 1);
    auto drives = site.found({0, 1});
    drives[0].identity.identity = "original";
    drives.push_back(drives[0]);
    drives[2].identity.identity = "copy";
    const auto chosen = choose(drives);
    settle_identities(drives, chosen);
    CHECK(drives[0].label);
    CHECK_FALSE(drives[2].label);
    CHECK(mentions(drives[2].trouble->message, "a copy"));
}
