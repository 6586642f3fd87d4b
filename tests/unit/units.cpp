// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/units.hpp"

#include "catch.hpp"

using namespace perch;

TEST_CASE("units: sizes read as the vendor's v8 tables print them") {
    CHECK(format_size(0) == "0 KiB");
    CHECK(format_size(64 * KiB) == "64 KiB");
    CHECK(format_size(MiB) == "1.000 MiB");
    CHECK(format_size(479559942144) == "446.625 GiB");
    CHECK(format_size(3840755982336) == "3.493 TiB");
    CHECK(format_size(UINT64_MAX) == "16384.000 PiB");
}

TEST_CASE("units: blocks and strips are whole numbers") {
    CHECK(format_block(512) == "512B");
    CHECK(format_block(4096) == "4 KiB");
    CHECK(format_block(64 * KiB) == "64 KiB");
    CHECK(format_block(MiB) == "1 MiB");
    CHECK(format_block(MiB + KiB) == "1025 KiB");
}

TEST_CASE("units: a strip is understood as a person types it") {
    for (const auto* text : {"64", "64k", "64K", "64kb", "64KiB", "64kib"}) {
        INFO(text);
        REQUIRE(parse_strip(text));
        CHECK(*parse_strip(text) == 64 * KiB);
    }
    for (const auto* text : {"1m", "1MB", "1MiB", "1024"}) {
        INFO(text);
        REQUIRE(parse_strip(text));
        CHECK(*parse_strip(text) == MiB);
    }
    for (const auto* text : {"", "k", "-64", "64 k", "64q", "0x40", "64k64", "6.4", " 64",
                             "99999999999999999999", "2048", "18446744073709551615"}) {
        INFO(text);
        const auto strip = parse_strip(text);
        REQUIRE_FALSE(strip);
        CHECK(strip.error().code == Errc::invalid_argument);
        CHECK(strip.error().message.find(text) != std::string::npos);
    }
}

TEST_CASE("units: durations carry over to the next unit") {
    CHECK(format_duration(0) == "0 Seconds");
    CHECK(format_duration(40) == "40 Seconds");
    CHECK(format_duration(59) == "59 Seconds");
    CHECK(format_duration(60) == "1 Minutes");
    CHECK(format_duration(3540) == "59 Minutes");
    CHECK(format_duration(3599) == "1 Hours 0 Minutes");
    CHECK(format_duration(23100) == "6 Hours 25 Minutes");
}
