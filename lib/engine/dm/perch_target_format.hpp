// SPDX-License-Identifier: GPL-2.0-or-later
// The text of Perch's own target: table line and status line (dm-perch(7), kmod/dm/target.c).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.hpp"

namespace perch::dm {

/// What a table line says of a VD. `devices`: numbers ("259:4") by row; empty for an absent member.
std::string perch_params(const EngineVd& vd, const std::vector<std::string>& devices);

/// The parts of a table line that its status is read by.
struct PerchTable {
    std::uint64_t strip_sectors = 0;
    std::vector<bool> named;  ///< by row: whether the table names a device
};
Result<PerchTable> parse_perch_table(std::string_view params);

/// Members, task, mismatches, whether it is in sync, and trouble. A member that the table names and
/// the target does not use is failed.
Result<EngineStatus> parse_perch_status(std::string_view params, const PerchTable& table);

}  // namespace perch::dm
