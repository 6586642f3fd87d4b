// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace perch {

std::string format_size(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 5> names{"KiB", "MiB", "GiB", "TiB", "PiB"};
    auto value = static_cast<double>(bytes) / static_cast<double>(KiB);
    std::size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < names.size()) {
        value /= 1024.0;
        ++unit;
    }
    if (unit == 0) {
        return fmt::format("{:.0f} KiB", value);
    }
    return fmt::format("{:.3f} {}", value, names.at(unit));
}

std::string format_block(std::uint64_t bytes) {
    if (bytes >= MiB && bytes % MiB == 0) {
        return fmt::format("{} MiB", bytes / MiB);
    }
    if (bytes >= KiB && bytes % KiB == 0) {
        return fmt::format("{} KiB", bytes / KiB);
    }
    return fmt::format("{}B", bytes);
}

Result<std::uint64_t> parse_strip(std::string_view text) {
    std::uint64_t number = 0;
    const auto* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    std::string unit(rest, end);
    std::transform(unit.begin(), unit.end(), unit.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool kib = unit.empty() || unit == "k" || unit == "kb" || unit == "kib";
    const bool mib = unit == "m" || unit == "mb" || unit == "mib";
    if (error != std::errc() || !(kib || mib) || number > 1024) {
        return fail(Errc::invalid_argument,
                    "'{}' is not a strip size; give KiB, for example strip=64", text);
    }
    return number * (mib ? MiB : KiB);
}

std::string format_duration(std::uint64_t seconds) {
    if (seconds < 60) {
        return fmt::format("{} Seconds", seconds);
    }
    const auto minutes = (seconds + 30) / 60;
    if (minutes < 60) {
        return fmt::format("{} Minutes", minutes);
    }
    return fmt::format("{} Hours {} Minutes", minutes / 60, minutes % 60);
}

}  // namespace perch
