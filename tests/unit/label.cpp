// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/label.hpp"

#include "catch.hpp"
#include "engine/sim/sim_device.hpp"
#include "support/hex_dump.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

Label sample() {
    return {*Uuid::parse("c0c0c0c0-0001-4002-8003-000000000004"),
            *Uuid::parse("d0d1d2d3-d4d5-46d7-88d9-dadbdcdddedf"),
            3200631791616,
            {GiB, 2979 * GiB},
            4096};
}

/// The label's checksum made right again after an edit, as another program would write it.
Bytes sealed(Bytes bytes) {
    constexpr std::size_t crc_place = offsetof(perch_label, crc32c);
    const std::uint32_t nothing = 0;
    std::memcpy(bytes.data() + crc_place, &nothing, sizeof(nothing));
    const auto sum = htole32(crc32c(bytes));
    std::memcpy(bytes.data() + crc_place, &sum, sizeof(sum));
    return bytes;
}

template <typename T>
Bytes with(std::size_t place, T value) {
    auto bytes = encode_label(sample());
    std::memcpy(bytes.data() + place, &value, sizeof(value));
    return sealed(std::move(bytes));
}

struct LabelledDrive {
    LabelledDrive() {
        label = sample();
        label.device_bytes = 3 * GiB;
        label.partition = *partition_layout(3 * GiB);
        REQUIRE(write_label(device, label));
    }
    void destroy(std::uint64_t offset, std::uint64_t length, std::byte value) {
        REQUIRE(device.write(offset, Bytes(length, value)));
    }
    [[nodiscard]] std::uint64_t back_edge() const {
        return label.partition.offset + label.partition.length - PERCH_EDGE_BYTES;
    }

    StepCounter steps;
    SimDevice device{3 * GiB, steps};
    Label label;
};

constexpr std::byte junk{0xa5};

}  // namespace

TEST_CASE("crc32c is the Castagnoli sum of RFC 3720") {
    const std::string digits = "123456789";
    CHECK(crc32c(std::as_bytes(std::span(digits))) == 0xE3069283);
    CHECK(crc32c(Bytes(32)) == 0x8A9136AA);
    CHECK(crc32c(Bytes(32, std::byte{0xff})) == 0x62A8AB43);
}

TEST_CASE("label: the one that version 1 wrote is read for ever, and written the same") {
    const auto golden = parse_hex_dump(read_text(PERCH_GOLDEN_DIR "/label-v1.hex"));
    const auto label = decode_label(golden);
    REQUIRE(label);
    CHECK(*label == sample());
    CHECK(encode_label(*label) == golden);
}

TEST_CASE("label: every changed byte is noticed") {
    const auto good = encode_label(sample());
    REQUIRE(good.size() == PERCH_LABEL_BYTES);
    for (std::size_t i = 0; i < good.size(); ++i) {
        // The smallest change and the largest.
        for (const auto mask : {std::byte{1}, std::byte{0xff}}) {
            auto bytes = good;
            bytes[i] ^= mask;
            const auto label = decode_label(bytes);
            if (label) {
                FAIL("a change of byte " << i << " went unnoticed");
            }
            const auto expected = i < 8 ? Errc::not_found : Errc::corrupt;
            if (label.error().code != expected) {
                FAIL("byte " << i << ": " << label.error().message);
            }
        }
    }
}

TEST_CASE("label: cut short is corrupt, wherever it is cut") {
    const auto good = encode_label(sample());
    for (const std::size_t length : {0UL, 1UL, 8UL, 127UL, 128UL, 4095UL}) {
        const auto label = decode_label(std::span(good).first(length));
        REQUIRE_FALSE(label);
        CHECK(label.error().code == Errc::corrupt);
    }
}

TEST_CASE("label: what a newer version wrote is refused by name, not called damaged") {
    const auto version = decode_label(with(offsetof(perch_label, version), htole32(2U)));
    REQUIRE_FALSE(version);
    CHECK(version.error().code == Errc::incompatible);
    CHECK(version.error().message.find("version 2") != std::string::npos);
    for (int bit = 0; bit < 64; ++bit) {
        const auto mask = 1ULL << bit;
        const auto feature =
            decode_label(with(offsetof(perch_label, feature_incompat), htole64(mask)));
        REQUIRE_FALSE(feature);
        CHECK(feature.error().code == Errc::incompatible);
        CHECK(feature.error().message.find(fmt::format("{:#x}", mask)) != std::string::npos);
        CHECK(feature.error().message.find("update") != std::string::npos);
    }
}

TEST_CASE("label: what may only be read is refused too, because this version writes") {
    const auto label =
        decode_label(with(offsetof(perch_label, feature_ro_compat), htole64(std::uint64_t{1})));
    REQUIRE_FALSE(label);
    CHECK(label.error().code == Errc::incompatible);
}

TEST_CASE("label: compatible features of a newer version do not lock an older one out") {
    CHECK(decode_label(with(offsetof(perch_label, feature_compat), htole64(1ULL << 40))));
}

TEST_CASE("label: a layout that this version never wrote is corrupt") {
    const std::vector<Bytes> labels{
        with(offsetof(perch_label, config_slots), htole32(3U)),
        with(offsetof(perch_label, config_slots), htole32(0xffffffffU)),
        with(offsetof(perch_label, config_slot_bytes), htole64(std::uint64_t{0})),
        with(offsetof(perch_label, config_slot_bytes), htole64(UINT64_MAX)),
        with(offsetof(perch_label, config_offset), htole64(std::uint64_t{4096})),
        with(offsetof(perch_label, extents_offset), htole64(8 * MiB)),
        with(offsetof(perch_label, logical_block_bytes), htole32(1024U)),
        // A partition that is no multiple of 1 MiB, has no room, or leaves the drive.
        with(offsetof(perch_label, partition_offset), htole64(GiB + 4096)),
        with(offsetof(perch_label, partition_bytes), htole64(GiB + 512)),
        with(offsetof(perch_label, partition_bytes), htole64(10 * MiB)),
        with(offsetof(perch_label, partition_bytes), htole64(2981 * GiB)),
        with(offsetof(perch_label, partition_bytes), htole64(UINT64_MAX - MiB + 1)),
        with(offsetof(perch_label, device_bytes), htole64(GiB)),
    };
    for (const auto& bytes : labels) {
        const auto label = decode_label(bytes);
        REQUIRE_FALSE(label);
        CHECK(label.error().code == Errc::corrupt);
    }
}

TEST_CASE("label: either copy is enough") {
    const LabelledDrive whole;
    const auto front = whole.label.partition.offset + PERCH_LABEL_OFFSET;

    SECTION("firmware zeroes 0x1000 to 0x4000 of the partition (failures 10)") {
        LabelledDrive drive;
        REQUIRE(drive.device.zero(drive.label.partition.offset + 0x1000, 0x3000));
        const auto found = read_label(drive.device, drive.label.partition);
        REQUIRE(found);
        CHECK(*found == drive.label);
    }
    SECTION("the whole first MiB is overwritten") {
        LabelledDrive drive;
        drive.destroy(drive.label.partition.offset, PERCH_EDGE_BYTES, junk);
        CHECK(*read_label(drive.device, drive.label.partition) == drive.label);
    }
    SECTION("the front copy is damaged, not gone") {
        LabelledDrive drive;
        auto bytes = encode_label(drive.label);
        bytes[100] ^= std::byte{4};
        REQUIRE(drive.device.write(front, bytes));
        CHECK(*read_label(drive.device, drive.label.partition) == drive.label);
    }
    SECTION("the last MiB is overwritten") {
        LabelledDrive drive;
        drive.destroy(drive.back_edge(), PERCH_EDGE_BYTES, junk);
        CHECK(*read_label(drive.device, drive.label.partition) == drive.label);
    }
    SECTION("both gone: no label, and no error") {
        LabelledDrive drive;
        drive.destroy(drive.label.partition.offset, PERCH_EDGE_BYTES, junk);
        drive.destroy(drive.back_edge(), PERCH_EDGE_BYTES, std::byte{0});
        const auto found = read_label(drive.device, drive.label.partition);
        REQUIRE(found);
        CHECK_FALSE(found->has_value());
    }
    SECTION("both damaged: that is said, the drive is not called unlabelled") {
        LabelledDrive drive;
        auto bytes = encode_label(drive.label);
        bytes[100] ^= std::byte{4};
        REQUIRE(drive.device.write(front, bytes));
        REQUIRE(drive.device.write(drive.back_edge() + PERCH_LABEL_OFFSET, bytes));
        const auto found = read_label(drive.device, drive.label.partition);
        REQUIRE_FALSE(found);
        CHECK(found.error().code == Errc::corrupt);
    }
}

TEST_CASE("label: an older program does not fall back to an older copy of a newer one's drive") {
    LabelledDrive drive;
    auto bytes = encode_label(drive.label);
    const auto bit = htole64(std::uint64_t{2});
    std::memcpy(bytes.data() + offsetof(perch_label, feature_incompat), &bit, sizeof(bit));
    const auto newer = sealed(bytes);
    const auto front = drive.label.partition.offset + PERCH_LABEL_OFFSET;
    REQUIRE(drive.device.write(front, newer));
    const auto found = read_label(drive.device, drive.label.partition);
    REQUIRE_FALSE(found);
    CHECK(found.error().code == Errc::incompatible);
}

TEST_CASE("label: writing one removes what lay at both edges and empties the configuration") {
    StepCounter steps;
    SimDevice device(3 * GiB, steps);
    Label label = sample();
    label.partition = *partition_layout(3 * GiB);
    const auto front = label.partition.offset;
    const auto back = front + label.partition.length - PERCH_EDGE_BYTES;
    REQUIRE(device.write(front, Bytes(PERCH_EXTENTS_OFFSET, junk)));
    REQUIRE(device.write(back, Bytes(PERCH_EDGE_BYTES, junk)));
    REQUIRE(write_label(device, label));
    const auto is_zero = [&](std::uint64_t offset, std::uint64_t length) {
        const auto bytes = device.read(offset, length);
        return std::all_of(bytes->begin(), bytes->end(),
                           [](std::byte b) { return b == std::byte{0}; });
    };
    CHECK(is_zero(front, PERCH_LABEL_OFFSET));
    CHECK(is_zero(front + PERCH_LABEL_OFFSET + PERCH_LABEL_BYTES,
                  PERCH_EXTENTS_OFFSET - PERCH_LABEL_OFFSET - PERCH_LABEL_BYTES));
    CHECK(is_zero(back, PERCH_LABEL_OFFSET));
    CHECK(is_zero(back + PERCH_LABEL_OFFSET + PERCH_LABEL_BYTES,
                  PERCH_EDGE_BYTES - PERCH_LABEL_OFFSET - PERCH_LABEL_BYTES));
}
