// SPDX-License-Identifier: GPL-2.0-or-later
#include "fuzz.hpp"
#include "ondisk/label.hpp"
#include "uapi/perch_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return perch::fuzz::round_trip<perch_label>(data, size, perch::decode_label,
                                                perch::encode_label);
}
