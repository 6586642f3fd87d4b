// SPDX-License-Identifier: GPL-2.0-or-later
// Which superblock counts, which epoch, and what may become of a member: tables. tests/sim proves
// that what is written leads to no other case.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "catch.hpp"
#include "support/core.hpp"
#include "util/bytes.hpp"

namespace {

constexpr std::array<std::uint8_t, 16> uuid{9};
constexpr unsigned members = 4;

struct Epoch {
    std::uint64_t number;
    std::uint8_t nonce;
    std::uint8_t parent;
    std::array<std::uint8_t, members> states;
};

constexpr std::uint8_t in_sync = PERCH_MEMBER_IN_SYNC;
constexpr std::uint8_t absent = PERCH_MEMBER_ABSENT;
constexpr std::uint8_t failed = PERCH_MEMBER_FAILED;
constexpr Epoch all{1, 1, 0, {in_sync, in_sync, in_sync, in_sync}};
constexpr Epoch without_0{2, 2, 1, {failed, in_sync, in_sync, in_sync}};
constexpr Epoch without_0_and_1{3, 3, 2, {failed, absent, in_sync, in_sync}};
constexpr Epoch without_2_and_3{2, 4, 1, {in_sync, in_sync, absent, absent}};

perch_superblock make(unsigned row, const Epoch& epoch, std::uint64_t counter = 1) {
    perch_superblock superblock{};
    std::memcpy(superblock.magic, PERCH_SUPERBLOCK_MAGIC, sizeof(superblock.magic));
    superblock.version = htole32(PERCH_SUPERBLOCK_VERSION);
    std::memcpy(superblock.vd_uuid, uuid.data(), uuid.size());
    superblock.instance[0] = static_cast<std::uint8_t>(row + 1);
    superblock.epoch_number = htole64(epoch.number);
    superblock.epoch_nonce[0] = epoch.nonce;
    superblock.epoch_parent_nonce[0] = epoch.parent;
    superblock.row = htole32(row);
    superblock.members = htole32(members);
    superblock.owner = htole32(PERCH_OWNER_PERCH);
    superblock.entries = htole32(members);
    for (unsigned i = 0; i < members; ++i) {
        superblock.member[i].instance[0] = static_cast<std::uint8_t>(i + 1);
        superblock.member[i].row = htole16(static_cast<std::uint16_t>(i));
        superblock.member[i].state = epoch.states[i];
    }
    superblock_seal(&superblock, counter);
    return superblock;
}

/// What the members carry; nullptr: not there.
struct Found {
    explicit Found(const std::array<const Epoch*, members>& epochs) {
        for (unsigned row = 0; row < members; ++row) {
            if (epochs[row] != nullptr) {
                superblocks[row] = std::make_unique<perch_superblock>(make(row, *epochs[row]));
            }
            found[row] = superblocks[row].get();
        }
    }
    superblock_choice choose() {
        return superblock_choose(found.data(), damaged.data(), members, &chosen);
    }
    std::uint64_t number() const { return superblock_epoch(found[chosen]).number; }

    std::array<std::unique_ptr<perch_superblock>, members> superblocks;
    std::array<const perch_superblock*, members> found{};
    std::array<bool, members> damaged{};
    std::uint32_t chosen = 0;
};

superblock_copies pick(const perch_superblock& copy0, const perch_superblock& copy1) {
    return superblock_pick(&copy0, &copy1, uuid.data(), 1, members);
}

void reseal(perch_superblock& superblock) {
    superblock_seal(&superblock, le64toh(superblock.update_counter));
}

}  // namespace

TEST_CASE("core superblock: the checksum is the format's") {
    auto superblock = make(1, all);
    const auto crc = superblock.crc32c;
    superblock.crc32c = 0;
    CHECK(le32toh(crc) == perch::crc32c(std::as_bytes(std::span(&superblock, 1))));
    // The same by the portable way, at every length that could matter.
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&superblock) + 3;
    for (std::size_t count = 0; count < 40; ++count) {
        CHECK(env_crc32c(~0U, bytes, count) == env_crc32c_portable(~0U, bytes, count));
    }
}

TEST_CASE("core superblock: the newer valid copy counts, and is never replaced by an older truth") {
    const auto older = make(1, all, 6);
    const auto newer = make(1, without_0, 7);
    const perch_superblock empty{};
    CHECK(pick(older, newer).counts == 1);
    CHECK(pick(newer, older).counts == 0);
    CHECK_FALSE(pick(newer, older).damaged);
    CHECK(pick(older, empty).counts == 0);
    CHECK_FALSE(pick(older, empty).damaged);
    CHECK(pick(empty, empty).counts == -1);

    auto torn = newer;
    torn.member[2].state = absent;
    CHECK(pick(older, torn).counts == 0);
    CHECK(pick(older, torn).damaged);
    CHECK(pick(torn, torn).counts == -1);

    // What this version does not understand: not the older one in its stead.
    const auto changed = [&](auto change) {
        auto strange = newer;
        change(strange);
        reseal(strange);
        return pick(older, strange);
    };
    const auto refusal = [&](auto change) {
        CHECK(changed(change).counts == -1);
        return changed(change).refusal;
    };
    CHECK(refusal([](auto& s) { s.version = htole32(2); }) == SUPERBLOCK_OF_NEWER_VERSION);
    CHECK(refusal([](auto& s) { s.feature_incompat = 1; }) == SUPERBLOCK_OF_NEWER_VERSION);
    CHECK(refusal([](auto& s) { s.feature_ro_compat = 1; }) == SUPERBLOCK_OF_NEWER_VERSION);
    CHECK(refusal([](auto& s) { s.owner = htole32(PERCH_OWNER_DM_RAID); }) ==
          SUPERBLOCK_OF_OTHER_OWNER);
    CHECK(refusal([](auto& s) { s.flags = htole32(PERCH_SUPERBLOCK_TOMBSTONE); }) ==
          SUPERBLOCK_OF_DELETED_VD);
    // What does not hold together is no superblock, and says nothing.
    CHECK(refusal([](auto& s) { s.members = htole32(5); }) == SUPERBLOCK_ACCEPTED);
    CHECK(refusal([](auto& s) { s.entries = htole32(5); }) == SUPERBLOCK_ACCEPTED);
    CHECK(refusal([](auto& s) { s.member[2].row = htole16(1); }) == SUPERBLOCK_ACCEPTED);
    CHECK(refusal([](auto& s) { s.member[2].state = 5; }) == SUPERBLOCK_ACCEPTED);
    CHECK(refusal([](auto& s) { s.member[2].state = 0; }) == SUPERBLOCK_ACCEPTED);
    CHECK(changed([](auto& s) { s.feature_compat = 1; }).counts == 1);
    // Another VD's, another row's.
    auto strange = newer;
    strange.vd_uuid[3] = 1;
    reseal(strange);
    CHECK(pick(older, strange).counts == 0);
    CHECK(pick(make(2, all), make(3, all)).counts == -1);
}

TEST_CASE("core superblock: the newest epoch counts, unless a member in sync has not got it") {
    Found same({&all, &all, &all, &all});
    CHECK(same.choose() == SUPERBLOCK_CHOSEN);
    CHECK(same.number() == 1);

    // Everybody who counts has the new one; who was dropped has not.
    Found dropped({&all, &without_0, &without_0, &without_0});
    CHECK(dropped.choose() == SUPERBLOCK_CHOSEN);
    CHECK(dropped.number() == 2);
    CHECK(superblock_state(dropped.found[dropped.chosen], dropped.found[0]) == failed);

    // Cut off: one in sync has its parent.
    Found cut_off({&all, &without_0, &all, &all});
    CHECK(cut_off.choose() == SUPERBLOCK_CHOSEN);
    CHECK(cut_off.number() == 1);
    // It is not there: nobody can say that it was.
    Found unseen({&all, &without_0, nullptr, nullptr});
    CHECK(unseen.choose() == SUPERBLOCK_CHOSEN);
    CHECK(unseen.number() == 2);

    // One epoch after the other.
    Found twice({&all, &without_0, &without_0_and_1, &without_0_and_1});
    CHECK(twice.choose() == SUPERBLOCK_CHOSEN);
    CHECK(twice.number() == 3);
    Found half({&all, &without_0, &without_0_and_1, &without_0});
    CHECK(half.choose() == SUPERBLOCK_CHOSEN);
    CHECK(half.number() == 2);

    Found nobody({nullptr, nullptr, nullptr, nullptr});
    CHECK(nobody.choose() == SUPERBLOCK_NONE);
    constexpr Epoch never{0, 0, 0, {}};
    Found fresh({&never, &all, &all, &all});
    CHECK(fresh.choose() == SUPERBLOCK_CHOSEN);
    CHECK(fresh.number() == 1);
}

TEST_CASE(
    "core superblock: an epoch that was cut off is none beside another one of the same parent") {
    // The start was cut off when only member 0 had its epoch; then the others started without it.
    constexpr Epoch cut_off{2, 9, all.nonce, {in_sync, in_sync, in_sync, in_sync}};
    Found returned({&cut_off, &without_0, &without_0, &without_0});
    CHECK(returned.choose() == SUPERBLOCK_CHOSEN);
    CHECK(returned.chosen == 1);
    // What it says of others has never counted.
    constexpr Epoch blames{2, 9, all.nonce, {in_sync, failed, in_sync, in_sync}};
    Found blaming({&blames, &without_0, &without_0, &without_0});
    CHECK(blaming.choose() == SUPERBLOCK_CHOSEN);
    CHECK(blaming.chosen == 1);
    // Both were cut off.
    Found both({&cut_off, &without_0, &all, &all});
    CHECK(both.choose() == SUPERBLOCK_CHOSEN);
    CHECK(both.number() == 1);
    // Start after start was cut off, each without the member that had not got the epoch before.
    constexpr Epoch first{2, 9, all.nonce, {in_sync, in_sync, in_sync, in_sync}};
    constexpr Epoch second{3, 10, first.nonce, {in_sync, in_sync, in_sync, absent}};
    constexpr Epoch third{4, 11, second.nonce, {in_sync, in_sync, absent, absent}};
    Found chain({&third, &second, &first, &all});
    CHECK(chain.choose() == SUPERBLOCK_CHOSEN);
    CHECK(chain.number() == 1);
    // The second one was not.
    Found acted({&third, &second, &second, &all});
    CHECK(acted.choose() == SUPERBLOCK_CHOSEN);
    CHECK(acted.number() == 3);
    // A damaged copy was not the other one's.
    Found damaged({&cut_off, &without_0, nullptr, nullptr});
    damaged.damaged[1] = true;
    CHECK(damaged.choose() == SUPERBLOCK_CHOSEN);
    CHECK(damaged.chosen == 1);
}

TEST_CASE("core superblock: a member with a damaged copy is no witness against a newer epoch") {
    Found rotten({&all, &without_0, &all, &without_0});
    rotten.damaged[2] = true;
    CHECK(rotten.choose() == SUPERBLOCK_CHOSEN);
    CHECK(rotten.number() == 2);
}

TEST_CASE("core superblock: members that ran apart are two histories, whoever counted further") {
    Found apart({&without_2_and_3, &without_2_and_3, &without_0_and_1, &without_0_and_1});
    CHECK(apart.choose() == SUPERBLOCK_TWO_HISTORIES);
    Found one_each({&without_2_and_3, nullptr, nullptr, &without_0_and_1});
    CHECK(one_each.choose() == SUPERBLOCK_TWO_HISTORIES);
    // Each alone is a history.
    Found alone({nullptr, nullptr, &without_0_and_1, &without_0_and_1});
    CHECK(alone.choose() == SUPERBLOCK_CHOSEN);
    // Epochs that have nothing to do with each other.
    constexpr Epoch stranger{7, 7, 6, {in_sync, in_sync, in_sync, in_sync}};
    Found strange({&stranger, &all, &all, &all});
    CHECK(strange.choose() == SUPERBLOCK_TWO_HISTORIES);
}

TEST_CASE("core superblock: clean is what everybody who carries the epoch says") {
    Found found({&all, &without_0, &without_0, &without_0});
    REQUIRE(found.choose() == SUPERBLOCK_CHOSEN);
    CHECK_FALSE(superblock_clean(found.found.data(), members, found.chosen));
    for (unsigned row = 1; row < members; ++row) {
        CHECK_FALSE(superblock_clean(found.found.data(), members, found.chosen));
        found.superblocks[row]->flags = htole32(PERCH_SUPERBLOCK_CLEAN);
    }
    CHECK(superblock_clean(found.found.data(), members, found.chosen));

    // Member 0 was rebuilt, but the epoch that says so never reached it; nor was anything stopped.
    constexpr Epoch rebuilding{4, 12, 3, {PERCH_MEMBER_REBUILDING, in_sync, in_sync, in_sync}};
    constexpr Epoch rebuilt{5, 13, rebuilding.nonce, {in_sync, in_sync, in_sync, in_sync}};
    Found cut_off({&rebuilding, &rebuilt, &rebuilt, &rebuilt});
    REQUIRE(cut_off.choose() == SUPERBLOCK_CHOSEN);
    CHECK(cut_off.number() == 4);
    CHECK_FALSE(superblock_clean(cut_off.found.data(), members, cut_off.chosen));
}

TEST_CASE("core member: trust is lost at once, and gained by a rebuild alone") {
    constexpr std::uint8_t rebuilding = PERCH_MEMBER_REBUILDING;
    constexpr std::uint8_t unused = PERCH_MEMBER_UNUSED;
    const std::vector<std::pair<std::uint8_t, std::uint8_t>> legal{
        {unused, absent},      {unused, in_sync},    {unused, rebuilding},
        {unused, failed},      {in_sync, absent},    {in_sync, failed},
        {rebuilding, in_sync}, {rebuilding, absent}, {rebuilding, failed}};
    for (std::uint8_t from = 0; from <= failed; ++from) {
        for (std::uint8_t to = 0; to <= failed; ++to) {
            const bool listed = from == to || std::find(legal.begin(), legal.end(),
                                                        std::pair(from, to)) != legal.end();
            CAPTURE(from, to);
            CHECK(member_may_become(from, to) == listed);
        }
    }
}
