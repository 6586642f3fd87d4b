// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/block_users.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "fake_sysfs.hpp"

using namespace perch;
using namespace perch::test;

namespace {

using Users = std::vector<std::string>;

/// nvme0n1 (259:0) with partitions p1 (259:1) and p2 (259:2), and dm devices.
struct Tree {
    Tree() {
        FakeNvme drive;
        drive.address = "0000:04:00.0";
        sysfs.add(drive);
        drive.number = 1;
        drive.address = "0000:05:00.0";
        sysfs.add(drive);
        for (int part = 1; part <= 2; ++part) {
            const auto name = fmt::format("nvme0n1p{}", part);
            sysfs.write(disk + "/" + name + "/partition", fmt::format("{}\n", part));
            sysfs.write(disk + "/" + name + "/dev", fmt::format("259:{}\n", part));
            sysfs.directory().link("sys/class/block/" + name, disk + "/" + name);
        }
        mounts("");
        swaps("");
    }
    void mounts(const std::string& text) const { sysfs.write("mountinfo", text); }
    void swaps(const std::string& text) const {
        sysfs.write("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" + text);
    }
    void hold(const std::string& part, const std::string& holder, const std::string& name,
              const std::string& uuid) const {
        const auto place = "sys/devices/virtual/block/" + holder;
        if (!name.empty()) {
            sysfs.write(place + "/dm/name", name + "\n");
            sysfs.write(place + "/dm/uuid", uuid + "\n");
        } else {
            sysfs.write(place + "/size", "0\n");
        }
        std::error_code ignored;
        std::filesystem::create_directory_symlink(
            sysfs.directory().path() / place, sysfs.directory().path() / "sys/class/block" / holder,
            ignored);
        sysfs.directory().link(disk + part + "/holders/" + holder, place);
    }
    [[nodiscard]] Users users(const std::string& name = "nvme0n1") const {
        return block_users(name, {sysfs.root(), sysfs.directory().str("mountinfo"),
                                  sysfs.directory().str("swaps")});
    }

    FakeSysfs sysfs;
    std::string disk = "sys/devices/pci0000:00/0000:04:00.0/nvme/nvme0/nvme0n1";
};

}  // namespace

TEST_CASE("users: nobody") {
    const Tree tree;
    CHECK(tree.users().empty());
    CHECK(block_users("nvme7n1", {"/nonexistent", "/nonexistent", "/nonexistent"}).empty());
}

TEST_CASE("users: mounts of the drive and of its partitions") {
    const Tree tree;
    tree.mounts(
        "22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n"
        "30 1 259:0 / /srv rw,relatime shared:1 - ext4 /dev/nvme0n1 rw\n"
        "31 1 259:2 /sub /home rw shared:2 - ext4 /dev/nvme0n1p2 rw\n"
        "32 1 259:20 / /not/ours rw shared:3 - ext4 /dev/nvme1n5 rw\n"
        "33 1 1259:0 / /nor/this rw shared:3 - ext4 /dev/x rw\n");
    CHECK(tree.users() == Users{"mounted on /srv", "mounted on /home"});
    CHECK(tree.users("nvme1n1").empty());
}

TEST_CASE("users: blanks and other odd characters in a mount point are shown as they are") {
    const Tree tree;
    tree.mounts("30 1 259:1 / /srv/my\\040data\\011x\\134y rw shared:1 - ext4 /dev/nvme0n1p1 rw\n");
    CHECK(tree.users() == Users{"mounted on /srv/my data\tx\\y"});
}

TEST_CASE("users: a mount point of any bytes becomes text that can be shown") {
    const Tree tree;
    tree.mounts("30 1 259:1 / /srv/\xe9t\xe9 rw shared:1 - ext4 /dev/nvme0n1p1 rw\n");
    const auto users = tree.users();
    REQUIRE(users.size() == 1);
    CHECK(users[0].starts_with("mounted on /srv/"));
    CHECK_NOTHROW(nlohmann::json(users[0]).dump());
}

TEST_CASE("users: a mount line cut short or with a stray backslash is no reason to stop") {
    const Tree tree;
    tree.mounts("30\n\n31 1 259:1\n32 1 259:1 / /a\\zzz rw\n33 1 259:1 / /b\\0 rw\n");
    Users users;
    REQUIRE_NOTHROW(users = tree.users());
    CHECK(std::find(users.begin(), users.end(), "mounted on /b\\0") != users.end());
}

TEST_CASE("users: swap, by any path to the device") {
    const Tree tree;
    // /proc/swaps names a node; here the tree's own stands for it.
    const auto node = tree.sysfs.directory().str("dev/nvme0n1p2");
    tree.sysfs.write("dev/nvme0n1p2", "");
    tree.sysfs.directory().link("dev/disk/by-id/swap", "dev/nvme0n1p2");
    tree.swaps(tree.sysfs.directory().str("dev/disk/by-id/swap") +
               "                              partition\t8388604\t0\t-2\n"
               "/swapfile                               file\t\t1048572\t0\t-3\n");
    CHECK(tree.users() == Users{"swap"});
    CHECK(tree.users("nvme1n1").empty());
}

TEST_CASE("users: LVM, md and others hold a drive or its partitions, by the name a person knows") {
    const Tree tree;
    tree.hold("", "md127", "", "");
    tree.hold("/nvme0n1p1", "dm-3", "vg0-data", "LVM-abc");
    CHECK(tree.users() == Users{"held by md127", "held by vg0-data"});
}

TEST_CASE("users: what Perch itself puts below a VD does not count, all others' dm devices do") {
    const Tree tree;
    tree.hold("/nvme0n1p1", "dm-0", "perch_a_meta", "PERCHPART-5d-a0-meta");
    tree.hold("/nvme0n1p1", "dm-1", "perch_a_data", "PERCHPART-5d-a0-data");
    CHECK(tree.users().empty());
    tree.hold("/nvme0n1p1", "dm-2", "mpatha", "mpath-nguid.1");
    CHECK(tree.users() == Users{"held by mpatha"});
    // A VD on Perch's own target holds its members' partitions itself.
    tree.hold("/nvme0n1p2", "dm-4", "perch-data", "PERCH-5d");
    CHECK(tree.users() == Users{"held by mpatha"});
}

TEST_CASE("read_line: the first line without what the kernel pads it with") {
    const TempDir directory;
    directory.write("serial", "SN 1   \nsecond\n");
    CHECK(read_line(directory.str("serial")) == "SN 1");
    CHECK(read_line(directory.str("absent")).empty());
    directory.write("empty", "");
    CHECK(read_line(directory.str("empty")).empty());
}
