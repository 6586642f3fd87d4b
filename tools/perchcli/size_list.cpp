// SPDX-License-Identifier: GPL-2.0-or-later
#include "size_list.hpp"

#include <algorithm>
#include <charconv>

#include "ondisk/configuration.hpp"
#include "tokenizer.hpp"
#include "util/units.hpp"

namespace perch::cli {

namespace {

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts;
    while (true) {
        const auto end = text.find(',');
        parts.emplace_back(text.substr(0, end));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

/// Bytes of "g", "gb", "gib"; nothing for what is no unit.
std::optional<std::uint64_t> unit_bytes(const std::string& unit) {
    constexpr std::string_view letters = "kmgtp";
    const auto place = unit.empty() ? std::string_view::npos : letters.find(unit.front());
    const auto rest = unit.empty() ? std::string() : unit.substr(1);
    if (place == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) {
        return std::nullopt;
    }
    std::uint64_t bytes = KiB;
    for (std::size_t i = 0; i < place; ++i) {
        bytes *= 1024;
    }
    return bytes;
}

/// Whole units and thousandths of "446.625": three decimals are what `show` prints.
struct Decimal {
    std::uint64_t whole = 0;
    std::uint64_t thousandths = 0;
};

std::optional<std::uint64_t> digits(std::string_view text) {
    std::uint64_t value = 0;
    const auto* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::optional<Decimal> parse_decimal(std::string_view text) {
    const auto point = text.find('.');
    const auto whole = digits(text.substr(0, point));
    if (point == std::string_view::npos) {
        return whole ? std::optional(Decimal{*whole, 0}) : std::nullopt;
    }
    auto fraction = std::string(text.substr(point + 1));
    constexpr std::size_t places = 3;
    if (!whole || fraction.empty() || fraction.size() > places) {
        return std::nullopt;
    }
    fraction.resize(places, '0');
    const auto thousandths = digits(fraction);
    return thousandths ? std::optional(Decimal{*whole, *thousandths}) : std::nullopt;
}

/// More than any VD can have: 256 drives of 64 TiB.
constexpr std::uint64_t largest_size = TiB * 1024 * 16;

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto number = parse_decimal(text.substr(0, end));
    const auto unit = unit_bytes(lower(text.substr(end)));
    if (!number || !unit) {
        return fail(Errc::invalid_argument,
                    "'{}' is not a size; give a number and a unit, such as 100G or 1.5T "
                    "(1G is 1 GiB)",
                    text);
    }
    if (number->whole > largest_size / *unit) {
        return fail(Errc::invalid_argument, "'{}' is larger than any VD can be", text);
    }
    constexpr std::uint64_t thousand = 1000;
    const auto bytes = number->whole * *unit + number->thousandths * *unit / thousand;
    if (bytes == 0) {
        return fail(Errc::invalid_argument, "a VD of size 0 makes no sense");
    }
    return bytes;
}

Result<std::vector<std::optional<std::uint64_t>>> parse_sizes(std::string_view text) {
    std::vector<std::optional<std::uint64_t>> sizes;
    for (const auto& part : split(text)) {
        if (!sizes.empty() && !sizes.back()) {
            return fail(Errc::invalid_argument, "nothing is left after 'all'; it can only be last");
        }
        if (lower(part) == "all" || lower(part) == "remaining") {
            sizes.emplace_back(std::nullopt);
            continue;
        }
        const auto size = parse_size(part);
        if (!size) {
            return tl::make_unexpected(size.error());
        }
        sizes.emplace_back(*size);
    }
    return sizes;
}

Result<std::vector<std::string>> parse_names(std::string_view text) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    std::vector<std::string> names;
    for (auto& name : split(text)) {
        const bool good = !name.empty() && name.size() <= max_vd_name && letter(name.front()) &&
                          std::all_of(name.begin(), name.end(), [&](char c) {
                              return letter(c) || c == '.' || c == '_' || c == '-';
                          });
        if (!good) {
            return fail(Errc::invalid_argument,
                        "a name has 1 to {} characters out of A-Z a-z 0-9 . _ - and begins with a "
                        "letter or digit",
                        max_vd_name);
        }
        if (std::find(names.begin(), names.end(), name) != names.end()) {
            return fail(Errc::invalid_argument, "the name '{}' is given twice", name);
        }
        names.push_back(std::move(name));
    }
    return names;
}

}  // namespace perch::cli
