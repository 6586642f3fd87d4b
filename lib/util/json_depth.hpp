// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

namespace perch {

/// Whether JSON text nests no deeper than `limit`. Parsers, copies and destructors recurse as
/// deeply as their input, so text from outside is measured first.
inline bool json_depth_within(std::string_view text, int limit) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if (quoted) {
            i += letter == '\\' ? 1 : 0;
            quoted = letter != '"';
        } else if (letter == '"') {
            quoted = true;
        } else if (letter == '[' || letter == '{') {
            if (++depth > limit) {
                return false;
            }
        } else if (letter == ']' || letter == '}') {
            --depth;
        }
    }
    return true;
}

}  // namespace perch
