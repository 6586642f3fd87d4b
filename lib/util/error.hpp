// SPDX-License-Identifier: GPL-2.0-or-later
// Errors as values. Every failure that a user can meet carries a code, which decides the exit
// status and the HTTP status, and a message that says what happened and what to do.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace perch {

enum class Errc {
    syntax,            ///< the command or request does not parse
    invalid_argument,  ///< it parses, but a value is out of range
    not_found,         ///< no such drive, VD, controller, task
    wrong_state,       ///< the object exists but its state forbids the operation
    data_found,        ///< a drive carries data that is not ours; needs force
    in_use,            ///< mounted, held by another subsystem, or the boot drive
    too_small,         ///< a drive or the free space is too small
    sector_size,       ///< logical block sizes do not fit together
    redundancy,        ///< the operation would lose data
    limit,             ///< a documented limit is reached
    io,                ///< a drive or the kernel answered with an error
    timeout,           ///< no answer in time
    incompatible,      ///< written by a newer version of Perch
    corrupt,           ///< metadata fails its checks
    unsupported,       ///< not in this version
    no_daemon,         ///< perchd does not answer
    permission,        ///< the caller may look but not change
    not_confirmed,     ///< the user did not confirm
    internal,          ///< a defect in Perch
};

/// What an error code means outside the library. exit_status is what perchcli ends with (1..255,
/// never 0; vendor values where the vendor's tools have one), http_status what perchd answers.
struct ErrcInfo {
    Errc code;
    std::string_view name;
    int exit_status;
    unsigned http_status;
    std::string_view meaning;
};

/// The one table of error codes; documentation and tests walk it.
const ErrcInfo& errc_info(Errc code);
/// The code with that name, or Errc::internal for a name this version does not know.
Errc errc_from_name(std::string_view name);

struct Error {
    Errc code = Errc::internal;
    std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

template <typename... Args>
tl::unexpected<Error> fail(Errc code, fmt::format_string<Args...> format, Args&&... args) {
    return tl::make_unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Pass an error on, with a prefix that says what was being done.
inline tl::unexpected<Error> fail_with(std::string_view doing, const Error& error) {
    return tl::make_unexpected(Error{error.code, fmt::format("{}: {}", doing, error.message)});
}

/// The text of an errno value, thread-safe.
std::string errno_text(int error_number);

}  // namespace perch
