// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/uuid.hpp"

#include <set>

#include "catch.hpp"

using namespace perch;

TEST_CASE("uuid: text order is byte order, either case is read, lower case is written") {
    const auto uuid = Uuid::parse("00112233-4455-6677-8899-AABBCCDDEEFF");
    REQUIRE(uuid);
    for (std::size_t i = 0; i < uuid->bytes.size(); ++i) {
        CHECK(uuid->bytes.at(i) == 0x11 * i);
    }
    CHECK(uuid->str() == "00112233-4455-6677-8899-aabbccddeeff");
    CHECK(*Uuid::parse(uuid->str()) == *uuid);
    CHECK(Uuid{}.is_nil());
    CHECK_FALSE(uuid->is_nil());
}

TEST_CASE("uuid: anything but the one form is refused") {
    for (const std::string text :
         {"", "x", "00112233", "00112233-4455-6677-8899-aabbccddeef",
          "00112233-4455-6677-8899-aabbccddeefff", "00112233-4455-6677-8899-aabbccddeeff-meta",
          "00112233-4455-6677-8899-aabbccddeef\xff", "g0112233-4455-6677-8899-aabbccddeeff",
          "{00112233-4455-6677-8899-aabbccddeeff}", "00112233445566778899aabbccddeeff",
          " 00112233-4455-6677-8899-aabbccddeeff", "001122334-455-6677-8899-aabbccddeeff"}) {
        INFO(text);
        const auto uuid = Uuid::parse(text);
        CHECK_FALSE(uuid);
        if (!uuid) {
            CHECK(uuid.error().code == Errc::invalid_argument);
        }
    }
}

TEST_CASE("uuid: fresh ones are of version 4 and all different") {
    std::set<Uuid> seen;
    for (int i = 0; i < 1000; ++i) {
        const auto uuid = Uuid::random();
        CHECK(seen.insert(uuid).second);
        CHECK(uuid.bytes[6] >> 4U == 4);
        CHECK(uuid.bytes[8] >> 6U == 2);
    }
}
