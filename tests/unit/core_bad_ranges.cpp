// SPDX-License-Identifier: GPL-2.0-or-later
// The list of what is lost, and its pages; tests/sim proves when they are written.
#include <array>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "catch.hpp"
#include "support/core.hpp"
#include "util/bytes.hpp"

namespace {

constexpr std::array<std::uint8_t, 16> uuid{7};
constexpr u32 half_sectors = PERCH_BAD_COPY_STRIDE / SECTOR_BYTES;

struct List {
    explicit List(u32 count = 2) : pages(count) {
        bad_ranges_init(&bad, pages.data(), count, uuid.data());
    }
    /// All pages that are to be written, in order.
    std::vector<perch_bad_page> write() {
        std::vector<perch_bad_page> written;
        perch_bad_page page;
        while (bad_ranges_next(&bad, &page)) {
            written.push_back(page);
            bad_ranges_put(&bad, 0);
            CHECK(bad_ranges_written(&bad) == nullptr);
        }
        return written;
    }
    std::vector<perch_bad_page> pages;
    bad_ranges bad{};
};

std::set<std::uint64_t> listed(List& list, std::uint64_t end) {
    std::set<std::uint64_t> found;
    for (std::uint64_t sector = 0; sector < end; ++sector) {
        if (bad_ranges_overlap(&list.bad, sector, 1)) {
            found.insert(sector);
        }
    }
    return found;
}

const perch_bad_page zeros{};

}  // namespace

TEST_CASE("core bad ranges: the list holds exactly what was put on it and not taken off") {
    List list;
    std::mt19937 random(1);
    std::set<std::uint64_t> expected;
    for (int i = 0; i < 4000; ++i) {
        const auto sector = random() % 400;
        const auto sectors = static_cast<u32>(1 + random() % 20);
        const bool add = random() % 2 == 0;
        REQUIRE((add ? bad_ranges_add(&list.bad, sector, sectors, PERCH_BAD_LOST)
                     : bad_ranges_remove(&list.bad, sector, sectors)));
        for (auto one = sector; one < sector + sectors; ++one) {
            add ? (void)expected.insert(one) : (void)expected.erase(one);
        }
        REQUIRE(listed(list, 420) == expected);
        const auto any = expected.lower_bound(sector);
        REQUIRE(bad_ranges_overlap(&list.bad, sector, sectors) ==
                (any != expected.end() && *any < sector + sectors));
    }
    CHECK(bad_ranges_remove(&list.bad, 0, 420));
    CHECK(list.bad.count == 0);
}

TEST_CASE("core bad ranges: neighbours become one range") {
    List list;
    for (unsigned sector = 0; sector < 5000; sector += 8) {
        REQUIRE(bad_ranges_add(&list.bad, sector, 8, PERCH_BAD_LOST));
    }
    CHECK(list.bad.count == 1);
    CHECK(bad_ranges_add(&list.bad, 5000, 8, PERCH_BAD_UNDEFINED));
    CHECK(list.bad.count == 2);
}

TEST_CASE("core bad ranges: a full list takes nothing more, and nothing is forgotten") {
    List list;
    std::uint64_t next = 0;
    while (bad_ranges_add(&list.bad, next, 3, PERCH_BAD_LOST)) {
        next += 10;
    }
    CHECK(next / 10 == 2 * (PERCH_BAD_RANGES_PER_PAGE / 4 * 3));
    // Ranges are cut in two as long as there is room.
    std::uint64_t cut = 0;
    while (cut < next && bad_ranges_remove(&list.bad, cut + 1, 1)) {
        cut += 10;
    }
    CHECK(cut / 10 >= PERCH_BAD_RANGES_PER_PAGE / 4);
    REQUIRE(cut < next);
    CHECK(bad_ranges_overlap(&list.bad, cut + 1, 1));
    // What makes no range more always works.
    CHECK(bad_ranges_remove(&list.bad, 0, static_cast<u32>(cut + 2)));
    CHECK(bad_ranges_add(&list.bad, next, 3, PERCH_BAD_LOST));
}

TEST_CASE("core bad ranges: the newest page of all members counts, and goes over the older half") {
    List list;
    REQUIRE(bad_ranges_add(&list.bad, 5, 2, PERCH_BAD_LOST));
    const auto first = list.write();
    REQUIRE(first.size() == 1);
    REQUIRE(bad_ranges_add(&list.bad, 50, 2, PERCH_BAD_LOST));
    const auto second = list.write();
    REQUIRE(second.size() == 1);
    CHECK(list.write().empty());

    List found;
    bad_ranges_load(&found.bad, 0, 0, &first[0], &zeros);
    bad_ranges_load(&found.bad, 1, 0, &first[0], &second[0]);
    bad_ranges_load(&found.bad, 2, 0, &zeros, &zeros);
    bad_ranges_load(&found.bad, 3, 0, &second[0], &first[0]);
    CHECK(bad_ranges_loaded(&found.bad));
    CHECK(listed(found, 100) == std::set<std::uint64_t>{5, 6, 50, 51});
    // Some have not got it: it is written to all, as a newer one, over what does not count.
    CHECK(!bad_ranges_is_written(&found.bad));
    perch_bad_page page;
    REQUIRE(bad_ranges_next(&found.bad, &page));
    CHECK(page.update_counter > second[0].update_counter);
    CHECK(bad_ranges_sector(&found.bad, 0) == half_sectors);
    CHECK(bad_ranges_sector(&found.bad, 1) == 0);
    CHECK(bad_ranges_sector(&found.bad, 3) == half_sectors);
    bad_ranges_put(&found.bad, 1);
    CHECK(bad_ranges_sector(&found.bad, 1) == half_sectors);
    CHECK(!bad_ranges_is_written(&found.bad));
    CHECK(bad_ranges_written(&found.bad) == nullptr);
    CHECK(bad_ranges_is_written(&found.bad));
}

TEST_CASE("core bad ranges: a torn page leaves the other half; damage everywhere is found out") {
    List list;
    REQUIRE(bad_ranges_add(&list.bad, 5, 2, PERCH_BAD_LOST));
    const auto good = list.write().at(0);
    auto torn = good;
    torn.ranges[3].reason ^= htole32(1);
    auto stranger = good;
    stranger.vd_uuid[0] ^= 1;
    auto elsewhere = good;
    elsewhere.page = htole32(1);

    List other_half;
    bad_ranges_load(&other_half.bad, 0, 0, &torn, &good);
    CHECK(bad_ranges_loaded(&other_half.bad));
    CHECK(bad_ranges_overlap(&other_half.bad, 6, 1));

    List first_ever;
    bad_ranges_load(&first_ever.bad, 0, 0, &zeros, &torn);
    CHECK(bad_ranges_loaded(&first_ever.bad));
    CHECK(first_ever.bad.count == 0);

    // A drive that goes away while its VD starts does not hold up the others, who have no list.
    List no_list;
    bad_ranges_load(&no_list.bad, 0, 0, &torn, &torn);
    CHECK(!bad_ranges_loaded(&no_list.bad));
    bad_ranges_load(&no_list.bad, 1, 0, &zeros, &zeros);
    CHECK(bad_ranges_loaded(&no_list.bad));
    CHECK(no_list.bad.count == 0);

    for (const auto* bad : {&torn, &stranger, &elsewhere}) {
        List damaged;
        bad_ranges_load(&damaged.bad, 0, 0, bad, bad);
        CHECK(!bad_ranges_loaded(&damaged.bad));
        bad_ranges_load(&damaged.bad, 1, 0, &good, bad);
        CHECK(bad_ranges_loaded(&damaged.bad));
    }
}
