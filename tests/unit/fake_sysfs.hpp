// SPDX-License-Identifier: GPL-2.0-or-later
// A sysfs tree with NVMe drives in a temporary directory, as Linux 6.1 lays it out.
#pragma once

#include <fmt/format.h>

#include <string>

#include "support/temp_dir.hpp"

namespace perch::test {

struct FakeNvme {
    int number = 0;
    std::string address;  ///< "0000:04:00.0"
    std::string parents;  ///< bridges above it, "0000:00:1c.0/0000:03:00.0"
    std::uint64_t sectors = 6251233968;
    int block_bytes = 512;
    std::string nguid = "00000000-0000-0000-0000-000000000000";
    std::string eui = "00 00 00 00 00 00 00 00";
    std::string serial;  ///< empty: PERCH and the number
    std::string name;    ///< of the namespace; empty: from the number
};

class FakeSysfs {
  public:
    [[nodiscard]] std::string root() const { return directory_.str("sys"); }

    /// The drive nvme<number>n1 below its bridges.
    void add(const FakeNvme& drive) const {
        const auto name = fmt::format("nvme{}", drive.number);
        const auto pci = "sys/devices/pci0000:00/" + drive.parents +
                         (drive.parents.empty() ? "" : "/") + drive.address;
        const auto controller = pci + "/nvme/" + name;
        write(pci + "/current_link_speed", "32.0 GT/s PCIe\n");
        write(pci + "/current_link_width", "4\n");
        const auto serial =
            drive.serial.empty() ? fmt::format("PERCH{:08}", drive.number) : drive.serial;
        write(controller + "/serial", serial + "          \n");
        write(controller + "/model", "QEMU NVMe Ctrl                          \n");
        write(controller + "/firmware_rev", "7.2.0   \n");
        write(controller + "/transport", "pcie\n");
        write(controller + "/address", drive.address + "\n");
        directory_.link(controller + "/device", pci);
        write(controller + "/state", "live\n");
        add_namespace(drive, controller, 1);
        directory_.link("sys/class/nvme/" + name, controller);
        directory_.link("sys/bus/pci/devices/" + drive.address, pci);
    }
    /// One more namespace of a controller.
    void add_namespace(const FakeNvme& drive, const std::string& controller, int nsid) const {
        const auto name =
            drive.name.empty() ? fmt::format("nvme{}n{}", drive.number, nsid) : drive.name;
        const auto block = controller + "/" + name;
        write(block + "/dev", fmt::format("259:{}\n", drive.number * 16 + nsid - 1));
        write(block + "/nsid", fmt::format("{}\n", nsid));
        write(block + "/size", fmt::format("{}\n", drive.sectors));
        write(block + "/nguid", drive.nguid + "\n");
        write(block + "/eui", drive.eui + "\n");
        write(block + "/queue/logical_block_size", fmt::format("{}\n", drive.block_bytes));
        write(block + "/queue/physical_block_size", "4096\n");
        std::filesystem::create_directories(directory_.path() / block / "holders");
        directory_.link(block + "/device", controller);
        directory_.link("sys/class/block/" + name, block);
    }
    /// A hot-plug slot at that place, "0000:04:00".
    void add_slot(const std::string& name, const std::string& place) const {
        write("sys/bus/pci/slots/" + name + "/address", place + "\n");
    }
    void write(const std::string& name, const std::string& text) const {
        directory_.write(name, text);
    }
    [[nodiscard]] const TempDir& directory() const { return directory_; }

  private:
    TempDir directory_;
};

}  // namespace perch::test
