// SPDX-License-Identifier: GPL-2.0-or-later
// Sizes. Everywhere in Perch a size is in bytes unless the name says sectors, and a sector is 512
// bytes whatever the drive's logical block size (the kernel's convention).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "util/error.hpp"

namespace perch {

inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t GiB = 1024 * MiB;
inline constexpr std::uint64_t TiB = 1024 * GiB;
inline constexpr std::uint64_t sector_bytes = 512;

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t step) {
    return value - value % step;
}
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
    return round_down(value + step - 1, step);
}

/// A size the way the v8 command line prints it: three decimals and a binary unit ("446.625 GiB").
std::string format_size(std::uint64_t bytes);
/// A strip or sector size: whole numbers, "512B", "4 KiB", "1 MiB".
std::string format_block(std::uint64_t bytes);
/// A strip as a person types it: "64" means KiB, "64k", "64KiB", "1m". Returns bytes.
Result<std::uint64_t> parse_strip(std::string_view text);
/// Seconds as the vendor's tools print them: "6 Hours 25 Minutes", "40 Seconds".
std::string format_duration(std::uint64_t seconds);

}  // namespace perch
