// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuzz.hpp"
#include "ondisk/superblock.hpp"
#include "uapi/perch_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto encode = [](const perch::Superblock& superblock) {
        const auto bytes = perch::encode_superblock(superblock);
        perch::fuzz::require(bytes.has_value());  // what was read can be written
        return *bytes;
    };
    return perch::fuzz::round_trip<perch_superblock>(data, size, perch::decode_superblock, encode);
}
