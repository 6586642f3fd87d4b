// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "ondisk/gpt.hpp"
#include "util/unique_fd.hpp"

namespace perch::test {

/// write_gpt on a path.
inline Result<void> write_gpt_to(const std::string& path, const PartitionLayout& partition,
                                 std::uint32_t logical_block_bytes) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "{}: {}", path, errno_text(errno));
    }
    return write_gpt(fd.get(), path, partition, logical_block_bytes);
}

}  // namespace perch::test
