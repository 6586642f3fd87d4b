// SPDX-License-Identifier: GPL-2.0-or-later
// Binary golden files as text that a person can review: rows of an offset and 16 bytes, as hexdump
// -C prints them; rows of zeros are left out, and "# size N" says how many bytes there are.
#pragma once

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>

#include "util/bytes.hpp"

namespace perch::test {

inline Bytes parse_hex_dump(const std::string& text) {
    Bytes bytes;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("# size ")) {
            bytes.resize(std::stoul(line.substr(sizeof("# size ") - 1)));
            continue;
        }
        if (line.starts_with("#") || line.empty()) {
            continue;
        }
        std::istringstream words(line.substr(0, line.find('|')));
        std::size_t place = 0;
        words >> std::hex >> place;
        for (unsigned value = 0; words >> value; ++place) {
            bytes.at(place) = static_cast<std::byte>(value);
        }
    }
    if (bytes.empty()) {
        throw std::runtime_error("a hex dump without size");
    }
    return bytes;
}

}  // namespace perch::test
