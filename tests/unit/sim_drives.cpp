// SPDX-License-Identifier: GPL-2.0-or-later
// Simulated drives: that they keep what was written and lose what was not, and behave as the real
// ones do where the controller can tell.
#include "engine/sim/sim_drives.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "catch.hpp"
#include "support/temp_dir.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch::test {

namespace {

constexpr std::uint64_t drive_bytes = 3 * GiB;

struct Bench {
    explicit Bench(int count = 3) {
        for (int slot = 0; slot < count; ++slot) {
            drives.add(slot, drive_bytes);
        }
    }
    FoundDrive look(int slot) {
        for (auto& found : drives.look()) {
            if (found.identity.slot == slot) {
                return found;
            }
        }
        throw std::out_of_range("no such drive");
    }
    Label take(int slot) {
        const auto label = drives.take(drives.in_slot(slot).identity, controller, Coercion::gib_1);
        REQUIRE(label);
        return *label;
    }
    Configuration configuration(std::uint64_t sequence) const {
        Configuration result;
        result.controller = controller;
        result.sequence = sequence;
        result.id = Uuid::random();
        return result;
    }

    StepCounter steps;
    SimDrives drives{steps};
    Uuid controller = Uuid::random();
};

Bytes page_of(unsigned char value) {
    return Bytes(4096, std::byte{value});
}

}  // namespace

TEST_CASE("sim device: what is written is read back, what was never written is zero") {
    StepCounter steps;
    SimDevice device(MiB, steps);
    REQUIRE(device.write(8192, page_of(7)));
    CHECK(*device.read(4096, 12288) == [] {
        Bytes bytes(12288);
        std::fill(bytes.begin() + 4096, bytes.begin() + 8192, std::byte{7});
        return bytes;
    }());
    REQUIRE(device.zero(0, MiB));
    CHECK(device.pages().empty());
    CHECK(steps.count() == 2);
    // Zeros take no room.
    REQUIRE(device.write(0, Bytes(8192)));
    CHECK(device.pages().empty());
    CHECK(device.write(MiB, page_of(1)).error().code == Errc::io);
    CHECK(device.write(100, page_of(1)).error().code == Errc::io);
    CHECK(device.read(MiB - 4096, 8192).error().code == Errc::io);
}

TEST_CASE("sim device: faults are what their names say") {
    StepCounter steps;
    SimDevice device(MiB, steps);
    REQUIRE(device.write(0, page_of(1)));
    device.fail_reads = true;
    CHECK(device.read(0, 4096).error().code == Errc::io);
    CHECK(device.write(0, page_of(2)));
    device.fail_reads = false;
    device.fail_writes = true;
    CHECK(device.write(0, page_of(3)).error().code == Errc::io);
    CHECK(device.zero(0, 4096).error().code == Errc::io);
    CHECK(*device.read(0, 4096) == page_of(2));
    device.fail_writes = false;
    device.hung = true;
    CHECK(device.read(0, 4096).error().code == Errc::timeout);
    CHECK(device.write(0, page_of(3)).error().code == Errc::timeout);
}

TEST_CASE("sim device: a stop leaves a write undone, done, or torn at 4 KiB") {
    StepCounter steps;
    SimDevice device(MiB, steps);
    const Bytes bytes(5 * 4096, std::byte{9});
    const auto arrived = [&](const StopPoint& stop) {
        device.erase(0, MiB);
        steps.arm(stop);
        CHECK_THROWS_AS(device.write(0, bytes), Stopped);
        std::vector<std::uint64_t> pages;
        for (const auto& [page, content] : device.pages()) {
            pages.push_back(page);
        }
        return pages;
    };
    using Pages = std::vector<std::uint64_t>;
    CHECK(arrived({0, {}, false, 0}).empty());
    CHECK(arrived({0, {true}, false, 0}) == Pages{0, 1, 2, 3, 4});
    CHECK(arrived({0, {}, true, 0}) == Pages{0, 1});
    // Each cut from the front and from the end, and then again.
    CHECK(arrived({0, {}, true, 1}) == Pages{0});
    CHECK(arrived({0, {}, true, 4}) == Pages{0, 1, 2, 3});
    CHECK(arrived({0, {}, true, 5}) == Pages{4});
    CHECK(arrived({0, {}, true, 8}) == Pages{1, 2, 3, 4});
    CHECK(arrived({0, {}, true, 9}) == Pages{0});
    // The next one is not stopped.
    CHECK(device.write(0, bytes));
}

TEST_CASE("sim device: equal pages are kept once, whoever wrote them") {
    StepCounter steps;
    const auto pool = std::make_shared<PagePool>();
    SimDevice a(MiB, steps, pool);
    SimDevice b(MiB, steps, pool);
    REQUIRE(a.write(0, page_of(5)));
    REQUIRE(b.write(4096, page_of(5)));
    CHECK(a.pages().at(0) == b.pages().at(1));
    REQUIRE(b.write(4096, page_of(6)));
    CHECK(*a.read(0, 4096) == page_of(5));
}

TEST_CASE("sim drives: a drive that is taken shows its label, one that is released is blank") {
    Bench bench;
    CHECK_FALSE(bench.look(1).label);
    CHECK(bench.look(1).answered);
    CHECK(bench.look(1).health);
    SimDrives::set_content(bench.drives.in_slot(1), "ext4 filesystem 'old'");
    CHECK(bench.look(1).content == "ext4 filesystem 'old'");
    const auto label = bench.take(1);
    CHECK(label.partition == *partition_layout(drive_bytes));
    CHECK(bench.look(1).label == label);
    CHECK(bench.look(1).content.empty());
    CHECK_FALSE(bench.look(1).configuration);
    REQUIRE(bench.drives.release(bench.drives.in_slot(1).identity));
    CHECK_FALSE(bench.look(1).label);
    CHECK_FALSE(bench.look(1).trouble);
    CHECK(bench.look(1).content.empty());
    CHECK(bench.drives.in_slot(1).device->pages().empty());
}

TEST_CASE("sim drives: coercion decides where the partition ends") {
    Bench bench;
    const auto exact =
        bench.drives.take(bench.drives.in_slot(0).identity, bench.controller, Coercion::none);
    REQUIRE(exact);
    CHECK(exact->partition == *partition_layout(drive_bytes, Coercion::none));
    CHECK(bench.look(0).label == *exact);
}

TEST_CASE("sim drives: taking and releasing can be stopped at every step and done again") {
    for (const bool torn : {false, true}) {
        for (int step = 0;; ++step) {
            CAPTURE(torn, step);
            Bench bench;
            auto& drive = bench.drives.in_slot(0);
            const auto interrupted = [&](auto job) {
                bench.steps.arm({step, {}, torn, 3});
                try {
                    job();
                } catch (const Stopped&) {
                    return true;
                }
                bench.steps.arm(-1);
                return false;
            };
            const bool stopped = interrupted([&] {
                (void)bench.drives.take(drive.identity, bench.controller, Coercion::gib_1);
            });
            // Labelled or blank, never something in between.
            CHECK_FALSE(bench.look(0).trouble);
            bench.take(0);
            const bool again = interrupted([&] { (void)bench.drives.release(drive.identity); });
            REQUIRE(bench.drives.release(drive.identity));
            CHECK(bench.drives.in_slot(0).device->pages().empty());
            if (!stopped && !again) {
                CHECK(step > 4);
                break;
            }
        }
    }
}

TEST_CASE("sim drives: a drive in use is neither taken nor released") {
    Bench bench;
    bench.drives.in_slot(0).users = {"mounted on /"};
    const auto identity = bench.drives.in_slot(0).identity;
    CHECK(bench.drives.take(identity, bench.controller, Coercion::gib_1).error().code ==
          Errc::in_use);
    CHECK(bench.drives.release(identity).error().code == Errc::in_use);
    CHECK(bench.look(0).users == std::vector<std::string>{"mounted on /"});
    CHECK(bench.steps.count() == 0);
}

TEST_CASE("sim drives: pulled and inserted, the same or another one under the same kernel name") {
    Bench bench;
    const auto label = bench.take(1);
    const auto before = bench.drives.in_slot(1).identity;
    bench.drives.pull(1);
    CHECK(bench.drives.look().size() == 2);
    CHECK(bench.drives.by_partition(before.partition_path()) == nullptr);
    CHECK(bench.drives.read(before, 0, 4096).error().code == Errc::not_found);
    CHECK_THROWS_AS(bench.drives.pull(1), std::out_of_range);

    auto& other = bench.drives.insert_blank(1);
    CHECK(other.identity.name == before.name);
    CHECK(other.identity.serial != before.serial);
    CHECK(other.identity.size_bytes == before.size_bytes);
    CHECK_FALSE(bench.look(1).label);
    // Who still means the old one reaches nobody.
    CHECK(bench.drives.zero({{before, label.drive, GiB, MiB}}).error().code == Errc::not_found);
    CHECK(bench.drives.take(before, bench.controller, Coercion::gib_1).error().code ==
          Errc::not_found);
    CHECK_THROWS_AS(bench.drives.insert(1), std::invalid_argument);
    CHECK_THROWS_AS(bench.drives.add(1, drive_bytes), std::invalid_argument);
    CHECK_THROWS_AS(bench.drives.in_slot(17), std::out_of_range);
    bench.drives.pull(1);
    // The one that was there last comes back.
    CHECK(bench.drives.insert(1).identity.serial == other.identity.serial);
}

TEST_CASE("sim drives: a drive that does not answer is listed and says nothing") {
    Bench bench;
    const auto label = bench.take(0);
    auto& drive = bench.drives.in_slot(0);
    for (bool* fault : {&drive.answers, &drive.device->hung}) {
        const bool good = *fault;
        *fault = !good;
        CHECK_FALSE(bench.look(0).answered);
        CHECK_FALSE(bench.look(0).label);
        CHECK(bench.look(0).identity == drive.identity);
        CHECK(bench.drives.read(drive.identity, 0, 4096).error().code == Errc::timeout);
        CHECK(bench.drives.write(drive.identity, label.drive, GiB, page_of(0)).error().code ==
              Errc::timeout);
        *fault = good;
        CHECK(bench.look(0).label == label);
    }
    drive.device->failing = true;
    CHECK(bench.look(0).answered);
    CHECK(bench.look(0).trouble->code == Errc::io);
}

TEST_CASE("sim drives: writes reach only the drive that was meant") {
    Bench bench;
    const auto label = bench.take(0);
    bench.take(1);
    const auto identity = bench.drives.in_slot(1).identity;
    CHECK(bench.drives.write(identity, label.drive, 2 * GiB - 8 * MiB, page_of(1)).error().code ==
          Errc::not_found);
    CHECK(bench.drives.adopt(identity, label.drive, Uuid::random()).error().code ==
          Errc::not_found);
    const auto own = bench.look(1).label->drive;
    REQUIRE(bench.drives.write(identity, own, GiB + 9 * MiB, page_of(1)));
    CHECK(*bench.drives.read(identity, GiB + 9 * MiB, 4096) == page_of(1));
    const auto other = Uuid::random();
    REQUIRE(bench.drives.adopt(identity, own, other));
    CHECK(bench.look(1).label->controller == other);
    CHECK(bench.look(1).label->drive == own);
}

TEST_CASE("sim drives: a parallel write can be stopped with any subset of it done") {
    // Which of three drives have the new configuration, by what the stop says and what they show.
    for (unsigned subset = 0; subset < 8; ++subset) {
        for (const bool torn : {false, true}) {
            for (unsigned seed = 0; seed < 12; ++seed) {
                CAPTURE(subset, torn, seed);
                Bench bench;
                for (int slot = 0; slot < 3; ++slot) {
                    bench.take(slot);
                }
                const auto first = bench.configuration(1);
                for (const auto& done :
                     bench.drives.write_configuration(bench.drives.look(), first)) {
                    REQUIRE(done);
                }
                bench.steps.reset();
                bench.steps.arm(
                    {0, {(subset & 1U) != 0, (subset & 2U) != 0, (subset & 4U) != 0}, torn, seed});
                const auto found = bench.drives.look();
                CHECK_THROWS_AS(bench.drives.write_configuration(found, bench.configuration(2)),
                                Stopped);
                for (int slot = 0; slot < 3; ++slot) {
                    const auto shown = bench.look(slot);
                    REQUIRE(shown.configuration);
                    CHECK(shown.configuration->sequence ==
                          ((subset >> static_cast<unsigned>(slot) & 1U) != 0 ? 2 : 1));
                }
                // It goes on from there.
                for (const auto& done : bench.drives.write_configuration(bench.drives.look(),
                                                                         bench.configuration(3))) {
                    REQUIRE(done);
                }
                CHECK(bench.steps.widths() == std::vector<std::size_t>{3});
            }
        }
    }
}

TEST_CASE("sim drives: one drive of a parallel write that fails does not stop the others") {
    Bench bench;
    for (int slot = 0; slot < 3; ++slot) {
        bench.take(slot);
    }
    const auto found = bench.drives.look();
    bench.drives.in_slot(1).device->fail_writes = true;
    bench.drives.in_slot(2).answers = false;
    const auto done = bench.drives.write_configuration(found, bench.configuration(1));
    REQUIRE(done.size() == 3);
    CHECK(done[0]);
    CHECK(done[1].error().code == Errc::io);
    CHECK(done[2].error().code == Errc::timeout);
    CHECK(bench.look(0).configuration);
    CHECK_FALSE(bench.look(1).configuration);
}

TEST_CASE("sim drives: zeroing several ranges of several drives is one step") {
    Bench bench;
    std::vector<DriveRange> ranges;
    for (int slot = 0; slot < 2; ++slot) {
        const auto label = bench.take(slot);
        const auto identity = bench.drives.in_slot(slot).identity;
        for (const auto place : {GiB + 16 * MiB, GiB + 32 * MiB}) {
            REQUIRE(bench.drives.write(identity, label.drive, place, Bytes(MiB, std::byte{1})));
            ranges.push_back({identity, label.drive, place, MiB});
        }
    }
    bench.steps.reset();
    bench.steps.arm({0, {false, true}, true, 1});
    CHECK_THROWS_AS(bench.drives.zero(ranges), Stopped);
    const auto left = [&](std::size_t range) {
        const auto bytes = *bench.drives.read(ranges[range].drive, ranges[range].offset, MiB);
        return std::count(bytes.begin(), bytes.end(), std::byte{1});
    };
    // The second drive is done, the first one in the middle of its second range.
    CHECK(left(0) == 0);
    CHECK(left(1) == MiB - 4096);
    CHECK(left(2) == 0);
    CHECK(left(3) == 0);
    REQUIRE(bench.drives.zero(ranges));
    CHECK(left(1) == 0);
    CHECK(bench.steps.widths() == std::vector<std::size_t>{2});
}

TEST_CASE("sim drives: superblocks are written beside each other and read back") {
    Bench bench;
    std::vector<SuperblockWrite> writes;
    for (int slot = 0; slot < 2; ++slot) {
        const auto label = bench.take(slot);
        Superblock superblock;
        superblock.vd = Uuid::random();
        superblock.instance = Uuid::random();
        superblock.controller = bench.controller;
        superblock.epoch = {1, Uuid::random(), {}};
        superblock.row = 0;
        superblock.shape = {RaidLevel::raid1, 2, 2};
        superblock.strip_bytes = 65536;
        superblock.data_bytes = 64 * MiB;
        superblock.vd_bytes = 64 * MiB;
        superblock.data_offset = 32 * MiB;
        superblock.members = {{superblock.instance, 0, SyncState::in_sync, false, 0},
                              {Uuid::random(), 1, SyncState::in_sync, false, 0}};
        writes.push_back(
            {bench.drives.in_slot(slot).identity, label.drive, GiB + 9 * MiB, superblock});
    }
    CHECK(*bench.drives.read_superblock(writes[0].drive, writes[0].offset) == std::nullopt);
    bench.steps.reset();
    const auto written = bench.drives.write_superblocks(writes);
    INFO((written ? "" : written.error().message));
    REQUIRE(written);
    CHECK(bench.steps.widths() == std::vector<std::size_t>{2});
    for (const auto& write : writes) {
        const auto found = bench.drives.read_superblock(write.drive, write.offset);
        REQUIRE(found);
        REQUIRE(*found);
        CHECK((*found)->vd == write.superblock.vd);
    }
}

TEST_CASE("sim drives: a damaged partition table is seen and mended as on a real drive") {
    Bench bench;
    const auto label = bench.take(0);
    auto& drive = bench.drives.in_slot(0);
    SimDrives::damage_table(drive, false, true);
    CHECK(bench.look(0).table_damaged);
    CHECK(bench.look(0).label == label);
    SimDrives::damage_table(drive, true, false);
    // Both copies gone, and no VD on it: whoever did that meant it.
    CHECK_FALSE(bench.look(0).table_damaged);
    CHECK_FALSE(bench.look(0).label);
    CHECK(bench.look(0).trouble->code == Errc::corrupt);

    bench.take(0);
    SimDrives::damage_table(drive, true, false);
    CHECK(bench.look(0).table_damaged);
    CHECK_FALSE(bench.look(0).label);
    CHECK(bench.look(0).trouble);
    REQUIRE(bench.drives.repair_table(drive.identity));
    CHECK(bench.look(0).label);
    CHECK_FALSE(bench.look(0).table_damaged);
    CHECK_FALSE(bench.look(0).trouble);
}

TEST_CASE("sim drives: the back label counts when the front one is destroyed") {
    Bench bench;
    const auto label = bench.take(0);
    auto& drive = bench.drives.in_slot(0);
    CHECK(bench.look(0).label == label);
    REQUIRE(drive.device->zero(PERCH_FRONT_RESERVE_BYTES, MiB));
    CHECK(bench.look(0).label == label);
    REQUIRE(drive.device->zero(label.partition.offset + label.partition.length - MiB, MiB));
    CHECK_FALSE(bench.look(0).label);
}

TEST_CASE("sim drives: a directory keeps drives for the next process") {
    const TempDir directory;
    const auto place = directory.str("sim");
    Label label;
    const auto controller = Uuid::random();
    {
        StepCounter steps;
        SimDrives drives(steps);
        REQUIRE(drives.keep_in(place));
        for (int slot = 0; slot < 3; ++slot) {
            drives.add(slot, 3'200'000'000'000ULL, slot == 1 ? 4096 : 512);
        }
        label = *drives.take(drives.in_slot(0).identity, controller, Coercion::gib_1);
        Configuration configuration;
        configuration.controller = controller;
        configuration.sequence = 4;
        configuration.id = Uuid::random();
        REQUIRE(drives.write_configuration({drives.look()[0]}, configuration)[0]);
        SimDrives::set_content(drives.in_slot(2), "xfs filesystem");
        drives.pull(1);
    }
    StepCounter steps;
    SimDrives drives(steps);
    REQUIRE(drives.keep_in(place));
    const auto found = drives.look();
    REQUIRE(found.size() == 2);
    CHECK(found[0].label == label);
    CHECK(found[0].configuration->sequence == 4);
    CHECK(found[1].content == "xfs filesystem");
    CHECK(drives.insert(1).identity.logical_block_bytes == 4096);
    CHECK(drives.add(3, GiB).identity.serial != drives.in_slot(0).identity.serial);
    // 9.6 TB take next to nothing.
    std::uintmax_t used = 0;
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
        struct stat info {};
        REQUIRE(stat(entry.path().c_str(), &info) == 0);
        used += static_cast<std::uintmax_t>(info.st_blocks) * 512;
    }
    CHECK(used < MiB);

    directory.write("sim/drives", "SIM0000 0 12 512 present\n");
    SimDrives broken(steps);
    const auto refused = broken.keep_in(place);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("drives:1:") != std::string::npos);
}

}  // namespace perch::test
