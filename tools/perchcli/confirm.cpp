// SPDX-License-Identifier: GPL-2.0-or-later
#include "confirm.hpp"

namespace perch::cli {

Result<void> confirm(Session& session, const Invocation& invocation,
                     const std::vector<std::string>& facts) {
    if (invocation.has("force")) {
        return {};
    }
    if (!session.terminal.interactive()) {
        return fail(Errc::not_confirmed,
                    "Not confirmed: there is no terminal to ask on. Add 'force' to go on without "
                    "being asked.");
    }
    for (const auto& fact : facts) {
        session.terminal.err(fact + "\n");
    }
    const auto answer = session.terminal.ask("Type 'yes' to go on: ");
    if (!answer || *answer != "yes") {
        return fail(Errc::not_confirmed, "Not confirmed; nothing was changed.");
    }
    return {};
}

}  // namespace perch::cli
