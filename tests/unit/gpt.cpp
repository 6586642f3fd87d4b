// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/gpt.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

#include "catch.hpp"
#include "ondisk/file_device.hpp"
#include "support/gpt_file.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

constexpr std::uint64_t size = 3 * GiB + 256 * MiB;

/// What a program prints, or "" when it fails or is not there.
std::string output_of(const std::string& command) {
    struct Closer {
        void operator()(FILE* file) const { pclose(file); }
    };
    const auto full = "PATH=$PATH:/sbin:/usr/sbin; " + command + " 2>&1";
    // NOLINTNEXTLINE(cert-env33-c)
    const std::unique_ptr<FILE, Closer> pipe(popen(full.c_str(), "r"));
    std::string text;
    std::array<char, 4096> buffer{};
    while (pipe && fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
        text += buffer.data();
    }
    return text;
}

void fill(const std::string& path, std::uint64_t offset, std::size_t length, char value) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const std::string bytes(length, value);
    REQUIRE(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
            static_cast<ssize_t>(length));
}

}  // namespace

TEST_CASE("gpt: what is written is found again, on both block sizes") {
    for (const std::uint32_t block : {512U, 4096U}) {
        CAPTURE(block);
        const TempDir directory;
        const auto drive = directory.sparse("drive", size);
        const auto layout = *partition_layout(size);
        REQUIRE(write_gpt_to(drive, layout, block));
        const auto found = find_partition(drive, block);
        REQUIRE(found);
        REQUIRE(found->has_value());
        CHECK(**found == layout);
        CHECK((*found)->offset == GiB);
        CHECK(std::filesystem::file_size(drive) == size);
        // Nothing but the two tables was written: the first and the last MiB.
        auto device = FileDevice::open(drive, FileDevice::Mode::read_only);
        CHECK(*device->read(MiB, MiB) == Bytes(MiB));
        CHECK(*device->read(GiB, MiB) == Bytes(MiB));
        CHECK(*device->read(size - 2 * MiB, MiB) == Bytes(MiB));
    }
}

TEST_CASE("gpt: the bytes that udev and firmware read are the standard's") {
    for (const std::uint32_t block : {512U, 4096U}) {
        CAPTURE(block);
        const TempDir directory;
        const auto drive = directory.sparse("drive", size);
        REQUIRE(write_gpt_to(drive, *partition_layout(size), block));
        auto device = FileDevice::open(drive, FileDevice::Mode::read_only);
        const auto bytes = *device->read(0, 32 * KiB);
        const auto number = [&](std::size_t place) {
            return le64toh(load<std::uint64_t>(std::span(bytes).subspan(place)));
        };
        // A protective MBR, so that old programs see a full drive.
        CHECK(bytes[450] == std::byte{0xee});
        CHECK(bytes[510] == std::byte{0x55});
        CHECK(std::memcmp(&bytes[block], "EFI PART", 8) == 0);
        const auto entry = number(block + 72) * block;
        CHECK(entry == std::uint64_t{2} * block);
        CHECK(number(entry + 32) * block == GiB);
        CHECK((number(entry + 40) + 1) * block == 3 * GiB);
        std::string type;
        for (std::size_t i = 0; i < 16; ++i) {
            type += fmt::format("{:02x}", static_cast<unsigned>(bytes[entry + i]));
        }
        const std::string guid = PERCH_GPT_TYPE_GUID;
        const auto pick = [&](std::size_t place) { return guid.substr(place, 2); };
        CHECK(type == pick(6) + pick(4) + pick(2) + pick(0) + pick(11) + pick(9) + pick(16) +
                          pick(14) + guid.substr(19, 4) + guid.substr(24));
        // The backup is in the last block.
        const auto last = *device->read(size - 4096, 4096);
        CHECK(std::memcmp(&last[4096 - block], "EFI PART", 8) == 0);
    }
}

TEST_CASE("gpt: blkid names the partition, its type and its place") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    const auto table = output_of("blkid -p '" + drive + "'");
    INFO(table);
    CHECK(table.find("PTTYPE=\"gpt\"") != std::string::npos);
}

TEST_CASE("gpt: the tables of others are replaced, whatever they are") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    SECTION("an MBR") {
        fill(drive, 446, 1, '\0');
        fill(drive, 450, 1, '\x83');
        fill(drive, 454, 2, '\1');
        fill(drive, 510, 1, '\x55');
        fill(drive, 511, 1, '\xaa');
    }
    SECTION("junk") {
        fill(drive, 0, MiB, 'j');
        fill(drive, size - MiB, MiB, 'j');
    }
    SECTION("a GPT of somebody else, with the backup table only") {
        REQUIRE(write_gpt_to(drive, {2 * GiB, GiB}, 512));
        fill(drive, 0, 32 * KiB, '\0');
    }
    SECTION("a GPT for another block size") {
        REQUIRE(write_gpt_to(drive, {2 * GiB, GiB}, 4096));
    }
    const auto layout = *partition_layout(size);
    REQUIRE(write_gpt_to(drive, layout, 512));
    const auto found = find_partition(drive, 512);
    REQUIRE(found);
    REQUIRE(found->has_value());
    CHECK(**found == layout);
    const auto seen = output_of("blkid -p '" + drive + "'");
    INFO(seen);
    CHECK(seen.find("PTTYPE=\"gpt\"") != std::string::npos);
    CHECK(seen.find("ambivalent") == std::string::npos);
}

TEST_CASE("gpt: writing again gives the same place") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    CHECK(**find_partition(drive, 512) == *partition_layout(size));
}

TEST_CASE("gpt: a drive without a table, or with none of ours, has no partition of ours") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    auto found = find_partition(drive, 512);
    REQUIRE(found);
    CHECK_FALSE(found->has_value());
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    // Another type GUID: the table's checksum no longer matches, and the backup's neither.
    auto device = FileDevice::open(drive, FileDevice::Mode::read_write);
    for (const auto place : {std::uint64_t{0}, size - 32 * KiB}) {
        REQUIRE(device->write(place, Bytes(32 * KiB, std::byte{0x11})));
    }
    found = find_partition(drive, 512);
    REQUIRE(found);
    CHECK_FALSE(found->has_value());
}

TEST_CASE("gpt: trouble is said with the path") {
    for (const auto& error : {write_gpt_to("/nonexistent/drive", {GiB, GiB}, 512).error(),
                              find_partition("/nonexistent/drive", 512).error()}) {
        CHECK(error.code == Errc::io);
        CHECK(error.message.find("/nonexistent/drive") != std::string::npos);
    }
    // A partition that does not fit the drive.
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    CHECK_FALSE(write_gpt_to(drive, {GiB, 7 * GiB}, 512));
}
