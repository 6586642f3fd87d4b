// SPDX-License-Identifier: GPL-2.0-or-later
// VDs on Perch's own target (module dm-perch): one device for each, right above the partitions of
// its members.
//
// A change of members is a reload: the new table is loaded beside the live one, then suspend and
// resume swap them, which stops the VD in order and starts it again. Who is in sync then is decided
// by the superblocks, never by the table; so a member that was lost in between is not brought back.
#pragma once

#include <string>

#include "engine/engine.hpp"

namespace perch::dm {

inline constexpr const char* perch_target_type = "perch";

/// Whether the kernel has the target, in a version that this program can work with; loads the
/// module. Errc::unsupported.
Result<void> check_perch_target();
/// As Engine::apply.
Result<void> apply_perch(const EngineVd& vd);
/// What a device of the target says of itself.
Result<EngineStatus> perch_status(const std::string& name);

}  // namespace perch::dm
