// SPDX-License-Identifier: GPL-2.0-or-later
#include "app.hpp"

#include <algorithm>
#include <array>

#include "grammar.hpp"
#include "help.hpp"
#include "render.hpp"

namespace perch::cli {

namespace {

bool is_version_request(const std::vector<Word>& words) {
    constexpr std::array<std::string_view, 5> names{"v", "-v", "version", "--version", "-version"};
    return words.size() == 1 && !words.front().quoted &&
           std::find(names.begin(), names.end(), lower(words.front().text)) != names.end();
}

int finish(const Environment& environment, const std::vector<Reply>& replies, bool json) {
    const Header header{cli_version(), environment.operating_system};
    environment.terminal.out(json ? render_json(replies, header) : render_text(replies, header));
    return exit_status(replies);
}

/// One controller exists. Ranges mean what exists; a controller named by itself must.
std::vector<Reply> run_on_controllers(Session& session, const Invocation& invocation) {
    const auto& wanted = *invocation.path.controllers;
    std::vector<Reply> replies;
    if (wanted.contains(0)) {
        auto reply = invocation.command->handler(session, invocation);
        reply.controller = 0;
        replies.push_back(std::move(reply));
    }
    auto absent = wanted.singles();
    absent.erase(std::remove(absent.begin(), absent.end(), 0), absent.end());
    if (replies.empty() && absent.empty()) {
        absent.push_back(wanted.ranges.front().from);
    }
    for (const int id : absent) {
        auto reply = failure_reply({Errc::not_found, fmt::format("Controller {} not found", id)});
        reply.controller = id;
        reply.controller_is_number = true;
        replies.push_back(std::move(reply));
    }
    return replies;
}

}  // namespace

int run(const Environment& environment, const std::vector<std::string>& arguments) {
    auto words = tokenize(arguments);
    if (!words) {
        const bool json = std::any_of(arguments.begin(), arguments.end(),
                                      [](const auto& word) { return lower(word) == "j"; });
        return finish(environment, {failure_reply(words.error())}, json);
    }
    const auto options = take_global_options(*words);
    if (is_version_request(*words)) {
        environment.terminal.out(banner() + "\n");
        return 0;
    }
    if (const auto help = help_request(*words)) {
        const auto text = help_text(*help);
        if (!text) {
            return finish(environment, {failure_reply(text.error())}, options.json);
        }
        environment.terminal.out(*text);
        return 0;
    }
    const auto invocation = parse(std::move(*words));
    if (!invocation) {
        return finish(environment, {failure_reply(invocation.error())}, options.json);
    }
    Session session{environment.connection, environment.terminal, options.json};
    const auto replies = invocation->path.controllers
                             ? run_on_controllers(session, *invocation)
                             : std::vector{invocation->command->handler(session, *invocation)};
    return finish(environment, replies, options.json);
}

}  // namespace perch::cli
