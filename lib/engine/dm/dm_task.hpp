// SPDX-License-Identifier: GPL-2.0-or-later
// libdevmapper, with values and errors. Every change waits for udev (its cookie), so that nodes and
// links exist when a call returns; hence never call this from a program that a udev rule runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/error.hpp"

namespace perch::dm {

struct Target {
    std::uint64_t start_sectors = 0;
    std::uint64_t length_sectors = 0;
    std::string type;
    std::string params;
};

struct Info {
    std::string name;
    std::string uuid;
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    bool suspended = false;
    bool live_table = false;
    int open_count = 0;
    [[nodiscard]] std::string number() const { return fmt::format("{}:{}", major, minor); }
};

/// Who may see a device: a VD is for everybody, what lies below it for nobody (udev makes no links,
/// runs no probe on it).
enum class Visibility { published, hidden };

/// Creates, loads and resumes in one step. Errc::not_found: a device below is not there.
Result<void> create(const std::string& name, const std::string& uuid, const Target& target,
                    Visibility visibility);
/// Loads a new table beside the live one.
Result<void> load(const std::string& name, const Target& target);
/// Waits for I/O in flight, then holds new I/O back.
Result<void> suspend(const std::string& name);
/// Swaps in a loaded table, if any, and lets I/O flow.
Result<void> resume(const std::string& name, Visibility visibility);
/// Errc::in_use when it is open.
Result<void> remove(const std::string& name, Visibility visibility);
/// Gives a device another name; udev moves its links.
Result<void> rename(const std::string& name, const std::string& new_name);
/// Sends a message to the target at the device's beginning.
Result<void> message(const std::string& name, const std::string& text);
/// Drops a loaded table that was never resumed.
Result<void> clear(const std::string& name);

/// nullopt: no device with that UUID.
Result<std::optional<Info>> find(const std::string& uuid);
/// Devices whose UUID begins with the prefix.
Result<std::vector<Info>> list(std::string_view uuid_prefix);
Result<std::vector<Target>> table(const std::string& name);
Result<std::vector<Target>> status(const std::string& name);

struct TargetVersion {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
    std::uint32_t patch = 0;
};
/// Of a target type of this kernel, which loads its module if it must. nullopt: there is none.
Result<std::optional<TargetVersion>> target_version(const std::string& type);

/// False when the kernel has no device-mapper or we may not use it: `reason` says which.
bool available(std::string& reason);

}  // namespace perch::dm
