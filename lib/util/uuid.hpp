// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "util/error.hpp"

namespace perch {

/// A UUID as 16 bytes in text order (RFC 4122 big-endian fields).
struct Uuid {
    std::array<std::uint8_t, 16> bytes{};

    /// A fresh random (version 4) UUID from the kernel's generator.
    static Uuid random();
    /// Parses "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", either case.
    static Result<Uuid> parse(std::string_view text);

    [[nodiscard]] std::string str() const;
    [[nodiscard]] bool is_nil() const { return *this == Uuid{}; }
    auto operator<=>(const Uuid&) const = default;
};

}  // namespace perch
