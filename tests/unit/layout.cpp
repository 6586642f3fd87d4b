// SPDX-License-Identifier: GPL-2.0-or-later
#include "catch.hpp"
#include "layout/drive_layout.hpp"
#include "layout/raid_layout.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;

TEST_CASE("layout: a replacement of the same class that is a little smaller still fits") {
    // Drives as vendors sell them, in bytes (IDEMA LBA1-02 sizes and what reports named).
    for (const std::uint64_t size :
         {480103981056ULL, 960197124096ULL, 1920383410176ULL, 3840755982336ULL, 3200631791616ULL,
          7681501126656ULL, 15362991415296ULL, 30725970923520ULL, 61440000000000ULL}) {
        INFO(size);
        const auto whole = partition_layout(size);
        REQUIRE(whole);
        // 344 sectors is the difference that refused a rebuild (failures 14).
        const auto smaller = partition_layout(size - 344 * sector_bytes);
        REQUIRE(smaller);
        CHECK(*smaller == *whole);
        // Nothing is given away but the slack and the rounding.
        CHECK(size - whole->offset - whole->length < PERCH_SLACK_BYTES + PERCH_COERCION_BYTES);
    }
}

TEST_CASE("layout: the partition starts after 1 GiB and ends on a whole GiB inside the drive") {
    for (std::uint64_t size = 2 * GiB; size < 12 * GiB; size += 100 * MiB + 4096) {
        const auto partition = partition_layout(size);
        if (!partition) {
            continue;
        }
        CHECK(partition->offset == GiB);
        CHECK(partition->length % GiB == 0);
        CHECK(partition->length >= GiB);
        CHECK(partition->offset + partition->length + PERCH_SLACK_BYTES <= size);
    }
}

TEST_CASE("layout: the smallest drive is 2.25 GiB, and less is said to be too small") {
    const auto least = 2 * GiB + 256 * MiB;
    CHECK(*partition_layout(least) == PartitionLayout{GiB, GiB});
    CHECK(*partition_layout(3 * GiB + 256 * MiB - 1) == PartitionLayout{GiB, GiB});
    CHECK(*partition_layout(3 * GiB + 256 * MiB) == PartitionLayout{GiB, 2 * GiB});
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{1}, 255 * MiB, 256 * MiB, GiB, least - 1}) {
        const auto partition = partition_layout(size);
        REQUIRE_FALSE(partition);
        CHECK(partition.error().code == Errc::too_small);
        CHECK(partition.error().message.find("2.250 GiB") != std::string::npos);
    }
}

TEST_CASE("layout: coercion rounds down by what it says") {
    const auto size = 10 * GiB + 300 * MiB + 700 * KiB;
    CHECK(partition_layout(size, Coercion::gib_1)->length == 9 * GiB);
    CHECK(partition_layout(size, Coercion::mib_128)->length == 9 * GiB + 256 * MiB);
    CHECK(partition_layout(size, Coercion::none)->length == 9 * GiB + 299 * MiB);
    for (const auto coercion : {Coercion::none, Coercion::mib_128, Coercion::gib_1}) {
        CHECK(parse_coercion(to_string(coercion)) == coercion);
        // The backup GPT always has its place behind.
        for (std::uint64_t bytes = 3 * GiB; bytes < 3 * GiB + 2 * MiB; bytes += 4096) {
            const auto partition = partition_layout(bytes, coercion);
            CHECK(partition->offset + partition->length + 33 * 512 <= bytes);
        }
    }
    CHECK_FALSE(parse_coercion("2G"));
}

TEST_CASE("levels: what each needs, and how much of it holds data") {
    struct Row {
        RaidLevel level;
        int members;
        int per_span;
        int data;  ///< members' worth of data; 0: refused
        int spans;
    };
    const std::vector<Row> rows{
        {RaidLevel::raid0, 1, 0, 1, 1},       {RaidLevel::raid0, 256, 0, 256, 1},
        {RaidLevel::raid0, 0, 0, 0, 0},       {RaidLevel::raid1, 1, 0, 0, 0},
        {RaidLevel::raid1, 2, 0, 1, 1},       {RaidLevel::raid1, 3, 0, 1, 1},
        {RaidLevel::raid10, 2, 0, 0, 0},      {RaidLevel::raid10, 4, 0, 2, 2},
        {RaidLevel::raid10, 5, 0, 0, 0},      {RaidLevel::raid10, 8, 4, 4, 2},
        {RaidLevel::raid10, 6, 3, 0, 0},      {RaidLevel::raid5, 2, 0, 0, 0},
        {RaidLevel::raid5, 3, 0, 2, 1},       {RaidLevel::raid5, 32, 0, 31, 1},
        {RaidLevel::raid5, 33, 0, 0, 0},      {RaidLevel::raid5, 6, 3, 0, 0},
        {RaidLevel::raid6, 3, 0, 0, 0},       {RaidLevel::raid6, 4, 0, 2, 1},
        {RaidLevel::raid6, 8, 0, 6, 1},       {RaidLevel::raid50, 5, 0, 0, 0},
        {RaidLevel::raid50, 6, 0, 4, 2},      {RaidLevel::raid50, 9, 0, 0, 0},
        {RaidLevel::raid50, 9, 3, 6, 3},      {RaidLevel::raid50, 12, 4, 9, 3},
        {RaidLevel::raid50, 12, 5, 0, 0},     {RaidLevel::raid60, 7, 0, 0, 0},
        {RaidLevel::raid60, 8, 0, 4, 2},      {RaidLevel::raid60, 12, 4, 6, 3},
        {RaidLevel::raid60, 256, 8, 192, 32}, {RaidLevel::raid60, 256, 4, 0, 0},
        {RaidLevel::raid0, 257, 0, 0, 0},
    };
    for (const auto& row : rows) {
        CAPTURE(to_string(row.level), row.members, row.per_span);
        const auto shape = make_shape(row.level, row.members, row.per_span);
        REQUIRE(shape.has_value() == (row.data > 0));
        if (shape) {
            CHECK(shape->data_members() == row.data);
            CHECK(shape->spans() == row.spans);
        } else {
            CHECK((shape.error().code == Errc::invalid_argument ||
                   shape.error().code == Errc::limit));
        }
    }
    for (const auto level : raid_levels()) {
        CHECK(parse_raid_level(to_string(level)) == level);
        CHECK(parse_raid_level(lower_name(level)) == level);
    }
    CHECK_FALSE(parse_raid_level("raid7"));
}

TEST_CASE("levels: every set of lost members is survived or not, as the level says") {
    const auto shapes = std::vector{
        *make_shape(RaidLevel::raid0, 3),     *make_shape(RaidLevel::raid1, 3),
        *make_shape(RaidLevel::raid10, 6),    *make_shape(RaidLevel::raid5, 4),
        *make_shape(RaidLevel::raid6, 5),     *make_shape(RaidLevel::raid50, 9, 3),
        *make_shape(RaidLevel::raid60, 8, 4),
    };
    for (const auto& shape : shapes) {
        const auto members = static_cast<unsigned>(shape.members);
        for (unsigned mask = 0; mask < (1U << members); ++mask) {
            std::vector<bool> lost(members);
            std::vector<unsigned> by_span(static_cast<std::size_t>(shape.spans()));
            unsigned count = 0;
            bool pair_gone = false;
            for (unsigned row = 0; row < members; ++row) {
                lost[row] = (mask >> row & 1U) != 0;
                count += lost[row] ? 1 : 0;
                by_span[static_cast<std::size_t>(shape.span_of(row))] += lost[row] ? 1 : 0;
                pair_gone = pair_gone || (row % 2 == 1 && lost[row] && lost[row - 1]);
            }
            const auto worst = *std::max_element(by_span.begin(), by_span.end());
            const bool good = shape.level == RaidLevel::raid0    ? count == 0
                              : shape.level == RaidLevel::raid1  ? count < members
                              : shape.level == RaidLevel::raid10 ? !pair_gone
                              : shape.level == RaidLevel::raid5 || shape.level == RaidLevel::raid50
                                  ? worst <= 1
                                  : worst <= 2;
            CAPTURE(to_string(shape.level), mask);
            CHECK(readable(shape, lost) == good);
            // Further losses, whichever they are, by trying all.
            int more = good ? shape.members : -1;
            for (unsigned other = 0; good && other < (1U << members); ++other) {
                auto both = lost;
                int added = 0;
                for (unsigned row = 0; row < members; ++row) {
                    if ((other >> row & 1U) != 0 && !lost[row]) {
                        both[row] = true;
                        ++added;
                    }
                }
                if (!readable(shape, both)) {
                    more = std::min(more, added - 1);
                }
            }
            CHECK(survives_more(shape, lost) == more);
        }
    }
}

TEST_CASE("extents: a member has one of each, aligned, in one piece, inside the partition") {
    for (const std::uint64_t partition : {100 * MiB, GiB, 7 * GiB, 2979 * GiB, 57220 * GiB}) {
        CAPTURE(partition);
        const auto free = free_ranges(partition, {});
        REQUIRE(free.size() == 1);
        const auto data = most_data(free);
        const auto extents = allocate_member(free, data);
        REQUIRE(extents);
        CHECK(extents->size() == 8);
        auto place = std::uint64_t{PERCH_EXTENTS_OFFSET};
        for (const auto& extent : *extents) {
            CHECK(extent.offset == place);
            CHECK(extent.offset % PERCH_EXTENT_ALIGN == 0);
            CHECK(extent.bytes % PERCH_EXTENT_ALIGN == 0);
            CHECK(extent.bytes > 0);
            place = extent.end();
        }
        CHECK(place + PERCH_EDGE_BYTES <= partition);
        // Nothing larger fits, and metadata does not eat the drive.
        CHECK_FALSE(allocate_member(free, data + MiB));
        CHECK(member_bytes(data) - data <= 280 * MiB + data / 512);
        CHECK(free_ranges(partition, *extents).size() <= 1);
    }
    for (const std::uint64_t bytes : {std::uint64_t{0}, MiB, 10 * MiB, 30 * MiB}) {
        CHECK(most_data(free_ranges(bytes, {})) == 0);
    }
}

TEST_CASE("extents: VDs share a drive group's space, and what one leaves another can take") {
    std::vector<std::vector<Extent>> vds;
    const auto used = [&](std::size_t without) {
        std::vector<Extent> all;
        for (std::size_t i = 0; i < vds.size(); ++i) {
            if (i != without) {
                all.insert(all.end(), vds[i].begin(), vds[i].end());
            }
        }
        return all;
    };
    constexpr std::size_t none = 99;
    for (int i = 0; i < 4; ++i) {
        vds.push_back(*allocate_member(free_ranges(4 * GiB, used(none)), 500 * MiB));
    }
    const auto all = used(none);
    for (std::size_t i = 1; i < all.size(); ++i) {
        CHECK(all[i - 1].end() == all[i].offset);
    }
    // A hole where the second one was: exactly its size fits there, one more MiB goes behind.
    const auto holes = free_ranges(4 * GiB, used(1));
    REQUIRE(holes.size() == 2);
    CHECK(holes[0].offset == vds[1].front().offset);
    CHECK(allocate_member(holes, 500 * MiB)->front().offset == vds[1].front().offset);
    CHECK(allocate_member(holes, 501 * MiB)->front().offset > vds[3].front().offset);
}

TEST_CASE("VD sizes: nobody gets less than asked for, and dm-raid's rules hold") {
    const auto free = free_ranges(9 * GiB, {});
    for (const auto level : raid_levels()) {
        const auto shape = *make_shape(level, 8);
        const auto data_members = static_cast<std::uint64_t>(shape.data_members());
        for (const std::uint64_t size : {std::uint64_t{1}, MiB, 100 * MiB + 1, GiB, 3 * GiB}) {
            CAPTURE(to_string(level), size);
            const auto layout = vd_layout(shape, free, size);
            REQUIRE(layout);
            CHECK(layout->vd_bytes >= size);
            CHECK(layout->vd_bytes < size + data_members * MiB);
            CHECK(layout->vd_bytes == layout->data_bytes * data_members);
            CHECK(layout->data_bytes % max_strip_bytes == 0);
        }
        const auto whole = vd_layout(shape, free, std::nullopt);
        REQUIRE(whole);
        const auto more = vd_layout(shape, free, whole->vd_bytes + 1);
        REQUIRE_FALSE(more);
        CHECK(more.error().code == Errc::too_small);
        CHECK(more.error().message.find(format_size(whole->vd_bytes)) != std::string::npos);
        CHECK_FALSE(vd_layout(shape, free, UINT64_MAX));
    }
}

TEST_CASE("layout: every legal strip is accepted, and only those") {
    for (std::uint64_t strip = 1; strip <= 4 * MiB; strip *= 2) {
        CAPTURE(strip);
        const bool legal = strip >= 4 * KiB && strip <= MiB;
        const auto checked = check_strip(strip, 512);
        CHECK(checked.has_value() == legal);
        if (!checked) {
            CHECK(checked.error().code == Errc::invalid_argument);
            CHECK(checked.error().message.find("4 to 1024 KiB") != std::string::npos);
        }
    }
    for (const std::uint64_t strip :
         {std::uint64_t{0}, 12 * KiB, 64 * KiB + 1, MiB - 1, UINT64_MAX, std::uint64_t{1} << 63}) {
        CHECK_FALSE(check_strip(strip, 4096));
    }
}
