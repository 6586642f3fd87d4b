// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace perch {

/// Where the kernel's views are; tests put a tree of their own here.
struct KernelViews {
    std::string sysfs = "/sys";
    std::string mountinfo = "/proc/self/mountinfo";
    std::string swaps = "/proc/swaps";
};

/// Who uses a block device or one of its partitions: "mounted on /srv", "swap", "held by vg0-data".
/// VDs and what lies below them do not count; their UUIDs begin with `engine/dm/names.hpp`'s
/// prefixes. Empty: nobody.
std::vector<std::string> block_users(const std::string& name, const KernelViews& views = {});

/// First line of a small file without the trailing blanks; empty when it cannot be read. Bytes that
/// are no UTF-8 come back as '?': what drives call themselves ends up in JSON.
std::string read_line(const std::string& path);

}  // namespace perch
