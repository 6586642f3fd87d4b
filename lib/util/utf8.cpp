// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/utf8.hpp"

#include <cstdint>

namespace perch {

namespace {

/// Length of the valid sequence that begins here, 0 if there is none.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0U;
    };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    const auto first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return tail(1) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        const bool overlong = first == 0xE0 && byte(1) < 0xA0;
        const bool surrogate = first == 0xED && byte(1) > 0x9F;
        return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        const bool overlong = first == 0xF0 && byte(1) < 0x90;
        const bool beyond = first == 0xF4 && byte(1) > 0x8F;
        return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
    }
    return 0;
}

}  // namespace

std::string printable_utf8(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const auto length = sequence_length(text);
        const auto first = static_cast<std::uint8_t>(text.front());
        if (length == 0 || (first < 0x20 && first != '\t') || first == 0x7F) {
            result += '?';
            text.remove_prefix(1);
        } else {
            result += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return result;
}

}  // namespace perch
