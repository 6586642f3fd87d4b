// SPDX-License-Identifier: GPL-2.0-or-later
#include "change.hpp"
#include "handlers.hpp"
#include "layout/drive_layout.hpp"
#include "rows.hpp"

namespace perch::cli {

namespace {

constexpr const char* property = "Drive Coercion Mode";

}  // namespace

std::optional<Coercion> coercion_of(std::string_view text) {
    if (const auto number = parse_number(text)) {
        const bool known = *number <= static_cast<int>(Coercion::gib_1);
        return known ? std::optional(static_cast<Coercion>(*number)) : std::nullopt;
    }
    for (const auto mode : {Coercion::none, Coercion::mib_128, Coercion::gib_1}) {
        if (lower(to_string(mode)) == lower(text)) {
            return mode;
        }
    }
    return std::nullopt;
}

Reply show_coercion(Session& session, const Invocation& /*invocation*/) {
    const auto snapshot = session.connection.snapshot();
    if (!snapshot) {
        return failure_reply(snapshot.error());
    }
    Reply reply;
    reply.preface = daemon_banner(*snapshot);
    reply.blocks = {{controller_properties_table({{property, coercion_text(snapshot->coercion)}})}};
    return reply;
}

Reply set_coercion(Session& session, const Invocation& invocation) {
    const auto word = to_string(*coercion_of(invocation.value("coercion")));
    const auto outcome =
        change(session, "POST", fmt::format("{}/Actions/Oem/PerchStorage.SetCoercion", storage_uri),
               {{"Coercion", word}});
    if (!outcome) {
        return failure_reply(outcome.error());
    }
    Reply reply;
    reply.blocks = {{controller_properties_table({{property, coercion_text(word)}})}};
    return reply;
}

}  // namespace perch::cli
