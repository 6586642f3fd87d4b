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

TEST_CASE("layout: RAID5 sizes, and nothing overlaps") {
    struct Row {
        int members;
        std::uint64_t partition;
        std::uint64_t strip;
        std::uint32_t block;
        std::uint64_t data;
    };
    constexpr std::uint64_t overhead = 14 * MiB;  // two edges, two slots, dm-raid's metadata
    const std::vector<Row> rows{
        {3, GiB, 64 * KiB, 512, GiB - overhead},
        {4, GiB, 4 * KiB, 512, GiB - overhead},
        {4, GiB, 4 * KiB, 4096, GiB - overhead},
        {5, 7 * GiB, MiB, 512, 7 * GiB - overhead},
        {8, 2979 * GiB, 256 * KiB, 4096, 2979 * GiB - overhead},
        {32, 57220 * GiB, 128 * KiB, 512, 57220 * GiB - overhead},
        {3, overhead + MiB, 64 * KiB, 512, MiB},
        {3, overhead + 2 * MiB - 4096, 64 * KiB, 512, MiB},
    };
    for (const auto& row : rows) {
        CAPTURE(row.members, row.partition, row.strip, row.block);
        const auto layout = raid5_layout(row.members, row.partition, row.strip, row.block);
        REQUIRE(layout);
        CHECK(layout->data_bytes == row.data);
        CHECK(layout->vd_bytes == row.data * static_cast<std::uint64_t>(row.members - 1));
        // Whole strips and whole rows: dm-raid refuses anything else.
        CHECK(layout->data_bytes % row.strip == 0);
        CHECK(layout->vd_bytes % (row.strip * static_cast<std::uint64_t>(row.members - 1)) == 0);
        // Labels, slots | metadata | data | the last MiB with the back label.
        CHECK(layout->metadata_offset >= PERCH_EXTENTS_OFFSET);
        CHECK(layout->metadata_offset + layout->metadata_bytes <= layout->data_offset);
        CHECK(layout->data_offset + layout->data_bytes + PERCH_EDGE_BYTES <= row.partition);
        CHECK(layout->metadata_offset % PERCH_EXTENT_ALIGN == 0);
        CHECK(layout->data_offset % PERCH_EXTENT_ALIGN == 0);
    }
}

TEST_CASE("layout: every legal strip is accepted, and only those") {
    for (std::uint64_t strip = 1; strip <= 4 * MiB; strip *= 2) {
        for (const std::uint32_t block : {512U, 4096U}) {
            CAPTURE(strip, block);
            const bool legal = strip >= 4 * KiB && strip <= MiB;
            const auto layout = raid5_layout(4, 4 * GiB, strip, block);
            CHECK(layout.has_value() == legal);
            if (!layout) {
                CHECK(layout.error().code == Errc::invalid_argument);
                CHECK(layout.error().message.find("4 to 1024 KiB") != std::string::npos);
            }
        }
    }
    for (const std::uint64_t strip :
         {std::uint64_t{0}, 12 * KiB, 64 * KiB + 1, MiB - 1, UINT64_MAX, std::uint64_t{1} << 63}) {
        CHECK_FALSE(raid5_layout(4, 4 * GiB, strip, 512));
    }
}

TEST_CASE("layout: member counts outside the limits are refused by name") {
    for (const int members : {-1, 0, 1, 2}) {
        const auto layout = raid5_layout(members, GiB, 64 * KiB, 512);
        REQUIRE_FALSE(layout);
        CHECK(layout.error().code == Errc::invalid_argument);
        CHECK(layout.error().message.find("at least 3") != std::string::npos);
    }
    CHECK(raid5_layout(max_members, GiB, 64 * KiB, 512));
    const auto many = raid5_layout(max_members + 1, GiB, 64 * KiB, 512);
    REQUIRE_FALSE(many);
    CHECK(many.error().code == Errc::limit);
    CHECK(many.error().message.find("at most 32") != std::string::npos);
}

TEST_CASE("layout: a partition without room for a VD is too small") {
    for (const std::uint64_t bytes : {std::uint64_t{0}, MiB, 10 * MiB, 14 * MiB, 15 * MiB - 1}) {
        const auto layout = raid5_layout(3, bytes, 64 * KiB, 512);
        REQUIRE_FALSE(layout);
        CHECK(layout.error().code == Errc::too_small);
    }
}
