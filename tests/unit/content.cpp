// SPDX-License-Identifier: GPL-2.0-or-later
// On sparse files: what they hold decides, and a file holds it as a drive does.
#include "ondisk/content.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "ondisk/file_device.hpp"
#include "ondisk/gpt.hpp"
#include "support/gpt_file.hpp"
#include "support/temp_dir.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

constexpr std::uint64_t size = 3 * GiB;

void put(const std::string& path, std::uint64_t offset, const std::string& bytes) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    REQUIRE(pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
            static_cast<ssize_t>(bytes.size()));
}

std::string content_of(const std::string& path) {
    const auto content = find_content(path);
    if (!content) {
        FAIL(content.error().message);
    }
    return *content;
}

/// Runs mke2fs, which every Debian has.
void make_ext4(const std::string& path, const std::string& options) {
    const auto command =
        "PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -t ext4 " + options + " '" + path + "'";
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe)
    REQUIRE(std::system(command.c_str()) == 0);
}

}  // namespace

TEST_CASE("content: a drive of zeros is blank") {
    const TempDir directory;
    CHECK(content_of(directory.sparse("drive", size)).empty());
    // A size that is no multiple of 4 KiB, as 512-byte drives have.
    CHECK(content_of(directory.sparse("odd", size + 512)).empty());
}

TEST_CASE("content: a filesystem is named, with its label") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    make_ext4(drive, "-L old");
    CHECK(content_of(drive) == "ext4 filesystem 'old'");
    const auto unnamed = directory.sparse("unnamed", size);
    make_ext4(unnamed, "");
    CHECK(content_of(unnamed) == "ext4 filesystem");
}

TEST_CASE("content: a label in another character set than UTF-8 is shown in UTF-8") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    make_ext4(drive, "-L \"$(printf 'M\\374ller')\"");
    const auto content = content_of(drive);
    CHECK(content.starts_with("ext4 filesystem 'M"));
    CHECK(nlohmann::json::accept('"' + content + '"'));
}

TEST_CASE("content: signatures that are no filesystem are named too") {
    const TempDir directory;
    const auto swap = directory.sparse("swap", size);
    // A swap header (version 1): the magic ends the first page, and a version and page count.
    put(swap, 4096 - 10, "SWAPSPACE2");
    put(swap, 1024, std::string("\1\0\0\0\xff\xff\7\0", 8));
    CHECK(content_of(swap).find("swap") != std::string::npos);
    const auto lvm = directory.sparse("lvm", size);
    put(lvm, 512, "LABELONE");
    // Without its checksum it is no LVM label; it is data all the same.
    CHECK(content_of(lvm) == "data without a known signature at 0 KiB");
}

TEST_CASE("content: a partition table is named, even an empty one") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, {GiB, GiB}, 512));
    const auto content = content_of(drive);
    CHECK(content.find("gpt partition table") != std::string::npos);
    CHECK(content.find('1') != std::string::npos);
}

TEST_CASE("content: a single byte in the first or last 16 MiB is data (raw databases)") {
    const TempDir directory;
    for (const std::uint64_t place : {std::uint64_t{0}, std::uint64_t{4095}, MiB + 17, 16 * MiB - 1,
                                      size - 16 * MiB, size - 8 * MiB - 3, size - 4096, size - 1}) {
        INFO(place);
        const auto drive = directory.sparse("drive", size);
        put(drive, place, "x");
        const auto content = content_of(drive);
        CHECK(content.find("data without a known signature") != std::string::npos);
    }
}

TEST_CASE("content: what was found says where") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    put(drive, size - 1, "x");
    // Found in the last MiB-sized piece.
    CHECK(content_of(drive) == "data without a known signature at 2.999 GiB");
}

TEST_CASE("content: a large file in the middle is seen by the samples") {
    const TempDir directory;
    // 64 samples over 3 GiB: nothing of 1/64 of the drive can hide between them.
    for (const std::uint64_t place : {100 * MiB, 1536 * MiB, 2900 * MiB}) {
        INFO(place);
        const auto drive = directory.sparse("drive", size);
        put(drive, place, std::string(48 * MiB, 'y'));
        CHECK_FALSE(content_of(drive).empty());
    }
}

TEST_CASE("content: a drive much smaller than the edges is read whole") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", 8 * MiB);
    CHECK(content_of(drive).empty());
    put(drive, 4 * MiB + 1, "x");
    CHECK_FALSE(content_of(drive).empty());
}

TEST_CASE("content: what a killed take leaves is blank beside its table, anything more is not") {
    const TempDir directory;
    const auto drive = directory.sparse("drive", size);
    REQUIRE(write_gpt_to(drive, *partition_layout(size), 512));
    const auto beside = find_content_beside_table(drive);
    REQUIRE(beside);
    CHECK(beside->empty());
    // But to everybody else it is not blank.
    CHECK_FALSE(content_of(drive).empty());
    put(drive, 2 * MiB, "x");
    CHECK_FALSE(find_content_beside_table(drive)->empty());
}

TEST_CASE("content: a drive that cannot be read is an error, not blank") {
    const auto content = find_content("/nonexistent/drive");
    REQUIRE_FALSE(content);
    CHECK(content.error().code == Errc::io);
    CHECK(content.error().message.find("/nonexistent/drive") != std::string::npos);
    CHECK_FALSE(find_content_beside_table("/nonexistent/drive"));
}

TEST_CASE("file device: reads and writes what lies there, a partition by the drive's offsets") {
    const TempDir directory;
    const auto path = directory.sparse("drive", 16 * MiB);
    put(path, 8192, std::string(4096, 'a'));
    auto drive = FileDevice::open(path, FileDevice::Mode::read_write, GiB);
    REQUIRE(drive);
    CHECK(drive->size() == 16 * MiB);
    CHECK(*drive->read(GiB + 8192, 4096) == Bytes(4096, std::byte{'a'}));
    // More than one chunk, not a multiple of it.
    const Bytes many(5 * MiB / 2, std::byte{'b'});
    REQUIRE(drive->write(GiB + 3 * MiB, many));
    CHECK(*drive->read(GiB + 3 * MiB, many.size()) == many);
    REQUIRE(drive->zero(GiB + 3 * MiB, MiB));
    CHECK(*drive->read(GiB + 3 * MiB, MiB) == Bytes(MiB));
    CHECK((*drive->read(GiB + 4 * MiB, 4096))[0] == std::byte{'b'});
    // Beyond the end, and before the beginning.
    CHECK(drive->read(GiB + 16 * MiB, 4096).error().code == Errc::io);
    CHECK_FALSE(drive->read(GiB + 16 * MiB - 4096, 8192));
    CHECK_FALSE(drive->read(0, 4096));
    CHECK_FALSE(drive->write(0, Bytes(4096)));
}

TEST_CASE("file device: one opened for reading does not write") {
    const TempDir directory;
    const auto path = directory.sparse("drive", MiB);
    auto drive = FileDevice::open(path, FileDevice::Mode::read_only);
    REQUIRE(drive);
    CHECK_FALSE(drive->write(0, Bytes(4096, std::byte{1})));
    CHECK_FALSE(drive->zero(0, 4096));
    CHECK_FALSE(FileDevice::open(directory.str("absent"), FileDevice::Mode::read_only));
}
