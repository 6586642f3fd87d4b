// SPDX-License-Identifier: GPL-2.0-or-later
// What tests ask of texts for people.
#pragma once

#include <string>

namespace perch::test {

inline bool mentions(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace perch::test
