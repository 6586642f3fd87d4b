// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/uuid.hpp"

#include <sys/random.h>

#include <boost/uuid/string_generator.hpp>
#include <boost/uuid/uuid.hpp>
#include <boost/uuid/uuid_io.hpp>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace perch {

Uuid Uuid::random() {
    Uuid uuid;
    // 16 bytes are always returned whole once the generator is seeded (getrandom(2)).
    if (getrandom(uuid.bytes.data(), uuid.bytes.size(), 0) !=
        static_cast<ssize_t>(uuid.bytes.size())) {
        std::abort();
    }
    uuid.bytes[6] = static_cast<std::uint8_t>((uuid.bytes[6] & 0x0fU) | 0x40U);
    uuid.bytes[8] = static_cast<std::uint8_t>((uuid.bytes[8] & 0x3fU) | 0x80U);
    return uuid;
}

Result<Uuid> Uuid::parse(std::string_view text) {
    // The generator also takes other forms.
    if (text.size() != 36 || text[8] != '-') {
        return fail(Errc::invalid_argument, "'{}' is not a UUID", text);
    }
    try {
        const auto parsed = boost::uuids::string_generator()(text.begin(), text.end());
        Uuid uuid;
        std::memcpy(uuid.bytes.data(), parsed.data, uuid.bytes.size());
        return uuid;
    } catch (const std::runtime_error&) {
        return fail(Errc::invalid_argument, "'{}' is not a UUID", text);
    }
}

std::string Uuid::str() const {
    boost::uuids::uuid copy{};
    std::memcpy(copy.data, bytes.data(), bytes.size());
    return boost::uuids::to_string(copy);
}

}  // namespace perch
