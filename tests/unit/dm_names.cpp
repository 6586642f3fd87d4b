// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/names.hpp"

#include <set>

#include "catch.hpp"

using namespace perch;
using namespace perch::dm;

TEST_CASE("dm names: udev can tell a VD from what lies below it") {
    const auto vd = *Uuid::parse("5d000000-0000-4000-8000-000000000001");
    const auto instance = *Uuid::parse("a0000000-0000-4000-8000-000000000002");
    CHECK(vd_name("data") == "perch-data");
    CHECK(vd_uuid(vd) == "PERCH-5d000000-0000-4000-8000-000000000001");
    CHECK(
        part_uuid(vd, instance, Part::data) ==
        "PERCHPART-5d000000-0000-4000-8000-000000000001-a0000000-0000-4000-8000-000000000002-data");
    // A prefix of the one is never a prefix of the other.
    CHECK_FALSE(part_uuid(vd, instance, Part::data).starts_with(vd_prefix));
    CHECK_FALSE(vd_uuid(vd).starts_with(part_prefix));
    // Parts of one VD are found by the VD's UUID.
    CHECK(part_uuid(vd, instance, Part::metadata).starts_with(std::string(part_prefix) + vd.str()));
}

TEST_CASE("dm names: fit the kernel's limits and never collide") {
    constexpr std::size_t name_limit = 127;  // DM_NAME_LEN and DM_UUID_LEN less the zero
    constexpr std::size_t uuid_limit = 128;
    std::set<std::string> names{vd_name("fifteen-letters")};
    std::set<std::string> uuids;
    for (int i = 0; i < 4; ++i) {
        const auto vd = Uuid::random();
        const auto instance = Uuid::random();
        CHECK(uuids.insert(vd_uuid(vd)).second);
        for (const auto part : {Part::metadata, Part::data}) {
            CHECK(names.insert(part_name(instance, part)).second);
            CHECK(uuids.insert(part_uuid(vd, instance, part)).second);
            CHECK(part_name(instance, part).size() <= name_limit);
            CHECK(part_uuid(vd, instance, part).size() <= uuid_limit);
        }
    }
    // No VD's name can be a part's: names of VDs have a '-' where those of parts have a '_'.
    CHECK_FALSE(part_name(Uuid::random(), Part::data).starts_with(vd_name("")));
}
