// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/bytes.hpp"

#include <boost/crc.hpp>

namespace perch {

std::uint32_t crc32c(std::span<const std::byte> bytes) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

}  // namespace perch
