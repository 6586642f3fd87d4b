// SPDX-License-Identifier: GPL-2.0-or-later
#include "layout/engine_kind.hpp"

namespace perch {

std::string to_string(EngineKind kind) {
    return kind == EngineKind::perch ? "perch" : "dm-raid";
}

std::optional<EngineKind> parse_engine_kind(std::string_view text) {
    for (const auto kind : {EngineKind::perch, EngineKind::dm_raid}) {
        if (text == to_string(kind)) {
            return kind;
        }
    }
    return std::nullopt;
}

}  // namespace perch
