// SPDX-License-Identifier: GPL-2.0-or-later
#include "value.hpp"

namespace perch::cli {

std::string value_text(const Value& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
        return fmt::format("{}", *number);
    }
    return std::get<std::string>(value);
}

Value yes_no(bool value) {
    return std::string(value ? "Yes" : "No");
}

Value number_or_dash(const std::optional<int>& value) {
    if (value) {
        return std::int64_t{*value};
    }
    return std::string("-");
}

Reply failure_reply(const Error& error) {
    Reply reply;
    reply.error = error;
    return reply;
}

int exit_status(const std::vector<Reply>& replies) {
    for (const auto& reply : replies) {
        if (reply.error) {
            return errc_info(reply.error->code).exit_status;
        }
    }
    return 0;
}

}  // namespace perch::cli
