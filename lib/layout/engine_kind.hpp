// SPDX-License-Identifier: GPL-2.0-or-later
// Which of the kernel's programs runs a VD. It is chosen when the VD is created, and its members'
// superblocks name it as their owner: no other may run it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "uapi/perch_format.h"

namespace perch {

enum class EngineKind : std::uint32_t {
    perch = PERCH_OWNER_PERCH,      ///< Perch's own target: the superblocks say who is in sync
    dm_raid = PERCH_OWNER_DM_RAID,  ///< dm-raid, or striped: dm-raid's superblocks say so
};

/// "perch", "dm-raid".
std::string to_string(EngineKind kind);
std::optional<EngineKind> parse_engine_kind(std::string_view text);

}  // namespace perch
