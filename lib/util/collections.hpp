// SPDX-License-Identifier: GPL-2.0-or-later
// Two questions that lists are asked everywhere.
#pragma once

#include <algorithm>

namespace perch {

template <typename List, typename Value>
bool contains(const List& list, const Value& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
}

/// The first number from `from` on for which `used` is false.
template <typename Used>
int first_free(int from, Used used) {
    while (used(from)) {
        ++from;
    }
    return from;
}

}  // namespace perch
