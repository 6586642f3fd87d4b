// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/names.hpp"

#include <fmt/format.h>

namespace perch::dm {

namespace {

std::string_view part_word(Part part) {
    return part == Part::metadata ? "meta" : "data";
}

}  // namespace

std::string vd_name(std::string_view name) {
    return fmt::format("perch-{}", name);
}
std::string vd_uuid(const Uuid& vd) {
    return fmt::format("{}{}", vd_prefix, vd.str());
}
std::string span_name(const Uuid& vd, int span) {
    return fmt::format("perch_{}_span{}", vd.str(), span);
}
std::string span_uuid(const Uuid& vd, int span) {
    return fmt::format("{}{}-span{}", part_prefix, vd.str(), span);
}
std::string part_name(const Uuid& instance, Part part) {
    return fmt::format("perch_{}_{}", instance.str(), part_word(part));
}
std::string part_uuid(const Uuid& vd, const Uuid& instance, Part part) {
    return fmt::format("{}{}-{}-{}", part_prefix, vd.str(), instance.str(), part_word(part));
}

}  // namespace perch::dm
