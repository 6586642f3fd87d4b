// SPDX-License-Identifier: GPL-2.0-or-later
// On sparse files: what a look at a drive makes of damage to what Perch wrote on it.
#include "drives/probe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "catch.hpp"
#include "ondisk/config_slot.hpp"
#include "ondisk/file_device.hpp"
#include "ondisk/gpt.hpp"
#include "support/gpt_file.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

constexpr std::uint64_t size = 4 * GiB;

/// A drive as Perch leaves it: table, labels, a configuration.
struct PerchDrive {
    explicit PerchDrive(Coercion coercion = Coercion::gib_1, std::uint32_t block_bytes = 512)
        : block(block_bytes), partition(*partition_layout(size, coercion)) {
        label = {Uuid::random(), Uuid::random(), size, partition, block};
        configuration.controller = label.controller;
        configuration.sequence = 1;
        configuration.id = Uuid::random();
        REQUIRE(write_gpt_to(path, partition, block));
        auto device = open();
        REQUIRE(write_label(device, label));
        write();
    }
    FileDevice open() const {
        return std::move(*FileDevice::open(path, FileDevice::Mode::read_write));
    }
    void write() {
        auto device = open();
        REQUIRE(write_configuration(device, partition, configuration));
        configuration.sequence += 1;
    }
    /// Makes the drive the member of a VD in its own configuration.
    void use() {
        const auto shape = *make_shape(RaidLevel::raid0, 1);
        const auto layout = *vd_layout(shape, free_ranges(partition.length, {}), std::nullopt);
        ConfigDrive row;
        row.uuid = label.drive;
        row.device_bytes = size;
        row.partition_bytes = partition.length;
        ConfigVd vd;
        vd.uuid = Uuid::random();
        vd.name = "data";
        vd.level = shape.level;
        vd.per_span = shape.per_span;
        vd.strip_bytes = default_strip_bytes;
        vd.vd_bytes = layout.vd_bytes;
        vd.members.resize(1);
        vd.members[0].drive = label.drive;
        vd.members[0].instance = Uuid::random();
        vd.members[0].extents = layout.extents;
        configuration.drives = {row};
        configuration.vds = {vd};
        write();
    }
    void zero(std::uint64_t offset, std::uint64_t length) const {
        REQUIRE(open().zero(offset, length));
    }
    void destroy_tables() const {
        zero(0, MiB);
        zero(size - MiB, MiB);
    }
    void destroy_labels() const {
        zero(partition.offset, PERCH_EDGE_BYTES);
        zero(partition.offset + partition.length - PERCH_EDGE_BYTES, PERCH_EDGE_BYTES);
    }
    [[nodiscard]] Result<void> repair() const {
        const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        return repair_gpt(fd.get(), path, partition, block);
    }
    [[nodiscard]] FoundDrive look(bool want_content = true) const {
        FoundDrive found;
        found.identity.size_bytes = std::filesystem::file_size(path);
        found.identity.logical_block_bytes = block;
        probe_content(found, path, want_content);
        return found;
    }

    TempDir directory;
    std::string path = directory.sparse("drive", size);
    std::uint32_t block;
    PartitionLayout partition;
    Label label;
    Configuration configuration;
};

std::string trouble(const FoundDrive& found) {
    return found.trouble ? found.trouble->message : "";
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("probe: a drive of ours in order, whatever the coercion and the block size") {
    for (const auto coercion : {Coercion::none, Coercion::mib_128, Coercion::gib_1}) {
        for (const std::uint32_t block : {512U, 4096U}) {
            const PerchDrive drive(coercion, block);
            const auto found = drive.look();
            CHECK(trouble(found).empty());
            CHECK(found.label == drive.label);
            REQUIRE(found.configuration);
            CHECK(found.configuration->id == drive.configuration.id);
            CHECK_FALSE(found.table_damaged);
        }
    }
}

TEST_CASE("probe: 0x1000 to 0x4000 zeroed between boots (failures 10)") {
    for (const std::uint32_t block : {512U, 4096U}) {
        CAPTURE(block);
        const PerchDrive drive(Coercion::gib_1, block);
        drive.zero(0x1000, 0x3000);
        const auto found = drive.look();
        // With 512-byte blocks nothing of the table is in that place.
        CHECK(found.table_damaged == (block == 4096));
        if (found.table_damaged) {
            CHECK(contains(trouble(found), "Perch restores it"));
            CHECK_FALSE(found.label);
            REQUIRE(drive.repair());
        }
        const auto again = drive.look();
        CHECK(trouble(again).empty());
        CHECK(again.label == drive.label);
        CHECK_FALSE(again.table_damaged);
    }
}

TEST_CASE("probe: looking does not write") {
    const PerchDrive drive;
    drive.zero(0, MiB);
    const auto before = std::filesystem::last_write_time(drive.path);
    const auto bytes = *drive.open().read(0, MiB);
    CHECK(drive.look().table_damaged);
    CHECK(*drive.open().read(0, MiB) == bytes);
    CHECK(std::filesystem::last_write_time(drive.path) == before);
}

TEST_CASE("probe: with the backup alone damaged the drive is used, and mended") {
    const PerchDrive drive;
    drive.zero(size - MiB, MiB);
    const auto found = drive.look();
    CHECK(found.table_damaged);
    CHECK(trouble(found).empty());
    CHECK(found.label == drive.label);
    CHECK(found.configuration);
}

TEST_CASE("probe: with both tables gone the label brings a member's partition back") {
    for (const auto coercion : {Coercion::none, Coercion::mib_128, Coercion::gib_1}) {
        PerchDrive drive(coercion);
        SECTION("of a free drive it does not: that is how drives are wiped") {
            drive.destroy_tables();
            const auto found = drive.look();
            CHECK_FALSE(found.table_damaged);
            CHECK(contains(trouble(found), "no virtual drive is on it"));
            CHECK(found.content.empty());
        }
        SECTION("of a member") {
            drive.use();
            drive.destroy_tables();
            const auto found = drive.look();
            CHECK(found.table_damaged);
            CHECK(contains(trouble(found), "Perch restores it"));
            REQUIRE(drive.repair());
            CHECK(drive.look().label == drive.label);
        }
        SECTION("of a member, from the back label alone") {
            drive.use();
            drive.destroy_tables();
            drive.zero(drive.partition.offset, PERCH_EDGE_BYTES);
            CHECK(drive.look().table_damaged);
            REQUIRE(drive.repair());
            CHECK(drive.look().label == drive.label);
        }
    }
}

TEST_CASE("probe: a table is not restored over something else, and the text says what") {
    const PerchDrive drive;
    // LUKS, version 1, with which somebody has begun to use the whole drive.
    const UniqueFd fd(::open(drive.path.c_str(), O_WRONLY | O_CLOEXEC));
    drive.zero(0, MiB);
    const std::string luks("LUKS\xba\xbe\0\1", 8);
    REQUIRE(pwrite(fd.get(), luks.data(), luks.size(), 0) == 8);
    const auto found = drive.look();
    CHECK_FALSE(found.table_damaged);
    CHECK(contains(trouble(found), "crypto_LUKS"));
    CHECK(contains(trouble(found), "does not restore"));
    CHECK_FALSE(drive.repair());
}

TEST_CASE("probe: a label copied from a drive of another size restores nothing") {
    const PerchDrive drive;
    drive.zero(0, MiB);
    std::filesystem::resize_file(drive.path, size + GiB);
    const auto found = drive.look();
    CHECK_FALSE(found.table_damaged);
    CHECK(found.trouble);
}

TEST_CASE("probe: with both labels destroyed the drive is damaged, not blank") {
    const PerchDrive drive;
    SECTION("the configuration is left") {
        drive.destroy_labels();
        const auto found = drive.look();
        CHECK(contains(trouble(found), "both copies of its label are destroyed"));
        CHECK(contains(trouble(found), drive.label.controller.str()));
        CHECK(found.content.empty());
        CHECK_FALSE(found.label);
    }
    SECTION("and the tables are gone") {
        drive.destroy_labels();
        drive.destroy_tables();
        CHECK(contains(trouble(drive.look()), "both copies of its label are destroyed"));
    }
    SECTION("and the configuration is damaged") {
        drive.destroy_labels();
        auto device = drive.open();
        REQUIRE(device.write(GiB + MiB, Bytes(4096, std::byte{0x5a})));
        CHECK(contains(trouble(drive.look()), "no label"));
    }
    SECTION("the labels are damaged, not gone") {
        auto device = drive.open();
        for (const auto place :
             {drive.partition.offset, drive.partition.offset + drive.partition.length - MiB}) {
            auto bytes = encode_label(drive.label);
            bytes[100] ^= std::byte{4};
            REQUIRE(device.write(place + PERCH_LABEL_OFFSET, bytes));
        }
        CHECK(drive.look().trouble->code == Errc::corrupt);
    }
}

TEST_CASE("probe: a drive that was being taken when the program was killed is blank") {
    const PerchDrive drive;
    drive.zero(drive.partition.offset, PERCH_EXTENTS_OFFSET);
    drive.zero(drive.partition.offset + drive.partition.length - MiB, MiB);
    const auto found = drive.look();
    CHECK(trouble(found).empty());
    CHECK(found.content.empty());
    CHECK_FALSE(found.label);
}

TEST_CASE("label: a back copy left by an earlier use is not taken for the drive's") {
    const PerchDrive drive(Coercion::none);
    auto old = drive.label;
    old.partition = *partition_layout(size, Coercion::gib_1);
    old.drive = Uuid::random();
    auto device = drive.open();
    const auto place = old.partition.offset + old.partition.length - PERCH_EDGE_BYTES;
    REQUIRE(device.write(place + PERCH_LABEL_OFFSET, encode_label(old)));
    CHECK(*find_label(device, size) == drive.label);
    drive.zero(drive.partition.offset, PERCH_EDGE_BYTES);
    const auto found = find_label(device, size);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Errc::corrupt);
}
