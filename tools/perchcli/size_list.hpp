// SPDX-License-Identifier: GPL-2.0-or-later
// Values of options that are lists: sizes and names of the VDs of one command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/error.hpp"

namespace perch::cli {

/// "100G", "1.5TiB", "446.625 GiB" as bytes. Units are binary, as the vendor's tools mean them:
/// K, M, G, T, P, with B or iB or nothing behind, any case. Errc::invalid_argument for anything
/// else, a size of 0, and numbers without a unit.
Result<std::uint64_t> parse_size(std::string_view text);

/// "100G,1T,all": what each VD shall have; nothing for "all" and "remaining", which can only be
/// last.
Result<std::vector<std::optional<std::uint64_t>>> parse_sizes(std::string_view text);

/// "a,b": names, each good and none twice.
Result<std::vector<std::string>> parse_names(std::string_view text);

}  // namespace perch::cli
