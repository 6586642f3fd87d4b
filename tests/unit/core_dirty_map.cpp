// SPDX-License-Identifier: GPL-2.0-or-later
// What the members' pages of the dirty map say together; tests/sim proves when bits are set.
#include <array>
#include <cstring>
#include <vector>

#include "catch.hpp"
#include "support/core.hpp"
#include "util/bytes.hpp"

namespace {

constexpr std::array<std::uint8_t, 16> uuid{7};
constexpr unsigned regions = PERCH_MAP_REGIONS_PER_PAGE + 10;

struct Map {
    Map() {
        dirty_map_init(&map, std::uint64_t{regions} * 128, 128, flags.data(), users.data(),
                       uuid.data());
    }
    [[nodiscard]] std::vector<std::uint64_t> unknown() {
        std::vector<std::uint64_t> found;
        for (auto region = dirty_map_next_unknown(&map, 0); region < map.regions;
             region = dirty_map_next_unknown(&map, region + 1)) {
            found.push_back(region);
        }
        return found;
    }
    std::vector<u8> flags = std::vector<u8>(regions);
    std::vector<u16> users = std::vector<u16>(regions);
    dirty_map map{};
};

perch_map_page make_page(unsigned index, const std::vector<unsigned>& dirty) {
    perch_map_page page{};
    std::memcpy(page.magic, PERCH_MAP_MAGIC, sizeof(page.magic));
    std::memcpy(page.vd_uuid, uuid.data(), uuid.size());
    page.page = htole32(index);
    for (const auto place : dirty) {
        page.bits[place / 4] =
            static_cast<std::uint8_t>(page.bits[place / 4] | 1U << (place % 4 * 2));
    }
    page.crc32c = htole32(perch::crc32c(std::as_bytes(std::span(&page, 1))));
    return page;
}

}  // namespace

TEST_CASE("core dirty map: what one member says is enough, on every page") {
    Map map;
    const auto one = make_page(0, {3});
    const auto two = make_page(0, {4, 9});
    const auto last = make_page(1, {0, 9});
    dirty_map_load(&map.map, 0, &one, false);
    dirty_map_load(&map.map, 0, &two, false);
    dirty_map_load(&map.map, 1, &last, false);
    CHECK(map.unknown() == std::vector<std::uint64_t>{3, 4, 9, PERCH_MAP_REGIONS_PER_PAGE,
                                                      PERCH_MAP_REGIONS_PER_PAGE + 9});
    CHECK_FALSE(dirty_map_parity_good(&map.map, 4));
    CHECK(dirty_map_parity_good(&map.map, 5));
}

TEST_CASE("core dirty map: a page that does not check says that all is dirty") {
    Map map;
    auto page = make_page(1, {});
    const perch_map_page* given = &page;
    SECTION("unreadable") {
        given = nullptr;
    }
    SECTION("a flipped bit") {
        page.bits[2000] ^= 1;
    }
    SECTION("zeros") {
        page = {};
    }
    SECTION("another page") {
        page = make_page(0, {});
    }
    SECTION("another VD's") {
        page.vd_uuid[15] ^= 1;
        page.crc32c = 0;
        page.crc32c = htole32(perch::crc32c(std::as_bytes(std::span(&page, 1))));
    }
    SECTION("another magic") {
        page.magic[7] ^= 1;
        page.crc32c = 0;
        page.crc32c = htole32(perch::crc32c(std::as_bytes(std::span(&page, 1))));
    }
    dirty_map_load(&map.map, 1, given, false);
    REQUIRE(map.unknown().size() == 10);
    CHECK(map.unknown().front() == PERCH_MAP_REGIONS_PER_PAGE);
}

TEST_CASE("core dirty map: after a clean stop a bit does not make parity doubtful, damage does") {
    Map map;
    const auto page = make_page(0, {3, 5});
    dirty_map_load(&map.map, 0, &page, true);
    CHECK(map.unknown().empty());
    CHECK(map.map.wanted == 2);
    dirty_map_load(&map.map, 1, nullptr, true);
    CHECK(map.unknown().size() == 10);
}

TEST_CASE("core dirty map: pages are written one after the other, and say what was read") {
    Map map;
    const auto first = make_page(0, {3, 16127});
    const auto second = make_page(1, {9});
    dirty_map_load(&map.map, 0, &first, false);
    dirty_map_load(&map.map, 1, &second, false);
    // What is dirty on one member is to be so on all before anything is written.
    perch_map_page page{};
    REQUIRE(dirty_map_next_set(&map.map, &page));
    CHECK(std::memcmp(&page, &first, sizeof(page)) == 0);
    perch_map_page other{};
    CHECK_FALSE(dirty_map_next_set(&map.map, &other));
    CHECK(dirty_map_written(&map.map) == nullptr);
    REQUIRE(dirty_map_next_set(&map.map, &page));
    CHECK(std::memcmp(&page, &second, sizeof(page)) == 0);
    CHECK(dirty_map_written(&map.map) == nullptr);
    CHECK_FALSE(dirty_map_next_set(&map.map, &page));
    // Nothing is cleared before it was resynced.
    for (int ticks = 0; ticks < 3; ++ticks) {
        CHECK_FALSE(dirty_map_tick(&map.map));
    }
    dirty_map_resynced(&map.map, 3);
    CHECK_FALSE(dirty_map_tick(&map.map));
    CHECK(dirty_map_tick(&map.map));
    REQUIRE(dirty_map_next_clear(&map.map, &page));
    const auto cleared = make_page(0, {16127});
    CHECK(std::memcmp(&page, &cleared, sizeof(page)) == 0);
}
