// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace perch {

using Bytes = std::vector<std::byte>;

/// The bytes of a trivially copyable object.
template <typename T>
std::span<const std::byte> bytes_of(const T& object) {
    return std::as_bytes(std::span<const T, 1>(&object, 1));
}

/// Copies a T out of raw bytes; the caller has checked that there are enough.
template <typename T>
T load(std::span<const std::byte> bytes) {
    T object;
    std::memcpy(&object, bytes.data(), sizeof(T));
    return object;
}

/// CRC32C (Castagnoli, RFC 3720 appendix B.4) of the bytes.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace perch
