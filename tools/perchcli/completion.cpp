// SPDX-License-Identifier: GPL-2.0-or-later
#include "completion.hpp"

#include <algorithm>

#include "grammar.hpp"
#include "rows.hpp"

namespace perch::cli {

namespace {

/// Collects candidates that begin with what was typed, each once.
class Candidates {
  public:
    explicit Candidates(std::string typed) : typed_(std::move(typed)) {}

    void add(const std::string& candidate) {
        if (lower(candidate).rfind(lower(typed_), 0) == 0 &&
            std::find(list_.begin(), list_.end(), candidate) == list_.end()) {
            list_.push_back(candidate);
        }
    }
    [[nodiscard]] std::vector<std::string> take() { return std::move(list_); }
    [[nodiscard]] const std::string& typed() const { return typed_; }

  private:
    std::string typed_;
    std::vector<std::string> list_;
};

/// Completes the last component of "/c0/e0/s".
void add_objects(Candidates& candidates, Connection& connection) {
    const auto base = candidates.typed().substr(0, candidates.typed().rfind('/'));
    const auto path = parse_path(base);
    if (!path) {
        return;
    }
    const auto snapshot = connection.snapshot();
    const auto add = [&](char letter, const std::string& id) {
        candidates.add(fmt::format("{}/{}{}", base, letter, id));
    };
    switch (path->kind()) {
        case PathKind::none:
            add('c', "0");
            add('c', "all");
            break;
        case PathKind::controller:
            if (snapshot) {
                for (const int id : enclosure_ids(*snapshot)) {
                    add('e', std::to_string(id));
                }
                for (const auto* vd : all_vds(*snapshot)) {
                    add('v', std::to_string(vd->id));
                }
                for (const auto* group : all_groups(*snapshot)) {
                    add('d', std::to_string(group->id));
                }
                for (const auto* group : all_foreign(*snapshot)) {
                    add('f', std::to_string(group->id));
                }
            }
            for (const char letter : {'e', 's', 'v', 'd', 'f'}) {
                add(letter, "all");
            }
            break;
        case PathKind::enclosure:
            if (snapshot) {
                for (const auto* drive : all_drives(*snapshot)) {
                    if (drive->slot >= 0 && path->enclosures->contains(drive->enclosure)) {
                        add('s', std::to_string(drive->slot));
                    }
                }
            }
            add('s', "all");
            break;
        case PathKind::drive:
        case PathKind::vd:
        case PathKind::group:
        case PathKind::foreign:
            break;
    }
}

/// Completes the last item of a list in an option's value, such as "drives=0:1,", with items that
/// are not in it yet.
void add_list_items(Candidates& candidates, const std::vector<std::string>& items) {
    const auto& typed = candidates.typed();
    const auto base = typed.substr(0, typed.find_last_of("=,") + 1);
    for (const auto& item : items) {
        const bool listed = (base + ",").find("=" + item + ",") != std::string::npos ||
                            base.find("," + item + ",") != std::string::npos;
        if (!listed) {
            candidates.add(base + item);
        }
    }
}

/// Drives that no one uses, and drive groups that a spare can be for.
std::vector<std::string> free_drives(const Snapshot& snapshot) {
    std::vector<std::string> items;
    for (const auto* drive : all_drives(snapshot)) {
        if (drive->slot >= 0 && drive->state == DriveState::unconfigured) {
            items.push_back(slot_text(*drive));
        }
    }
    return items;
}

std::vector<std::string> group_ids(const Snapshot& snapshot) {
    std::vector<std::string> items;
    for (const auto* group : all_groups(snapshot)) {
        items.push_back(std::to_string(group->id));
    }
    return items;
}

/// Completes the value of an option whose values the model knows; false for another word.
bool add_value(Candidates& candidates, Connection& connection) {
    const auto name = lower(candidates.typed().substr(0, candidates.typed().find('=')));
    const bool drives = name == "drives" || name == "spares";
    if (candidates.typed().find('=') == std::string::npos || !(drives || name == "dgs")) {
        return false;
    }
    if (const auto snapshot = connection.snapshot()) {
        add_list_items(candidates, drives ? free_drives(*snapshot) : group_ids(*snapshot));
    }
    return true;
}

/// Completes verbs and options after the words that are already there.
void add_words(Candidates& candidates, PathKind kind, const std::vector<Word>& words) {
    const auto given = [&](std::string_view name) {
        return std::any_of(words.begin(), words.end(), [&](const Word& word) {
            return lower(word.text.substr(0, word.text.find('='))) == name;
        });
    };
    for (const auto& command : commands()) {
        if (command.path != kind) {
            continue;
        }
        const auto pattern = word_spellings(command);
        std::size_t count = 0;
        while (count < pattern.size() && count < words.size() &&
               is_spelling(pattern[count], lower(words[count].text))) {
            ++count;
        }
        if (count == words.size() && count < pattern.size()) {
            for (const auto& spelling : pattern[count]) {
                candidates.add(spelling.brief);
            }
        }
        if (count == pattern.size()) {
            for (const auto& option : command.options) {
                if (!given(option.name)) {
                    candidates.add(std::string(option.name) + (option.value.empty() ? "" : "="));
                }
            }
            candidates.add("J");
        }
    }
    if (kind == PathKind::none && words.empty()) {
        candidates.add("help");
        candidates.add("version");
        candidates.add("/c0");
        candidates.add("/call");
    }
}

}  // namespace

std::vector<std::string> complete(Connection& connection, const std::vector<std::string>& words) {
    Candidates candidates(words.empty() ? std::string() : words.back());
    const std::vector<std::string> before(words.begin(),
                                          words.empty() ? words.end() : words.end() - 1);
    auto tokens = tokenize(before);
    if (!tokens) {
        return {};
    }
    take_global_options(*tokens);
    const auto path = parse_path(take_path(*tokens));
    if (!path) {
        return {};
    }
    const auto typed = lower(candidates.typed());
    if (!typed.empty() && typed.front() == '/') {
        if (tokens->empty()) {
            add_objects(candidates, connection);
        }
    } else if (!add_value(candidates, connection)) {
        if (!tokens->empty() && lower(tokens->front().text) == "help") {
            tokens->erase(tokens->begin());
            for (const auto& command : commands()) {
                const auto pattern = word_spellings(command);
                if (tokens->empty()) {
                    candidates.add(pattern.front().front().brief);
                }
            }
            return candidates.take();
        }
        add_words(candidates, path->kind(), *tokens);
    }
    return candidates.take();
}

}  // namespace perch::cli
