// SPDX-License-Identifier: GPL-2.0-or-later
// The smallest view of a drive that metadata needs. Real drives are files opened with O_DIRECT
// (ondisk/file_device); tests use memory that can lose power between two writes.
#pragma once

#include <cstdint>
#include <span>

#include "util/bytes.hpp"
#include "util/error.hpp"

namespace perch {

class BlockDevice {
  public:
    BlockDevice() = default;
    BlockDevice(const BlockDevice&) = delete;
    BlockDevice& operator=(const BlockDevice&) = delete;
    virtual ~BlockDevice() = default;

    /// Bytes.
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    /// Offset and length in bytes, multiples of 4 KiB.
    virtual Result<Bytes> read(std::uint64_t offset, std::uint64_t length) = 0;
    /// Returns when the bytes are on stable storage. Offset and length multiples of 4 KiB.
    virtual Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
    /// As write, with zeros.
    virtual Result<void> zero(std::uint64_t offset, std::uint64_t length) = 0;
};

}  // namespace perch
