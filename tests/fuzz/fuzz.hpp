// SPDX-License-Identifier: GPL-2.0-or-later
// What the fuzzers have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "util/bytes.hpp"

namespace perch::fuzz {

/// Ends the run when a property does not hold.
inline void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// The input, cut or filled up with zeros to that length.
inline Bytes exactly(const std::uint8_t* data, std::size_t size, std::size_t length) {
    const auto input = std::as_bytes(std::span(data, size));
    Bytes bytes(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(std::min(size, length)));
    bytes.resize(length);
    return bytes;
}

/// Makes the checksum at `place` right: without that the fuzzer would never come past it.
inline Bytes sealed(Bytes bytes, std::size_t place) {
    const std::uint32_t nothing = 0;
    std::memcpy(&bytes[place], &nothing, sizeof(nothing));
    const auto sum = htole32(crc32c(bytes));
    std::memcpy(&bytes[place], &sum, sizeof(sum));
    return bytes;
}

/// Decodes the input as it is and with a right checksum. Whatever is accepted must be the same
/// after encoding and decoding it again.
template <typename Raw, typename Decode, typename Encode>
int round_trip(const std::uint8_t* data, std::size_t size, Decode decode, Encode encode) {
    (void)decode(std::as_bytes(std::span(data, size)));
    const auto bytes = exactly(data, size, sizeof(Raw));
    const auto value = decode(sealed(bytes, offsetof(Raw, crc32c)));
    if (value) {
        const Bytes again = encode(*value);
        const auto same = decode(again);
        require(same.has_value() && *same == *value);
    }
    return 0;
}

}  // namespace perch::fuzz
