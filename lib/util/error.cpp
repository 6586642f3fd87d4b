// SPDX-License-Identifier: GPL-2.0-or-later
#include "util/error.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace perch {

namespace {

constexpr std::array<ErrcInfo, 19> table{{
    {Errc::syntax, "syntax", 1, 400, "The command or request does not parse."},
    {Errc::invalid_argument, "invalid_argument", 3, 400, "A value is out of range."},
    {Errc::not_found, "not_found", 255, 404, "No such object."},
    {Errc::wrong_state, "wrong_state", 50, 409, "The object's state forbids the operation."},
    {Errc::data_found, "data_found", 200, 409, "A drive carries data; needs force."},
    {Errc::in_use, "in_use", 201, 409, "In use; refused even with force."},
    {Errc::too_small, "too_small", 13, 409, "A drive is too small."},
    {Errc::sector_size, "sector_size", 202, 409, "Logical block sizes do not fit together."},
    {Errc::redundancy, "redundancy", 203, 409, "The operation would lose data."},
    {Errc::limit, "limit", 209, 409, "A documented limit is reached."},
    {Errc::io, "io", 206, 500, "A drive or the kernel answered with an error."},
    {Errc::timeout, "timeout", 205, 504, "No answer in time."},
    {Errc::incompatible, "incompatible", 207, 409, "Written by a newer version of Perch."},
    {Errc::corrupt, "corrupt", 208, 500, "Metadata fails its checks."},
    {Errc::unsupported, "unsupported", 210, 501, "Not in this version."},
    {Errc::no_daemon, "no_daemon", 204, 503, "perchd does not answer."},
    {Errc::permission, "permission", 213, 403, "Only root and group perch may change things."},
    {Errc::not_confirmed, "not_confirmed", 212, 409, "The user did not confirm."},
    {Errc::internal, "internal", 211, 500, "A defect in Perch."},
}};

}  // namespace

const ErrcInfo& errc_info(Errc code) {
    return table.at(static_cast<std::size_t>(code));
}

Errc errc_from_name(std::string_view name) {
    const auto* found =
        std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
    return found == table.end() ? Errc::internal : found->code;
}

std::string errno_text(int error_number) {
    return std::generic_category().message(error_number);
}

}  // namespace perch
