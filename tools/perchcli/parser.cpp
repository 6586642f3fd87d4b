// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
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
std::size_t matched_words(const std::vector<std::vector<Spelling>>& pattern,
                          const std::vector<Word>& words) {
    std::size_t count = 0;
    while (count < pattern.size() && count < words.size() && !words[count].quoted &&
           is_spelling(pattern[count], lower(words[count].text))) {
        ++count;
    }
    return count;
}

/// The words of a command as its table has them: "add", "vd", "r[aid]0|r[aid]1".
std::vector<std::string_view> table_words(const Command& command) {
    std::vector<std::string_view> words;
    auto rest = command.words;
    while (!rest.empty()) {
        const auto end = std::min(rest.find(' '), rest.size());
        words.push_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return words;
}

Spelling parse_spelling(std::string_view text) {
    const auto open = text.find('[');
    if (open == std::string_view::npos) {
        return {std::string(text), std::string(text)};
    }
    const auto close = text.find(']', open);
    const auto before = std::string(text.substr(0, open));
    const auto after = std::string(text.substr(close + 1));
    return {before + after, before + std::string(text.substr(open + 1, close - open - 1)) + after};
}

/// What v7 scripts write and this dialect calls otherwise; the vendor's v8 refuses them as well.
std::string older_dialect(const Word& word) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> translations{{
        {"type=r", "this dialect has no type=; write add vd r5"},
        {"good", "this dialect says set uconf"},
        {"jbod", "this dialect says set uconf"},
        {"initialization", "this dialect says init"},
    }};
    const auto text = lower(word.text);
    for (const auto& [old, hint] : translations) {
        if (text.rfind(old, 0) == 0) {
            return fmt::format(" ({})", hint);
        }
    }
    return {};
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
            result.expected.add(std::string(table_words(command)[count]));
        }
    }
    if (best < result.furthest) {
        result.command = nullptr;
    }
    return result;
}

/// Says where another object knows these words: "/c0 set offline" misses its drive.
std::string other_objects(PathKind kind, const std::vector<Word>& words) {
    Expected patterns;
    bool any = false;
    for (const auto& command : commands()) {
        if (command.path != kind && matched_words(word_spellings(command), words) == words.size()) {
            patterns.add(std::string(path_pattern(command.path)));
            any = true;
        }
    }
    if (!any) {
        return {};
    }
    std::string text;
    for (const auto& word : words) {
        text += (text.empty() ? "" : " ") + word.text;
    }
    return fmt::format("; '{}' is a command of {}", text, patterns.str());
}

tl::unexpected<Error> unexpected_word(PathKind kind, const std::vector<Word>& words,
                                      const Match& found) {
    const bool ended = found.furthest == words.size();
    const auto place = ended ? "end of command" : fmt::format("'{}'", words[found.furthest].text);
    std::string hint;
    if (!ended) {
        hint =
            other_objects(kind, {words.begin(),
                                 words.begin() + static_cast<std::ptrdiff_t>(found.furthest) + 1}) +
            older_dialect(words[found.furthest]);
        if (hint.empty() && found.furthest == 0) {
            hint = "; 'perchcli help' lists all commands";
        }
    }
    return fail(Errc::syntax, "syntax error, unexpected {}, expecting {}{}", place,
                found.expected.str(), hint);
}

/// `words` are those of the command and this one, which shall be an option.
Result<void> take_option(Invocation& invocation, const std::vector<Word>& words,
                         Expected expected) {
    const auto& word = words.back();
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
        return fail(Errc::syntax, "syntax error, unexpected '{}', expecting {}{}{}", word.text,
                    expected.str(), other_objects(invocation.path.kind(), words),
                    older_dialect(word));
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

std::vector<std::vector<Spelling>> word_spellings(const Command& command) {
    std::vector<std::vector<Spelling>> pattern;
    for (auto word : table_words(command)) {
        auto& spellings = pattern.emplace_back();
        while (!word.empty()) {
            const auto end = std::min(word.find('|'), word.size());
            spellings.push_back(parse_spelling(word.substr(0, end)));
            word.remove_prefix(std::min(end + 1, word.size()));
        }
    }
    return pattern;
}

bool is_spelling(const std::vector<Spelling>& spellings, std::string_view word) {
    return std::any_of(spellings.begin(), spellings.end(), [&](const Spelling& spelling) {
        return spelling.brief == word || spelling.full == word;
    });
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
    for (std::size_t i = 0; i < found.furthest; ++i) {
        invocation.words.push_back(lower(words[i].text));
    }
    for (auto i = found.furthest; i < words.size(); ++i) {
        // Only the first word after the matched ones could also have been a longer command's.
        const auto expected = i == found.furthest ? found.expected : Expected{};
        std::vector<Word> line(words.begin(),
                               words.begin() + static_cast<std::ptrdiff_t>(found.furthest));
        line.push_back(words[i]);
        if (auto taken = take_option(invocation, line, expected); !taken) {
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
