// SPDX-License-Identifier: GPL-2.0-or-later
// The GPT of a drive that Perch takes, through libfdisk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "layout/drive_layout.hpp"
#include "util/error.hpp"

namespace perch {

/// Replaces whatever partition table is there by a GPT with Perch's one partition, and tells the
/// kernel. Everything goes through `fd`, open for writing; `path` is for messages. The logical
/// block size of a regular file is taken as given.
Result<void> write_gpt(int fd, const std::string& path, const PartitionLayout& partition,
                       std::uint32_t logical_block_bytes);

/// Where Perch's partition is, if the drive carries a GPT with one. Errc::corrupt when it is not
/// the first one any more: somebody has edited the table, and "p1" is something else.
Result<std::optional<PartitionLayout>> find_partition(const std::string& path,
                                                      std::uint32_t logical_block_bytes);

}  // namespace perch
