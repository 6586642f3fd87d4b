// SPDX-License-Identifier: GPL-2.0-or-later
// Which NVMe drives there are, who they are and where they sit: read from sysfs,
// which never waits for a drive. What only the drive can tell is in drives/health.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perch {

/// One NVMe namespace as the kernel shows it. Reading this never waits for the drive.
struct DriveIdentity {
    std::string name;         ///< "nvme3n1"
    std::string controller;   ///< "nvme3"
    std::string pci_address;  ///< "0000:04:00.0"; empty off PCIe
    int enclosure = 0;
    int slot = -1;
    int nsid = 1;
    std::string serial;
    std::string model;
    std::string firmware;
    std::string identity;  ///< NGUID, else EUI64, else model + serial + namespace
    std::uint64_t size_bytes = 0;
    std::uint32_t logical_block_bytes = 512;
    std::uint32_t physical_block_bytes = 512;
    std::string link_speed;
    int link_width = 0;

    [[nodiscard]] std::string path() const { return "/dev/" + name; }
    /// The node of partition 1, Perch's.
    [[nodiscard]] std::string partition_path() const { return path() + "p1"; }
    /// "e0s3", the id everywhere else; a second namespace in a slot is "e0s3n2".
    [[nodiscard]] std::string id() const;
    bool operator==(const DriveIdentity&) const = default;
};

/// All NVMe namespaces below that sysfs, by slot. Vanishing while being read is no error: the
/// drive is just not listed.
std::vector<DriveIdentity> list_drives(const std::string& sysfs = "/sys");

/// The slot of a PCI function: the number of the hot-plug slot that holds it or a bridge above it,
/// else 256 + 8192 * domain + 32 * bus + device, so that it depends on the place and never on the
/// drive.
int slot_of(const std::string& sysfs, const std::string& pci_address);

}  // namespace perch
