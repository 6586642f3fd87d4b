// SPDX-License-Identifier: GPL-2.0-or-later
// Lines of device-mapper text: words between blanks, decimal numbers, names from a table.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace perch::dm {

/// The words of a line.
inline std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> words;
    while (true) {
        const auto start = text.find_first_not_of(' ');
        if (start == std::string_view::npos) {
            return words;
        }
        text.remove_prefix(start);
        const auto end = std::min(text.find(' '), text.size());
        words.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
}

/// False: it is not wholly a number that fits.
template <typename T>
bool to_number(std::string_view text, T& value) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && rest == text.data() + text.size();
}

/// "3/10".
template <typename T>
bool to_fraction(std::string_view text, T& part, T& whole) {
    const auto slash = text.find('/');
    return slash != std::string_view::npos && to_number(text.substr(0, slash), part) &&
           to_number(text.substr(slash + 1), whole);
}

/// What a table says of a word; `other` for one that it does not have.
template <typename T, std::size_t count>
T look_up(const std::array<std::pair<std::string_view, T>, count>& table, std::string_view word,
          T other) {
    const auto* found = std::find_if(table.begin(), table.end(),
                                     [&](const auto& row) { return row.first == word; });
    return found == table.end() ? other : found->second;
}

}  // namespace perch::dm
