// SPDX-License-Identifier: GPL-2.0-or-later
// The names and UUIDs of Perch's device-mapper devices. udev/64-perch.rules matches the same
// prefixes.
#pragma once

#include <string>
#include <string_view>

#include "util/uuid.hpp"

namespace perch::dm {

/// UUID prefix of a VD's own device; the VD's UUID follows.
inline constexpr std::string_view vd_prefix = "PERCH-";
/// UUID prefix of what lies below a VD: one member's data or metadata.
inline constexpr std::string_view part_prefix = "PERCHPART-";

enum class Part { metadata, data };

/// "perch-<vd name>": udev makes /dev/perch/<vd name> from it.
std::string vd_name(std::string_view name);
std::string vd_uuid(const Uuid& vd);
/// One span of a VD that stripes over spans.
std::string span_name(const Uuid& vd, int span);
std::string span_uuid(const Uuid& vd, int span);
/// Member devices are named after the member's instance, so that the device of a replaced member
/// and of its replacement can exist side by side.
std::string part_name(const Uuid& instance, Part part);
std::string part_uuid(const Uuid& vd, const Uuid& instance, Part part);

}  // namespace perch::dm
