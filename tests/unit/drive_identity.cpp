// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/drive_identity.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "fake_sysfs.hpp"
#include "util/units.hpp"

using namespace perch;
using namespace perch::test;

namespace {

FakeNvme nvme(int number, const std::string& address, const std::string& parents = "") {
    FakeNvme drive;
    drive.number = number;
    drive.address = address;
    drive.parents = parents;
    return drive;
}

}  // namespace

TEST_CASE("drives: what sysfs says of a drive") {
    const FakeSysfs sysfs;
    auto drive = nvme(3, "0000:04:00.0", "0000:00:1c.0");
    drive.nguid = "01020304-0506-0708-090a-0b0c0d0e0f10";
    sysfs.add(drive);
    sysfs.add_slot("7", "0000:04:00");
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    DriveIdentity expected;
    expected.name = "nvme3n1";
    expected.controller = "nvme3";
    expected.pci_address = "0000:04:00.0";
    expected.slot = 7;
    expected.serial = "PERCH00000003";
    expected.model = "QEMU NVMe Ctrl";
    expected.firmware = "7.2.0";
    expected.identity = "nguid.01020304-0506-0708-090a-0b0c0d0e0f10";
    expected.size_bytes = 6251233968 * sector_bytes;
    expected.logical_block_bytes = 512;
    expected.physical_block_bytes = 4096;
    expected.link_speed = "32.0 GT/s PCIe";
    expected.link_width = 4;
    CHECK(drives[0] == expected);
    CHECK(drives[0].id() == "e0s7");
    CHECK(drives[0].path() == "/dev/nvme3n1");
    CHECK(drives[0].partition_path() == "/dev/nvme3n1p1");
}

TEST_CASE("drives: a 4Kn drive's size is in 512-byte sectors all the same") {
    const FakeSysfs sysfs;
    auto drive = nvme(0, "0000:04:00.0");
    drive.block_bytes = 4096;
    drive.sectors = 8 * GiB / 512;
    sysfs.add(drive);
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].logical_block_bytes == 4096);
    CHECK(drives[0].size_bytes == 8 * GiB);
}

TEST_CASE("drives: identity is NGUID, else EUI64, else model, serial and namespace") {
    const FakeSysfs sysfs;
    auto drive = nvme(0, "0000:04:00.0");
    drive.nguid = "01020304-0506-0708-090a-0b0c0d0e0f10";
    drive.eui = "00 25 38 00 00 00 00 01";
    sysfs.add(drive);
    drive = nvme(1, "0000:05:00.0");
    drive.eui = "00 25 38 00 00 00 00 02";
    sysfs.add(drive);
    sysfs.add(nvme(2, "0000:06:00.0"));
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 3);
    CHECK(drives[0].identity == "nguid.01020304-0506-0708-090a-0b0c0d0e0f10");
    CHECK(drives[1].identity == "eui.00 25 38 00 00 00 00 02");
    CHECK(drives[2].identity == "QEMU NVMe Ctrl_PERCH00000002_1");
}

TEST_CASE("drives: a serial number of any bytes becomes text that can be shown and stored") {
    const FakeSysfs sysfs;
    auto drive = nvme(0, "0000:04:00.0");
    drive.serial = "SN\xff\x80\x01";
    sysfs.add(drive);
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].serial.starts_with("SN"));
    CHECK_NOTHROW(nlohmann::json(drives[0].serial).dump());
    CHECK_NOTHROW(nlohmann::json(drives[0].identity).dump());
}

TEST_CASE("drives: one that returns under another controller's number is the same drive") {
    // As seen with a pulled drive whose old device a VD still held: nvme3's namespace is nvme1n2.
    const FakeSysfs sysfs;
    auto drive = nvme(3, "0000:05:00.0");
    drive.name = "nvme1n2";
    drive.serial = "PERCH00000001";
    sysfs.add(drive);
    sysfs.add_slot("1", "0000:05:00");
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].name == "nvme1n2");
    CHECK(drives[0].controller == "nvme3");
    CHECK(drives[0].nsid == 1);
    CHECK(drives[0].slot == 1);
    CHECK(drives[0].id() == "e0s1");
    CHECK(drives[0].serial == "PERCH00000001");
}

TEST_CASE("drives: of several paths to a drive the live one is taken") {
    const FakeSysfs sysfs;
    auto drive = nvme(3, "0000:05:00.0");
    sysfs.add(drive);
    const std::string subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys3";
    sysfs.write(subsystem + "/nvme1/state", "dead\n");
    sysfs.write("sys/class/nvme/nvme1/state", "dead\n");
    sysfs.directory().link(subsystem + "/nvme3", "sys/devices/pci0000:00/0000:05:00.0/nvme/nvme3");
    const auto block = sysfs.directory().path() / "sys/class/block/nvme3n1/device";
    std::filesystem::remove(block);
    sysfs.directory().link("sys/class/block/nvme3n1/device", subsystem);
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].controller == "nvme3");
    CHECK(drives[0].serial == "PERCH00000003");
}

TEST_CASE("drives: listed by slot, not by the kernel's number") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:06:00.0"));
    sysfs.add(nvme(1, "0000:05:00.0"));
    sysfs.add(nvme(10, "0000:04:00.0"));
    sysfs.add_slot("0", "0000:04:00");
    sysfs.add_slot("1", "0000:05:00");
    sysfs.add_slot("2", "0000:06:00");
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 3);
    CHECK(drives[0].name == "nvme10n1");
    CHECK(drives[1].name == "nvme1n1");
    CHECK(drives[2].name == "nvme0n1");
}

TEST_CASE("drives: a second namespace in a slot has an id of its own") {
    const FakeSysfs sysfs;
    const auto drive = nvme(0, "0000:04:00.0");
    sysfs.add(drive);
    sysfs.add_namespace(drive, "sys/devices/pci0000:00/0000:04:00.0/nvme/nvme0", 2);
    sysfs.add_slot("3", "0000:04:00");
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 2);
    CHECK(drives[0].id() == "e0s3");
    CHECK(drives[1].id() == "e0s3n2");
}

TEST_CASE("drives: partitions, hidden multipath nodes and other drives are not listed") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:04:00.0"));
    const std::string controller = "sys/devices/pci0000:00/0000:04:00.0/nvme/nvme0";
    for (const auto* name : {"nvme0c0n1", "nvme0n1p1", "sda", "dm-0", "nvme0", "loop0"}) {
        sysfs.write(controller + "/" + name + "/size", "1000\n");
        sysfs.write(controller + "/" + name + "/queue/logical_block_size", "512\n");
        sysfs.directory().link(std::string("sys/class/block/") + name, controller + "/" + name);
    }
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].name == "nvme0n1");
}

TEST_CASE("drives: one on its way out, or without a namespace, is not listed and hides no other") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:04:00.0"));
    auto empty = nvme(1, "0000:05:00.0");
    empty.sectors = 0;
    sysfs.add(empty);
    sysfs.add(nvme(2, "0000:06:00.0"));
    // The controller is gone already, its block device still there for a moment.
    std::filesystem::remove_all(sysfs.directory().path() /
                                "sys/devices/pci0000:00/0000:06:00.0/nvme/nvme2/serial");
    // A link that leads nowhere.
    sysfs.directory().link("sys/class/block/nvme9n1", "sys/devices/gone/nvme9n1");
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].name == "nvme0n1");
}

TEST_CASE("drives: no sysfs, no drives") {
    CHECK(list_drives("/nonexistent").empty());
}

TEST_CASE("slots: the nearest hot-plug slot above a function is its slot") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:05:00.0", "0000:00:1c.0/0000:03:00.0/0000:04:02.0"));
    CHECK(slot_of(sysfs.root(), "0000:05:00.0") == 256 + 5 * 32);
    // A slot of an unrelated device is none of it.
    sysfs.add_slot("99", "0000:09:00");
    CHECK(slot_of(sysfs.root(), "0000:05:00.0") == 256 + 5 * 32);
    // The slot that holds the whole enclosure's switch.
    sysfs.add_slot("40", "0000:03:00");
    CHECK(slot_of(sysfs.root(), "0000:05:00.0") == 40);
    // The slot of the drive itself is nearer.
    sysfs.add_slot("7", "0000:05:00");
    CHECK(slot_of(sysfs.root(), "0000:05:00.0") == 7);
}

TEST_CASE("slots: names that are no numbers do not count") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:05:00.0"));
    sysfs.add_slot("bay", "0000:05:00");
    CHECK(slot_of(sysfs.root(), "0000:05:00.0") == 256 + 5 * 32);
}

TEST_CASE("slots: without slots the place decides, so that a replacement gets the same number") {
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "0000:04:00.0"));
    sysfs.add(nvme(1, "0000:04:01.0"));
    sysfs.add(nvme(2, "0000:1f:00.0"));
    auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 3);
    CHECK(drives[0].slot == 256 + 4 * 32);
    CHECK(drives[1].slot == 256 + 4 * 32 + 1);
    CHECK(drives[2].slot == 256 + 0x1f * 32);
    // Another drive, under another kernel number, in the first one's place.
    std::filesystem::remove_all(sysfs.directory().path() / "sys");
    sysfs.add(nvme(8, "0000:04:00.0"));
    drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 1);
    CHECK(drives[0].slot == 256 + 4 * 32);
}

TEST_CASE("slots: two drives in different PCI domains never share a slot") {
    // VMD gives each of its domains the bus numbers from 0 on.
    const FakeSysfs sysfs;
    sysfs.add(nvme(0, "10000:01:00.0"));
    sysfs.add(nvme(1, "10001:01:00.0"));
    const auto drives = list_drives(sysfs.root());
    REQUIRE(drives.size() == 2);
    CHECK(drives[0].slot != drives[1].slot);
}

TEST_CASE("slots: what is no PCI address has none") {
    const FakeSysfs sysfs;
    CHECK(slot_of(sysfs.root(), "traddr=10.0.0.1") == -1);
    CHECK(slot_of(sysfs.root(), "") == -1);
}
