// SPDX-License-Identifier: GPL-2.0-or-later
#include "handlers.hpp"
#include "rows.hpp"

namespace perch::cli {

namespace {

/// The vendor's locale bits: what kind of object an event is about.
int locale_of(const Event& event) {
    const auto mentions = [&](const char* word) {
        return event.message_id.find(word) != std::string::npos;
    };
    if (mentions("Volume")) {
        return 0x01;
    }
    return mentions("Drive") ? 0x02 : 0x20;
}

std::vector<std::string> event_record(const Event& event) {
    return {fmt::format("seqNum: {:#010x}", event.sequence),
            fmt::format("Time: {}", event_time_text(event.time)),
            "",
            fmt::format("Code: {:#010x}", event.code),
            fmt::format("Class: {}", static_cast<int>(event.severity)),
            fmt::format("Locale: {:#04x}", locale_of(event)),
            fmt::format("Event Description: {}", event.text),
            "Event Data:",
            "===========",
            "None",
            ""};
}

}  // namespace

Reply show_events(Session& session, const Invocation& invocation) {
    std::optional<int> latest;
    if (invocation.has("latest")) {
        latest = parse_number(invocation.value("latest"));
    } else if (invocation.has("type")) {
        latest = parse_number(invocation.value("type").substr(std::string("latest=").size()));
    }
    const auto events = session.connection.events(latest);
    if (!events) {
        return failure_reply(events.error());
    }
    Reply reply;
    Table table{"Events",
                {{"seqNum"},
                 {"Time"},
                 {"Code"},
                 {"Class"},
                 {"Severity"},
                 {"Locale"},
                 {"MessageId"},
                 {"Event Description"}},
                {},
                false,
                {}};
    for (const auto& event : *events) {
        for (auto& line : event_record(event)) {
            reply.preface.push_back(std::move(line));
        }
        table.rows.push_back({static_cast<std::int64_t>(event.sequence),
                              event_time_text(event.time), std::int64_t{event.code},
                              static_cast<std::int64_t>(event.severity), to_string(event.severity),
                              std::int64_t{locale_of(event)}, event.message_id, event.text});
    }
    if (events->empty()) {
        reply.description = "No events.";
    }
    reply.blocks = {{Notes{std::move(table), {}}}};
    return reply;
}

}  // namespace perch::cli
