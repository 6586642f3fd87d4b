// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/gpt.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <cstdio>
#include <functional>
#include <memory>

#include "catch.hpp"
#include "ondisk/file_device.hpp"
#include "support/gpt_file.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/unique_fd.hpp"
#include "util/units.hpp"
#include "util/uuid.hpp"

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

/// A partition table from before GPT, with one partition.
void write_old_table(const std::string& path) {
    fill(path, 446, 1, '\0');
    fill(path, 450, 1, '\x83');
    fill(path, 454, 2, '\1');
    fill(path, 458, 2, '\1');
    fill(path, 510, 1, '\x55');
    fill(path, 511, 1, '\xaa');
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
        write_old_table(drive);
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

namespace {

Result<void> repair(const std::string& path, std::uint32_t block,
                    const PartitionLayout& partition = *partition_layout(size)) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    return repair_gpt(fd.get(), path, partition, block);
}

/// The first and the last MiB, which is all that a table takes.
std::pair<Bytes, Bytes> ends(const std::string& path) {
    auto device = FileDevice::open(path, FileDevice::Mode::read_only);
    return {*device->read(0, MiB), *device->read(size - MiB, MiB)};
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

/// Adds an EFI system partition, as another program would, to both copies (blocks of 512 bytes).
void add_partition(const std::string& path, std::uint64_t first, std::uint64_t last) {
    const auto put = [](Bytes& bytes, std::size_t place, auto value) {
        std::memcpy(&bytes[place], &value, sizeof(value));
    };
    constexpr std::array<std::uint8_t, 16> efi{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11,
                                               0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b};
    auto device = FileDevice::open(path, FileDevice::Mode::read_write);
    const auto guid = Uuid::random();
    auto [front, back] = ends(path);
    for (auto [bytes, header, entries] :
         {std::tuple{&front, std::size_t{512}, std::size_t{1024}},
          std::tuple{&back, std::size_t{MiB - 512}, std::size_t{MiB - 33 * 512}}}) {
        put(*bytes, entries + 128, efi);
        put(*bytes, entries + 144, guid);
        put(*bytes, entries + 160, htole64(first));
        put(*bytes, entries + 168, htole64(last));
        put(*bytes, header + 88, htole32(crc32(std::span(*bytes).subspan(entries, 16 * KiB))));
        put(*bytes, header + 16, std::uint32_t{0});
        put(*bytes, header + 16, htole32(crc32(std::span(*bytes).subspan(header, 92))));
    }
    REQUIRE(device->write(0, front));
    REQUIRE(device->write(size - MiB, back));
}

struct Damage {
    const char* what;
    std::function<void(const std::string&, std::uint32_t)> make;
    bool primary;
    bool backup;
};

std::vector<Damage> damages() {
    return {
        {"the first MiB is zeroed", [](auto& path, auto) { fill(path, 0, MiB, '\0'); }, false,
         true},
        {"the first MiB is junk", [](auto& path, auto) { fill(path, 0, MiB, 'j'); }, false, true},
        {"the protective MBR is zeroed", [](auto& path, auto) { fill(path, 0, 512, '\0'); }, false,
         true},
        {"the primary header", [](auto& path, auto block) { fill(path, block, 8, '\0'); }, false,
         true},
        {"a byte of the primary header",
         [](auto& path, auto block) { fill(path, block + 60, 1, 'j'); }, false, true},
        {"a byte of the primary entries",
         [](auto& path, auto block) { fill(path, std::uint64_t{2} * block + 200, 1, 'j'); }, false,
         true},
        {"the backup header", [](auto& path, auto block) { fill(path, size - block, 8, '\0'); },
         true, false},
        {"the last MiB", [](auto& path, auto) { fill(path, size - MiB, MiB, '\0'); }, true, false},
        {"the MBR and the backup",
         [](auto& path, auto) {
             fill(path, 0, 512, '\0');
             fill(path, size - MiB, MiB, '\0');
         },
         false, false},
    };
}

}  // namespace

TEST_CASE("gpt: a damaged copy is seen and made from the other, byte for byte") {
    for (const std::uint32_t block : {512U, 4096U}) {
        for (const auto& damage : damages()) {
            INFO(damage.what << ", blocks of " << block);
            const TempDir directory;
            const auto drive = directory.sparse("drive", size);
            REQUIRE(write_gpt_to(drive, *partition_layout(size), block));
            CHECK(check_gpt(drive, block)->whole());
            const auto good = ends(drive);

            damage.make(drive, block);
            const auto copies = check_gpt(drive, block);
            REQUIRE(copies);
            CHECK(copies->primary == damage.primary);
            CHECK(copies->backup == damage.backup);
            const auto damaged = ends(drive);
            CHECK(can_repair_gpt(drive, *partition_layout(size), block));
            CHECK(ends(drive) == damaged);

            REQUIRE(repair(drive, block));
            CHECK(check_gpt(drive, block)->whole());
            CHECK(**find_partition(drive, block) == *partition_layout(size));
            // GUIDs and all: it is the table that was there. Junk beside it stays.
            const auto now = ends(drive);
            const auto same = [](const Bytes& a, const Bytes& b, std::size_t at, std::size_t n) {
                return std::memcmp(&a[at], &b[at], n) == 0;
            };
            constexpr std::size_t entries = 16 * KiB;
            CHECK(same(good.first, now.first, 446, 66));
            CHECK(same(good.first, now.first, block, 92));
            CHECK(same(good.first, now.first, std::size_t{2} * block, entries));
            CHECK(same(good.second, now.second, MiB - block, 92));
            CHECK(same(good.second, now.second, MiB - block - entries, entries));
            CHECK(now.first[450] == std::byte{0xee});
        }
    }
}

TEST_CASE("gpt: 0x1000 to 0x4000 of the drive zeroed between boots is mended (failures 10)") {
    for (const std::uint32_t block : {512U, 4096U}) {
        CAPTURE(block);
        const TempDir directory;
        const auto drive = directory.sparse("drive", size);
        REQUIRE(write_gpt_to(drive, *partition_layout(size), block));
        const auto good = ends(drive);
        fill(drive, 0x1000, 0x3000, '\0');
        // With 512-byte blocks only entries without a partition are there.
        CHECK(check_gpt(drive, block)->primary == (block == 512));
        REQUIRE(repair(drive, block));
        CHECK(ends(drive) == good);
    }
}

TEST_CASE("gpt: with both copies gone the label says where the partition was") {
    for (const std::uint32_t block : {512U, 4096U}) {
        CAPTURE(block);
        const TempDir directory;
        const auto drive = directory.sparse("drive", size);
        const bool zeros = GENERATE(true, false);
        REQUIRE(write_gpt_to(drive, *partition_layout(size), block));
        fill(drive, 0, MiB, zeros ? '\0' : 'j');
        fill(drive, size - MiB, MiB, zeros ? '\0' : 'j');
        CHECK_FALSE(check_gpt(drive, block)->primary);
        CHECK_FALSE(check_gpt(drive, block)->backup);
        REQUIRE(repair(drive, block));
        CHECK(check_gpt(drive, block)->whole());
        CHECK(**find_partition(drive, block) == *partition_layout(size));
    }
}

TEST_CASE("gpt: partitions of others beside Perch's survive a repair") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    add_partition(drive, MiB / 512, 101 * MiB / 512 - 1);
    REQUIRE(check_gpt(drive, 512)->whole());
    const auto good = ends(drive);
    fill(drive, 0, 32 * KiB, '\0');
    REQUIRE(repair(drive, 512));
    CHECK(ends(drive) == good);
}

TEST_CASE("gpt: a table is not put back over what somebody else has written since") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    const auto refused = [&] {
        const auto before = ends(drive);
        const auto done = repair(drive, 512);
        const auto asked = can_repair_gpt(drive, *partition_layout(size), 512);
        return !done && !asked && done.error().code == asked.error().code && ends(drive) == before
                   ? std::optional(done.error().code)
                   : std::nullopt;
    };
    SECTION("a filesystem on the whole drive, which leaves the backup") {
        const auto told = output_of("mke2fs -q -F -t ext4 '" + drive + "' 1G");
        INFO(told);
        CHECK(refused() == Errc::data_found);
    }
    SECTION("a partition table of the old kind") {
        fill(drive, 0, MiB, '\0');
        write_old_table(drive);
        CHECK(refused() == Errc::data_found);
    }
    SECTION("the backup is another table's") {
        REQUIRE(write_gpt_to(drive, {GiB, GiB}, 512));
        fill(drive, 0, 32 * KiB, '\0');
        CHECK(refused() == Errc::corrupt);
    }
    SECTION("a place that Perch never chooses") {
        fill(drive, 0, MiB, '\0');
        for (const auto& partition :
             {PartitionLayout{2 * GiB, GiB}, PartitionLayout{GiB, 0}, PartitionLayout{GiB, 7 * GiB},
              PartitionLayout{GiB, ~0ULL << 20}, PartitionLayout{GiB, GiB + 512}}) {
            CHECK(repair(drive, 512, partition).error().code == Errc::corrupt);
        }
    }
}

TEST_CASE("gpt: a repair stopped between its writes can be done again") {
    // What libfdisk writes, in its order: backup entries, backup header, entries, header, MBR. All
    // states between are the good backup with a part of the primary copy.
    for (const std::uint32_t block : {512U, 4096U}) {
        const TempDir directory;
        const auto drive = directory.sparse("drive", size);
        REQUIRE(write_gpt_to(drive, *partition_layout(size), block));
        const auto good = ends(drive);
        auto device = FileDevice::open(drive, FileDevice::Mode::read_write);
        for (std::uint64_t done = 0; done < 32 * KiB; done += 4096) {
            for (const bool from_front : {true, false}) {
                fill(drive, 0, 32 * KiB, '\0');
                const auto part =
                    std::span(good.first)
                        .subspan(from_front ? 0 : done, from_front ? done : 32 * KiB - done);
                if (!part.empty()) {
                    REQUIRE(device->write(from_front ? 0 : done, part));
                }
                REQUIRE(repair(drive, block));
                CHECK(ends(drive) == good);
            }
        }
    }
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
