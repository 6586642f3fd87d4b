// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/drive_identity.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <regex>
#include <tuple>

#include "drives/block_users.hpp"
#include "util/error.hpp"
#include "util/units.hpp"

namespace perch {

namespace fs = std::filesystem;

namespace {

constexpr int first_unslotted = 256;

std::uint64_t read_number(const fs::path& path) {
    const auto text = read_line(path);
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// "0000:04:00" of "0000:04:00.0".
std::string without_function(const std::string& address) {
    return address.substr(0, address.find('.'));
}

/// sysfs shows an unset NGUID as zeros.
bool is_set(const std::string& id) {
    return id.find_first_not_of("0-: ") != std::string::npos;
}

std::string durable_name(const fs::path& block, const DriveIdentity& drive) {
    if (const auto nguid = read_line(block / "nguid"); is_set(nguid)) {
        return "nguid." + nguid;
    }
    if (const auto eui = read_line(block / "eui"); is_set(eui)) {
        return "eui." + eui;
    }
    return fmt::format("{}_{}_{}", drive.model, drive.serial, drive.nsid);
}

/// The controller behind a namespace, "nvme3". Its number is mostly that of the namespace's name,
/// but not always: a drive that returns while something still holds what was there before, or one
/// with several paths, has the subsystem's number in its name (drivers/nvme/host/multipath.c).
std::string controller_of(const std::string& sysfs, const fs::path& block,
                          const std::string& otherwise) {
    const std::regex pattern("nvme[0-9]+");
    std::error_code error;
    const auto device = fs::canonical(block / "device", error);
    if (error || std::regex_match(device.filename().string(), pattern)) {
        return error ? otherwise : device.filename().string();
    }
    for (fs::directory_iterator it(device, error), end; !error && it != end; it.increment(error)) {
        auto name = it->path().filename().string();
        if (std::regex_match(name, pattern) &&
            read_line(fs::path(sysfs) / "class/nvme" / name / "state") == "live") {
            return name;
        }
    }
    return otherwise;
}

std::optional<DriveIdentity> read_drive(const std::string& sysfs, const std::string& name) {
    const std::regex pattern("(nvme[0-9]+)n[0-9]+");
    std::smatch match;
    if (!std::regex_match(name, match, pattern)) {
        return std::nullopt;  // a partition, another kind of drive, or a hidden multipath path
    }
    const fs::path block = fs::path(sysfs) / "class/block" / name;
    const fs::path queue = block / "queue";
    DriveIdentity drive;
    drive.name = name;
    drive.controller = controller_of(sysfs, block, match[1]);
    const fs::path controller = fs::path(sysfs) / "class/nvme" / drive.controller;
    drive.serial = read_line(controller / "serial");
    drive.model = read_line(controller / "model");
    drive.firmware = read_line(controller / "firmware_rev");
    drive.nsid = static_cast<int>(read_number(block / "nsid"));
    drive.size_bytes = read_number(block / "size") * sector_bytes;
    drive.logical_block_bytes =
        static_cast<std::uint32_t>(read_number(queue / "logical_block_size"));
    drive.physical_block_bytes =
        static_cast<std::uint32_t>(read_number(queue / "physical_block_size"));
    if (drive.serial.empty() || drive.size_bytes == 0 || drive.logical_block_bytes == 0) {
        return std::nullopt;  // on its way out, or without a usable namespace
    }
    drive.identity = durable_name(block, drive);
    if (read_line(controller / "transport") == "pcie") {
        drive.pci_address = read_line(controller / "address");
        drive.slot = slot_of(sysfs, drive.pci_address);
        drive.link_speed = read_line(controller / "device/current_link_speed");
        drive.link_width = static_cast<int>(read_number(controller / "device/current_link_width"));
    }
    return drive;
}

}  // namespace

std::string DriveIdentity::id() const {
    return nsid == 1 ? fmt::format("e{}s{}", enclosure, slot)
                     : fmt::format("e{}s{}n{}", enclosure, slot, nsid);
}

int slot_of(const std::string& sysfs, const std::string& pci_address) {
    // The device's own address and those of the bridges above it, nearest first.
    std::vector<std::string> chain{without_function(pci_address)};
    std::error_code error;
    auto place = fs::canonical(fs::path(sysfs) / "bus/pci/devices" / pci_address, error);
    while (!error && place.has_relative_path() && place.has_filename()) {
        place = place.parent_path();
        chain.push_back(without_function(place.filename()));
    }
    for (const auto& address : chain) {
        for (fs::directory_iterator it(fs::path(sysfs) / "bus/pci/slots", error), end;
             !error && it != end; it.increment(error)) {
            const std::string number = it->path().filename();
            int slot = 0;
            const auto [rest, bad] =
                std::from_chars(number.data(), number.data() + number.size(), slot);
            if (bad == std::errc() && read_line(it->path() / "address") == address) {
                return slot;
            }
        }
        error.clear();
    }
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
    if (std::sscanf(pci_address.c_str(), "%x:%x:%x", &domain, &bus, &device) == 3) {
        return first_unslotted + static_cast<int>(domain * 8192 + bus * 32 + device);
    }
    return -1;
}

std::vector<DriveIdentity> list_drives(const std::string& sysfs) {
    std::vector<DriveIdentity> drives;
    std::error_code error;
    for (fs::directory_iterator it(fs::path(sysfs) / "class/block", error), end;
         !error && it != end; it.increment(error)) {
        if (auto drive = read_drive(sysfs, it->path().filename())) {
            drives.push_back(std::move(*drive));
        }
    }
    std::sort(drives.begin(), drives.end(), [](const auto& a, const auto& b) {
        return std::tie(a.enclosure, a.slot, a.nsid, a.name) <
               std::tie(b.enclosure, b.slot, b.nsid, b.name);
    });
    return drives;
}

}  // namespace perch
