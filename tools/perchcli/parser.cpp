// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <iterator>

#include "grammar.hpp"

namespace perch::cli {

namespace {

/// What could have come at the place where parsing stopped, in table order, each once.
class Expected {
  public:
    void add(std::string text) {
        if (std::find(texts_.begin(), texts_.end(), text) == texts_.end()) {
            texts_.push_back(std::move(text));
        }
    }
    [[nodiscard]] std::string str() const { return fmt::format("{}", fmt::join(texts_, " | ")); }

  private:
    std::vector<std::string> texts_;
};

std::string option_syntax(const Option& option) {
    return option.value.empty() ? std::string(option.name)
                                : fmt::format("{}={}", option.name, option.value);
}

/// How many of the command's words the line begins with.
std::size_t matched_words(const std::vector<std::vector<std::string>>& pattern,
                          const std::vector<Word>& words) {
    std::size_t count = 0;
    while (count < pattern.size() && count < words.size() && !words[count].quoted) {
        const auto word = lower(words[count].text);
        const auto& spellings = pattern[count];
        if (std::find(spellings.begin(), spellings.end(), word) == spellings.end()) {
            break;
        }
        ++count;
    }
    return count;
}

struct Match {
    const Command* command = nullptr;  ///< the longest whole match
    std::size_t furthest = 0;          ///< words matched by any command
    Expected expected;                 ///< what the commands that came furthest want next
};

Match match(PathKind kind, const std::vector<Word>& words) {
    Match result;
    std::size_t best = 0;
    for (const auto& command : commands()) {
        if (command.path != kind) {
            continue;
        }
        const auto pattern = word_spellings(command);
        const auto count = matched_words(pattern, words);
        if (count == pattern.size() && count > best) {
            result.command = &command;
            best = count;
        }
        if (count > result.furthest) {
            result.furthest = count;
            result.expected = {};
        }
        if (count == result.furthest && count < pattern.size()) {
            result.expected.add(fmt::format("{}", fmt::join(pattern[count], "|")));
        }
    }
    if (best < result.furthest) {
        result.command = nullptr;
    }
    return result;
}

/// Says where another object knows the verb: "/c0 set offline" misses its drive.
std::string other_objects(PathKind kind, const Word& verb) {
    Expected patterns;
    bool any = false;
    for (const auto& command : commands()) {
        if (command.path != kind && matched_words(word_spellings(command), {verb}) == 1) {
            patterns.add(std::string(path_pattern(command.path)));
            any = true;
        }
    }
    return any ? fmt::format("; '{}' is a command of {}", verb.text, patterns.str())
               : std::string("; 'perchcli help' lists all commands");
}

tl::unexpected<Error> unexpected_word(PathKind kind, const std::vector<Word>& words,
                                      const Match& found) {
    const bool ended = found.furthest == words.size();
    const auto place = ended ? "end of command" : fmt::format("'{}'", words[found.furthest].text);
    const auto hint =
        found.furthest == 0 && !ended ? other_objects(kind, words.front()) : std::string();
    return fail(Errc::syntax, "syntax error, unexpected {}, expecting {}{}", place,
                found.expected.str(), hint);
}

Result<void> take_option(Invocation& invocation, const Word& word, Expected expected) {
    const auto& options = invocation.command->options;
    const auto equals = word.text.find('=');
    const auto name = lower(word.text.substr(0, equals));
    const auto option = std::find_if(options.begin(), options.end(),
                                     [&](const Option& row) { return row.name == name; });
    if (option == options.end()) {
        bool complete = true;
        for (const auto& row : options) {
            if (!invocation.has(row.name)) {
                expected.add(option_syntax(row));
                complete = complete && !row.required;
            }
        }
        if (complete) {
            expected.add("end of command");
        }
        return fail(Errc::syntax, "syntax error, unexpected '{}', expecting {}", word.text,
                    expected.str());
    }
    const auto value = equals == std::string::npos ? std::string() : word.text.substr(equals + 1);
    if (option->value.empty() && equals != std::string::npos) {
        return fail(Errc::syntax, "syntax error, unexpected '{}', '{}' takes no value", word.text,
                    option->name);
    }
    if (!option->value.empty() && value.empty()) {
        return fail(Errc::syntax, "syntax error, '{}' needs a value, expecting {}", word.text,
                    option_syntax(*option));
    }
    if (invocation.has(option->name)) {
        return fail(Errc::syntax, "syntax error, '{}' is given twice", option->name);
    }
    if (option->check != nullptr) {
        if (const auto wrong = option->check(value)) {
            return fail(Errc::invalid_argument, "'{}': {}", word.text, *wrong);
        }
    }
    invocation.options.emplace(option->name, value);
    return {};
}

}  // namespace

bool Invocation::has(std::string_view name) const {
    return options.find(name) != options.end();
}

std::string Invocation::value(std::string_view name) const {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : found->second;
}

std::vector<std::vector<std::string>> word_spellings(const Command& command) {
    std::vector<std::vector<std::string>> pattern(1);
    pattern.back().emplace_back();
    for (const char c : command.words) {
        if (c == ' ') {
            pattern.emplace_back().emplace_back();
        } else if (c == '|') {
            pattern.back().emplace_back();
        } else {
            pattern.back().back() += c;
        }
    }
    return pattern;
}

std::string usage(const Command& command) {
    std::string text(path_pattern(command.path));
    text += text.empty() ? "" : " ";
    text += command.words;
    for (const auto& option : command.options) {
        text += fmt::format(fmt::runtime(option.required ? " {}" : " [{}]"), option_syntax(option));
    }
    return text;
}

GlobalOptions take_global_options(std::vector<Word>& words) {
    GlobalOptions options;
    const auto is_global = [&](const Word& word) {
        const auto text = lower(word.text);
        if (word.quoted) {
            return false;
        }
        if (text == "j") {
            options.json = true;
            return true;
        }
        return text == "nolog" || text == "page" || text.rfind("page=", 0) == 0;
    };
    std::vector<Word> rest;
    for (auto& word : words) {
        if (!is_global(word)) {
            rest.push_back(std::move(word));
        }
    }
    words = std::move(rest);
    return options;
}

std::string take_path(std::vector<Word>& words) {
    std::string path;
    const auto end = std::find_if(words.begin(), words.end(), [](const Word& word) {
        return word.quoted || word.text.empty() || word.text.front() != '/';
    });
    for (auto word = words.begin(); word != end; ++word) {
        path += word->text;
    }
    words.erase(words.begin(), end);
    return path;
}

Result<Invocation> parse(std::vector<Word> words) {
    Invocation invocation;
    const auto path_text = take_path(words);
    auto path = parse_path(path_text);
    if (!path) {
        return tl::make_unexpected(path.error());
    }
    invocation.path = std::move(*path);
    auto found = match(invocation.path.kind(), words);
    if (found.command == nullptr) {
        return unexpected_word(invocation.path.kind(), words, found);
    }
    invocation.command = found.command;
    for (auto i = found.furthest; i < words.size(); ++i) {
        // Only the first word after the matched ones could also have been a longer command's.
        const auto expected = i == found.furthest ? found.expected : Expected{};
        if (auto taken = take_option(invocation, words[i], expected); !taken) {
            return tl::make_unexpected(taken.error());
        }
    }
    for (const auto& option : found.command->options) {
        if (option.required && !invocation.has(option.name)) {
            return fail(Errc::syntax, "syntax error, '{}' is missing: {}", option_syntax(option),
                        usage(*found.command));
        }
    }
    return invocation;
}

}  // namespace perch::cli
