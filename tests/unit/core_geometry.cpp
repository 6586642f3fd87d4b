// SPDX-License-Identifier: GPL-2.0-or-later
// Where sectors lie, against md's arithmetic (raid5_compute_sector() in drivers/md/raid5.c,
// raid10.c and raid0.c of Linux 6.1), written anew here; tests/qemu/test_levels.py compares with md
// itself.
#include <map>
#include <set>
#include <vector>

#include "catch.hpp"
#include "support/core.hpp"

namespace {

struct Shape {
    geometry_level level;
    unsigned members;
    unsigned per_span;
};

/// Every number of members, up to 8 of a kind of span and at the limits.
std::vector<Shape> shapes() {
    std::vector<Shape> all;
    for (unsigned members = 1; members <= 9; ++members) {
        all.push_back({GEOMETRY_RAID0, members, members});
    }
    for (unsigned members = 2; members <= 4; ++members) {
        all.push_back({GEOMETRY_RAID1, members, members});
        all.push_back({GEOMETRY_RAID10, 2 * members, 2 * members});
    }
    for (unsigned members = 3; members <= 9; ++members) {
        all.push_back({GEOMETRY_RAID5, members, members});
        all.push_back({GEOMETRY_RAID50, 2 * members, members});
    }
    for (unsigned members = 4; members <= 9; ++members) {
        all.push_back({GEOMETRY_RAID6, members, members});
        all.push_back({GEOMETRY_RAID60, 3 * members, members});
    }
    all.push_back({GEOMETRY_RAID0, 256, 256});
    all.push_back({GEOMETRY_RAID5, 32, 32});
    all.push_back({GEOMETRY_RAID6, 32, 32});
    all.push_back({GEOMETRY_RAID60, 256, 32});
    return all;
}

struct Place {
    unsigned member;
    std::uint64_t sector;
    bool operator==(const Place&) const = default;
};

/// One md array of n members: place of its data sector.
Place md_place(geometry_level level, unsigned n, unsigned strip, std::uint64_t sector) {
    const auto chunk = sector / strip;
    const auto offset = sector % strip;
    if (level == GEOMETRY_RAID0) {
        return {static_cast<unsigned>(chunk % n), chunk / n * strip + offset};
    }
    if (level == GEOMETRY_RAID1) {
        return {0, sector};
    }
    if (level == GEOMETRY_RAID10) {
        const auto copy = chunk * 2;  // near copies follow each other over the members
        return {static_cast<unsigned>(copy % n), copy / n * strip + offset};
    }
    const unsigned parities = level == GEOMETRY_RAID5 || level == GEOMETRY_RAID50 ? 1 : 2;
    const auto data = n - parities;
    const auto stripe = chunk / data;
    const auto dd = static_cast<unsigned>(chunk % data);
    const auto pd = static_cast<unsigned>(data - stripe % n);
    if (parities == 1) {  // ALGORITHM_LEFT_SYMMETRIC
        return {(pd + 1 + dd) % n, stripe * strip + offset};
    }
    // ALGORITHM_ROTATING_N_CONTINUE
    const auto p = static_cast<unsigned>(n - 1 - stripe % n);
    return {(p + 1 + dd) % n, stripe * strip + offset};
}

/// The VD: dm's striped target over md arrays, with one full data row of a span as its chunk.
Place vd_place(const geometry& g, std::uint64_t sector) {
    if (g.parities == 0) {
        return md_place(g.level, g.members, g.strip, sector);
    }
    const auto outer = static_cast<std::uint64_t>(g.strip) * g.data;
    const auto span = static_cast<unsigned>(sector / outer % g.spans);
    const auto inner = sector / outer / g.spans * outer + sector % outer;
    auto place = md_place(g.level, g.per_span, g.strip, inner);
    place.member += span * g.per_span;
    return place;
}

geometry make(const Shape& shape, unsigned strip, unsigned rows) {
    geometry g{};
    REQUIRE(geometry_init(&g, shape.level, shape.members, shape.per_span, strip,
                          static_cast<std::uint64_t>(strip) * rows) == 0);
    return g;
}

}  // namespace

TEST_CASE("core geometry: data lies where md puts it, and every strip has one meaning") {
    for (const auto& shape : shapes()) {
        CAPTURE(shape.level, shape.members, shape.per_span);
        // Parity has been on every member twice.
        const auto g = make(shape, 8, 2 * std::min(shape.per_span, 40U) + 1);
        REQUIRE(g.vd_sectors == g.member_sectors * g.data * g.spans);
        std::map<std::pair<unsigned, std::uint64_t>, std::uint64_t> strips;
        for (std::uint64_t sector = 0; sector < g.vd_sectors; sector += 8) {
            for (const auto one : {sector, sector + 5}) {
                const auto place = geometry_map(&g, one);
                const auto md = vd_place(g, one);
                REQUIRE(Place{place.member, place.sector} == md);
                REQUIRE(place.row == place.sector / g.strip);
                REQUIRE(place.span == place.member / g.per_span);
                std::uint64_t back = 0;
                REQUIRE(geometry_unmap(&g, place.member, place.sector, &back));
                REQUIRE(back == one);
            }
            const auto place = geometry_map(&g, sector);
            for (unsigned copy = 0; copy < g.copies; ++copy) {
                std::uint64_t back = 0;
                REQUIRE(geometry_unmap(&g, place.member + copy, place.sector, &back));
                REQUIRE(back == sector);
                REQUIRE(
                    strips.emplace(std::pair(place.member + copy, place.sector), sector).second);
            }
        }
        for (unsigned member = 0; member < g.members; ++member) {
            const auto span = member / g.per_span;
            for (std::uint64_t row = 0; row * g.strip < g.member_sectors; ++row) {
                const bool parity = (g.parities >= 1 && geometry_p(&g, span, row) == member) ||
                                    (g.parities == 2 && geometry_q(&g, span, row) == member);
                std::uint64_t back = 0;
                REQUIRE(strips.contains({member, row * g.strip}) == !parity);
                REQUIRE(geometry_unmap(&g, member, row * g.strip, &back) == !parity);
                REQUIRE((geometry_data_index(&g, span, row, member) < 0) == parity);
                REQUIRE(geometry_data_index(&g, span + 1, row, member) < 0);
            }
        }
    }
}

TEST_CASE("core geometry: Q is before P, and data goes on behind P") {
    const auto g = make({GEOMETRY_RAID6, 5, 5}, 128, 10);
    const std::vector<std::vector<unsigned>> rows{// P, Q, data: raid6_nc
                                                  {4, 3, 0, 1, 2},
                                                  {3, 2, 4, 0, 1},
                                                  {2, 1, 3, 4, 0},
                                                  {1, 0, 2, 3, 4},
                                                  {0, 4, 1, 2, 3}};
    for (unsigned row = 0; row < 10; ++row) {
        const auto& expected = rows[row % 5];
        CHECK(geometry_p(&g, 0, row) == expected[0]);
        CHECK(geometry_q(&g, 0, row) == expected[1]);
        for (unsigned index = 0; index < 3; ++index) {
            CHECK(geometry_data(&g, 0, row, index) == expected[2 + index]);
            CHECK(geometry_data_index(&g, 0, row, expected[2 + index]) == static_cast<int>(index));
        }
    }
}

TEST_CASE("core geometry: windows") {
    CHECK(make({GEOMETRY_RAID5, 3, 3}, 8, 1).window == 8);
    CHECK(make({GEOMETRY_RAID5, 3, 3}, 128, 1).window == 128);
    CHECK(make({GEOMETRY_RAID5, 3, 3}, 2048, 1).window == 128);
}

TEST_CASE("core geometry: large members do not overflow") {
    geometry g{};
    const std::uint64_t most = UINT64_MAX / 256 / 2048 * 2048;
    REQUIRE(geometry_init(&g, GEOMETRY_RAID0, 256, 256, 2048, most) == 0);
    CHECK(g.vd_sectors == most * 256);
    const auto last = geometry_map(&g, g.vd_sectors - 1);
    CHECK(last.member == 255);
    CHECK(last.sector == most - 1);
    CHECK(geometry_init(&g, GEOMETRY_RAID0, 256, 256, 2048, most + 2048) == -EINVAL);
}

TEST_CASE("core geometry: shapes that no VD can have") {
    geometry g{};
    const auto refused = [&](const Shape& shape, unsigned strip = 128,
                             std::uint64_t sectors = 1024) {
        CAPTURE(shape.level, shape.members, shape.per_span, strip, sectors);
        CHECK(geometry_init(&g, shape.level, shape.members, shape.per_span, strip, sectors) ==
              -EINVAL);
    };
    refused({GEOMETRY_RAID0, 0, 0});
    refused({GEOMETRY_RAID0, 257, 257});
    refused({GEOMETRY_RAID1, 1, 1});
    refused({GEOMETRY_RAID1, 33, 33});
    refused({GEOMETRY_RAID10, 2, 2});
    refused({GEOMETRY_RAID10, 5, 5});
    refused({GEOMETRY_RAID5, 2, 2});
    refused({GEOMETRY_RAID5, 6, 3});
    refused({GEOMETRY_RAID5, 33, 33});
    refused({GEOMETRY_RAID6, 3, 3});
    refused({GEOMETRY_RAID50, 6, 6});
    refused({GEOMETRY_RAID50, 7, 3});
    refused({GEOMETRY_RAID60, 6, 3});
    for (const unsigned strip : {0U, 4U, 12U, 4096U}) {
        refused({GEOMETRY_RAID5, 3, 3}, strip);
    }
    refused({GEOMETRY_RAID5, 3, 3}, 128, 0);
    refused({GEOMETRY_RAID5, 3, 3}, 128, 1000);
}
