// SPDX-License-Identifier: GPL-2.0-or-later
// From argv to words. One argv word may hold several words ("show rebuild"), and "key = value" is
// one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "util/error.hpp"

namespace perch::cli {

struct Word {
    std::string text;
    bool quoted = false;  ///< held quotes: never a keyword
    bool operator==(const Word&) const = default;
};

/// Lower case, ASCII only: the command language has no other letters.
std::string lower(std::string_view text);

/// Joins with blanks and splits again; quotes keep blanks together; "key = value" and "a, b" after
/// a
/// '=' become one word. Errc::syntax for a quote that is not closed.
Result<std::vector<Word>> tokenize(const std::vector<std::string>& arguments);

}  // namespace perch::cli
