// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace perch {

/// The text with each byte that is not part of valid UTF-8 (RFC 3629), and each control character
/// but tab, replaced by '?'.
std::string printable_utf8(std::string_view text);

}  // namespace perch
