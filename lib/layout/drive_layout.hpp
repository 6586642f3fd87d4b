// SPDX-License-Identifier: GPL-2.0-or-later
// Where things lie on a drive: coercion, the partition, and the extents inside it
// (kmod/uapi/perch_format.h). Pure arithmetic, all in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "util/error.hpp"

namespace perch {

/// The partition that Perch makes on a drive. Offsets from the start of the drive.
struct PartitionLayout {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    bool operator==(const PartitionLayout&) const = default;
};

/// How much a drive's usable size is rounded down, so that a replacement of the same class that is
/// a little smaller still fits. The values are perccli's 0, 1 and 2.
enum class Coercion {
    none,     ///< to 1 MiB
    mib_128,  ///< to 128 MiB
    gib_1,    ///< less 256 MiB, then to 1 GiB: the default
};

/// "None", "128M", "1G", as perccli prints them.
std::string to_string(Coercion coercion);
std::optional<Coercion> parse_coercion(std::string_view text);

/// Where the partition goes on a drive of that size. Errc::too_small when nothing usable is left.
Result<PartitionLayout> partition_layout(std::uint64_t device_bytes,
                                         Coercion coercion = Coercion::gib_1);

/// Bytes for extents in a partition of that length: what lies between the second configuration
/// slot and the last MiB.
std::uint64_t extent_space(std::uint64_t partition_bytes);

}  // namespace perch
