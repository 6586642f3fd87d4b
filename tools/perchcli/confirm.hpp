// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "grammar.hpp"

namespace perch::cli {

/// Before a destructive command: nothing when force was given or the user typed "yes" after reading
/// the facts; else Errc::not_confirmed, which says how to go on.
Result<void> confirm(Session& session, const Invocation& invocation,
                     const std::vector<std::string>& facts);

}  // namespace perch::cli
