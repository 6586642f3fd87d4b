// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/superblock.hpp"

#include <functional>
#include <map>
#include <optional>

#include "catch.hpp"
#include "support/hex_dump.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

constexpr std::uint64_t extent = GiB + 9 * MiB;

Uuid uuid(std::string_view text) {
    return *Uuid::parse(text);
}

/// A member of a RAID6 that uses every field.
Superblock sample() {
    Superblock superblock;
    superblock.vd = uuid("5d000000-0000-4000-8000-000000000001");
    superblock.instance = uuid("a0000000-0000-4000-8000-000000000002");
    superblock.controller = uuid("c0c0c0c0-0001-4002-8003-000000000004");
    superblock.update_counter = 77;
    superblock.epoch = {12, uuid("e0000000-0000-4000-8000-00000000000c"),
                        uuid("e0000000-0000-4000-8000-00000000000b")};
    superblock.log_generation = 9;
    superblock.row = 2;
    superblock.shape = {RaidLevel::raid6, 4, 4};
    superblock.owner = EngineKind::perch;
    superblock.clean = true;
    superblock.strip_bytes = 64 * KiB;
    superblock.block_bytes = 4096;
    superblock.data_bytes = 900 * GiB;
    superblock.vd_bytes = 1800 * GiB;
    superblock.region_bytes = 4 * MiB;
    superblock.data_offset = 280 * MiB;
    superblock.tasks = {{TaskKind::rebuild, 3, 17 * GiB},
                        {TaskKind::patrol, std::nullopt, 5 * GiB}};
    superblock.members = {
        {uuid("a0000000-0000-4000-8000-000000000000"), 0, SyncState::in_sync, true, 0},
        {Uuid(), 1, SyncState::absent, false, 0},
        {uuid("a0000000-0000-4000-8000-000000000002"), 2, SyncState::in_sync, false, 0},
        {uuid("a0000000-0000-4000-8000-000000000003"), 3, SyncState::rebuilding, false, 17 * GiB},
        {uuid("a0000000-0000-4000-8000-000000000004"), 3, SyncState::failed, true, 0},
    };
    return superblock;
}

/// States that differ in the first sector and in one of the middle, so that a part of each is none.
Superblock with_epoch(std::uint64_t number) {
    auto superblock = sample();
    superblock.epoch.number = number;
    superblock.members[3].recovered_bytes = number * MiB;
    return superblock;
}

/// The checksum made right again after an edit, as another program would write it.
Bytes sealed(Bytes bytes) {
    constexpr std::size_t crc_place = offsetof(perch_superblock, crc32c);
    const std::uint32_t nothing = 0;
    std::memcpy(bytes.data() + crc_place, &nothing, sizeof(nothing));
    const auto sum = htole32(crc32c(bytes));
    std::memcpy(bytes.data() + crc_place, &sum, sizeof(sum));
    return bytes;
}

template <typename T>
Bytes with(std::size_t place, T value) {
    auto bytes = *encode_superblock(sample());
    std::memcpy(bytes.data() + place, &value, sizeof(value));
    return sealed(std::move(bytes));
}

/// One superblock extent that loses power in the middle of a write: what was written of it by then
/// are some of its sectors.
class SectorDevice final : public BlockDevice {
  public:
    struct PowerCut {};

    [[nodiscard]] std::uint64_t size() const override { return 4 * GiB; }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override {
        if (unreadable && *unreadable >= offset && *unreadable < offset + length) {
            return fail(Errc::io, "unreadable");
        }
        Bytes bytes(length);
        for (std::uint64_t done = 0; done < length; done += sector_bytes) {
            if (const auto sector = sectors.find(offset + done); sector != sectors.end()) {
                std::copy(sector->second.begin(), sector->second.end(),
                          bytes.begin() + static_cast<std::ptrdiff_t>(done));
            }
        }
        return bytes;
    }
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override {
        REQUIRE(offset % PERCH_METADATA_UNIT == 0);
        REQUIRE(bytes.size() == PERCH_SUPERBLOCK_BYTES);
        const bool cut = writes_left == 0;
        --writes_left;
        ++writes;
        for (std::uint64_t i = 0; i < bytes.size() / sector_bytes; ++i) {
            if (!cut || survives(i)) {
                const auto sector = bytes.subspan(i * sector_bytes, sector_bytes);
                sectors[offset + i * sector_bytes] = {sector.begin(), sector.end()};
            }
        }
        if (cut) {
            throw PowerCut();
        }
        return {};
    }
    Result<void> zero(std::uint64_t /*offset*/, std::uint64_t /*length*/) override {
        return fail(Errc::internal, "a superblock is never zeroed by its writer");
    }

    std::map<std::uint64_t, Bytes> sectors;
    std::optional<std::uint64_t> unreadable;
    int writes_left = -1;  ///< complete ones before power is cut; never when negative
    int writes = 0;
    std::function<bool(std::uint64_t)> survives = [](std::uint64_t) { return false; };
};

constexpr std::uint64_t copy_sectors = PERCH_SUPERBLOCK_BYTES / sector_bytes;

/// Ways in which a write can be torn: the first n sectors got there, the last n, all but one.
std::vector<std::function<bool(std::uint64_t)>> tears() {
    std::vector<std::function<bool(std::uint64_t)>> result;
    for (std::uint64_t n = 0; n <= copy_sectors; ++n) {
        result.emplace_back([n](std::uint64_t sector) { return sector < n; });
        result.emplace_back([n](std::uint64_t sector) { return sector >= n; });
        result.emplace_back([n](std::uint64_t sector) { return sector != n; });
    }
    return result;
}

std::optional<Superblock> read(SectorDevice& device) {
    const auto found = read_superblock(device, extent);
    if (!found) {
        FAIL(found.error().message);
    }
    return *found;
}

}  // namespace

TEST_CASE("superblock: what is written is read") {
    const auto bytes = encode_superblock(sample());
    REQUIRE(bytes);
    CHECK(bytes->size() == PERCH_SUPERBLOCK_BYTES);
    CHECK(*decode_superblock(*bytes) == sample());

    // Every level, and as many members as there can be.
    for (const auto level : raid_levels()) {
        auto superblock = sample();
        superblock.shape = {level, 256, 8};
        superblock.row = 255;
        superblock.members.clear();
        for (std::uint32_t row = 0; row < 256; ++row) {
            superblock.members.push_back({Uuid::random(), row, SyncState::in_sync, false, 0});
        }
        superblock.tombstone = true;
        superblock.clean = false;
        superblock.owner = EngineKind::dm_raid;
        const auto again = encode_superblock(superblock);
        REQUIRE(again);
        CHECK(*decode_superblock(*again) == superblock);
    }
}

TEST_CASE("superblock: the bytes of version 1 are read and written for ever") {
    const auto golden = parse_hex_dump(read_text(PERCH_GOLDEN_DIR "/superblock-v1.hex"));
    CHECK(*decode_superblock(golden) == sample());
    CHECK(*encode_superblock(sample()) == golden);
}

TEST_CASE("superblock: damage to any byte is noticed") {
    const auto good = *encode_superblock(sample());
    // All of the header and of the members in use, and some of the rest.
    for (std::size_t place = 0; place < good.size();
         place += place < 400 || (place >= 8192 && place < 8400) ? 1 : 97) {
        CAPTURE(place);
        auto bytes = good;
        bytes[place] ^= std::byte{0x10};
        const auto found = decode_superblock(bytes);
        REQUIRE_FALSE(found);
        CHECK(found.error().code == Errc::corrupt);
    }
    CHECK(decode_superblock(std::span(good).first(8192)).error().code == Errc::corrupt);
    CHECK(decode_superblock({}).error().code == Errc::corrupt);
}

TEST_CASE("superblock: zeros are none, anything else is damage") {
    Bytes bytes(PERCH_SUPERBLOCK_BYTES);
    CHECK(decode_superblock(bytes).error().code == Errc::not_found);
    bytes.back() = std::byte{1};
    CHECK(decode_superblock(bytes).error().code == Errc::corrupt);
}

TEST_CASE("superblock: a newer version's is refused, compatible features are not") {
    const auto code_of = [](const Bytes& bytes) {
        const auto found = decode_superblock(bytes);
        return found ? std::nullopt : std::optional(found.error().code);
    };
    CHECK(code_of(with(offsetof(perch_superblock, version), htole32(2U))) == Errc::incompatible);
    CHECK(code_of(with(offsetof(perch_superblock, feature_incompat), htole64(1ULL << 40))) ==
          Errc::incompatible);
    CHECK(code_of(with(offsetof(perch_superblock, feature_ro_compat), htole64(1ULL))) ==
          Errc::incompatible);
    CHECK(code_of(with(offsetof(perch_superblock, feature_compat), htole64(6ULL))) == std::nullopt);
}

TEST_CASE("superblock: nonsense with a right checksum is refused") {
    const auto refused = [](const Bytes& bytes) {
        const auto found = decode_superblock(bytes);
        return !found && found.error().code == Errc::corrupt;
    };
    constexpr auto first = offsetof(perch_superblock, member);
    constexpr auto absent = first + sizeof(perch_member);
    CHECK(refused(with(offsetof(perch_superblock, members), htole32(0U))));
    CHECK(refused(with(offsetof(perch_superblock, members), htole32(257U))));
    CHECK(refused(with(offsetof(perch_superblock, members_per_span), htole32(3U))));
    CHECK(refused(with(offsetof(perch_superblock, members_per_span), htole32(0U))));
    CHECK(refused(with(offsetof(perch_superblock, row), htole32(4U))));
    CHECK(refused(with(offsetof(perch_superblock, level), htole32(2U))));
    CHECK(refused(with(offsetof(perch_superblock, owner), htole32(0U))));
    CHECK(refused(with(offsetof(perch_superblock, owner), htole32(3U))));
    CHECK(refused(with(offsetof(perch_superblock, flags), htole32(4U))));
    CHECK(refused(with(offsetof(perch_superblock, strip_bytes), htole32(96U * 1024))));
    CHECK(refused(with(offsetof(perch_superblock, block_bytes), htole32(1024U))));
    CHECK(refused(with(offsetof(perch_superblock, vd_bytes), htole64(4096 * GiB))));
    CHECK(refused(with(offsetof(perch_superblock, data_offset), htole64(8 * MiB))));
    CHECK(refused(with(offsetof(perch_superblock, data_offset), htole64(280 * MiB + 4096))));
    CHECK(refused(with(offsetof(perch_superblock, data_bytes), htole64(~4095ULL))));
    CHECK(refused(with(offsetof(perch_superblock, region_bytes), htole64(3 * MiB))));
    CHECK(refused(with(offsetof(perch_superblock, update_counter), ~0ULL)));
    CHECK(refused(with(offsetof(perch_superblock, tasks), htole32(6U))));
    CHECK(refused(with(offsetof(perch_superblock, tasks) + 4, htole32(4U))));
    CHECK(refused(with(offsetof(perch_superblock, entries), htole32(257U))));
    // One entry more than there are: an unused one.
    CHECK(refused(with(offsetof(perch_superblock, entries), htole32(6U))));
    CHECK(refused(with(first + offsetof(perch_member, row), htole16(4))));
    CHECK(refused(with(first + offsetof(perch_member, state), std::uint8_t{5})));
    CHECK(refused(with(first + offsetof(perch_member, flags), std::uint8_t{2})));
    CHECK(refused(with(first + offsetof(perch_member, recovered_bytes), htole64(4096))));
    CHECK(refused(with(first + 3 * sizeof(perch_member) + offsetof(perch_member, recovered_bytes),
                       htole64(901 * GiB))));
    // Nobody cannot be in sync, and nobody is there twice.
    CHECK(refused(with(absent + offsetof(perch_member, state), std::uint8_t{2})));
    CHECK(refused(with(first, sample().members.back().instance.bytes)));
}

TEST_CASE("superblock: what would not be read back is not written") {
    const auto refused = [](const std::function<void(Superblock&)>& edit) {
        auto superblock = sample();
        edit(superblock);
        const auto bytes = encode_superblock(superblock);
        SectorDevice device;
        CHECK_FALSE(write_superblock(device, extent, superblock));
        return !bytes && bytes.error().code == Errc::invalid_argument && device.writes == 0;
    };
    CHECK(refused([](auto& s) { s.members.resize(257, s.members[1]); }));
    CHECK(refused([](auto& s) { s.tasks.resize(9); }));
    CHECK(refused([](auto& s) { s.shape.members = -1; }));
    CHECK(refused([](auto& s) { s.shape.per_span = 0; }));
    CHECK(refused([](auto& s) { s.row = 4; }));
    CHECK(refused([](auto& s) { s.members[0].row = 65536; }));
    CHECK(refused([](auto& s) { s.members[0].instance = Uuid(); }));
    CHECK(refused([](auto& s) { s.members[0].recovered_bytes = 1; }));
    CHECK(refused([](auto& s) { s.data_offset = 0; }));
}

TEST_CASE("superblock: the newest valid copy counts, and a writer spares it") {
    SectorDevice device;
    CHECK(read(device) == std::nullopt);
    for (std::uint64_t epoch = 1; epoch < 6; ++epoch) {
        REQUIRE(write_superblock(device, extent, with_epoch(epoch)));
        const auto found = read(device);
        REQUIRE(found);
        CHECK(found->epoch.number == epoch);
        // The first write filled both copies.
        CHECK(found->update_counter == epoch + 1);
        CHECK(device.writes == static_cast<int>(epoch) + 1);
    }
    // Any single copy can be lost: from the first write on there is another.
    for (const std::uint64_t copy : {0U, 1U}) {
        SectorDevice fresh;
        REQUIRE(write_superblock(fresh, extent, with_epoch(1)));
        const auto place = extent + copy * PERCH_SUPERBLOCK_COPY_STRIDE;
        fresh.sectors[place + 1024] = Bytes(sector_bytes, std::byte{0x5a});
        CHECK(read(fresh)->epoch.number == 1);
        REQUIRE(write_superblock(fresh, extent, with_epoch(2)));
        CHECK(read(fresh)->epoch.number == 2);
    }
}

TEST_CASE("superblock: a write torn anywhere leaves the state before or after it") {
    for (std::uint64_t before = 0; before < 4; ++before) {
        for (const auto& tear : tears()) {
            // The first write has two parts.
            for (int cut = 0; cut < (before == 0 ? 2 : 1); ++cut) {
                SectorDevice device;
                for (std::uint64_t epoch = 1; epoch <= before; ++epoch) {
                    REQUIRE(write_superblock(device, extent, with_epoch(epoch)));
                }
                device.writes_left = cut;
                device.survives = tear;
                CHECK_THROWS_AS(write_superblock(device, extent, with_epoch(before + 1)),
                                SectorDevice::PowerCut);
                device.writes_left = -1;
                const auto found = read(device);
                const auto number = found ? found->epoch.number : 0;
                CHECK((number == before || number == before + 1));
                // And life goes on.
                REQUIRE(write_superblock(device, extent, with_epoch(before + 2)));
                CHECK(read(device)->epoch.number == before + 2);
            }
        }
    }
}

TEST_CASE("superblock: two damaged copies are said, and can be written anew") {
    SectorDevice device;
    REQUIRE(write_superblock(device, extent, with_epoch(1)));
    for (const std::uint64_t copy : {0U, 1U}) {
        device.sectors[extent + copy * PERCH_SUPERBLOCK_COPY_STRIDE] =
            Bytes(sector_bytes, std::byte{0x5a});
    }
    CHECK(read_superblock(device, extent).error().code == Errc::corrupt);
    REQUIRE(write_superblock(device, extent, with_epoch(2)));
    CHECK(read(device)->epoch.number == 2);
    // The first copy wiped and the other damaged is no first write.
    for (std::uint64_t i = 0; i < copy_sectors; ++i) {
        device.sectors.erase(extent + i * sector_bytes);
    }
    device.sectors[extent + PERCH_SUPERBLOCK_COPY_STRIDE] = Bytes(sector_bytes, std::byte{0x5a});
    CHECK(read_superblock(device, extent).error().code == Errc::corrupt);
}

TEST_CASE("superblock: a copy of a newer version, or one that cannot be read, is not passed over") {
    SectorDevice device;
    REQUIRE(write_superblock(device, extent, with_epoch(1)));
    const auto copy = extent + GENERATE(0ULL, PERCH_SUPERBLOCK_COPY_STRIDE);
    device.writes = 0;
    SECTION("a newer version") {
        REQUIRE(device.write(copy, with(offsetof(perch_superblock, version), htole32(2U))));
        device.writes = 0;
        CHECK(read_superblock(device, extent).error().code == Errc::incompatible);
        CHECK(write_superblock(device, extent, with_epoch(2)).error().code == Errc::incompatible);
    }
    SECTION("unreadable") {
        device.unreadable = copy;
        CHECK(read_superblock(device, extent).error().code == Errc::io);
        CHECK(write_superblock(device, extent, with_epoch(2)).error().code == Errc::io);
    }
    CHECK(device.writes == 0);
}

TEST_CASE("superblock: another VD's or member's, or a deleted VD's, is not overwritten") {
    SectorDevice device;
    auto superblock = sample();
    REQUIRE(write_superblock(device, extent, superblock));
    auto other = superblock;
    other.vd = Uuid::random();
    CHECK(write_superblock(device, extent, other).error().code == Errc::wrong_state);
    other = superblock;
    other.instance = Uuid::random();
    CHECK(write_superblock(device, extent, other).error().code == Errc::wrong_state);

    superblock.tombstone = true;
    REQUIRE(write_superblock(device, extent, superblock));
    CHECK(write_superblock(device, extent, sample()).error().code == Errc::wrong_state);
    CHECK(read(device)->tombstone);
    // Repeating a delete that was cut off is fine.
    REQUIRE(write_superblock(device, extent, superblock));
}
