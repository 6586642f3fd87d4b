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

/// The two copies of a drive's GPT, and whether each is whole: header, checksums, entries. The
/// protective MBR belongs to the primary one, as the kernel and firmware see it.
struct GptCopies {
    bool primary = false;
    bool backup = false;
    [[nodiscard]] bool whole() const { return primary && backup; }
};
Result<GptCopies> check_gpt(const std::string& path, std::uint32_t logical_block_bytes);

/// Whether repair_gpt would do it, without writing. Errc::data_found: something that is not Perch's
/// was put on the drive since. Errc::corrupt: the copy that is left has Perch's partition at
/// another place than `partition`, or the place is none that Perch makes.
Result<void> can_repair_gpt(const std::string& path, const PartitionLayout& partition,
                            std::uint32_t logical_block_bytes);

/// Makes both copies whole: from the one that is, else anew. `partition` is where the drive's label
/// says that Perch's is. Errors as can_repair_gpt, and Errc::io. `fd` and `path` as in write_gpt.
///
/// Crash argument: the copy that is whole is rewritten with the bytes it has, and its missing
/// counterpart is written after it; where neither is whole, the label, which this does not touch,
/// still says the place. So it can be done again after a stop anywhere.
Result<void> repair_gpt(int fd, const std::string& path, const PartitionLayout& partition,
                        std::uint32_t logical_block_bytes);

}  // namespace perch
