// SPDX-License-Identifier: GPL-2.0-or-later
#include "tokenizer.hpp"

#include <algorithm>

namespace perch::cli {

namespace {

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

Result<std::vector<Word>> split(const std::string& line) {
    std::vector<Word> words;
    Word word;
    bool inside = false;
    char quote = 0;
    for (const char c : line) {
        if (quote != 0) {
            if (c == quote) {
                quote = 0;
            } else {
                word.text += c;
            }
        } else if (c == '"' || c == '\'') {
            quote = c;
            inside = true;
            word.quoted = true;
        } else if (!is_blank(c)) {
            word.text += c;
            inside = true;
        } else if (inside) {
            words.push_back(std::move(word));
            word = {};
            inside = false;
        }
    }
    if (quote != 0) {
        return fail(Errc::syntax, "syntax error, the quote {} before '{}' is not closed", quote,
                    word.text);
    }
    if (inside) {
        words.push_back(std::move(word));
    }
    return words;
}

/// Does this word go on with the next one? "key", "=" | "key=", "value" | "key=a,", "b".
bool continues(const Word& before, const Word& next) {
    if (before.text.empty() || before.text.front() == '/') {
        return false;
    }
    if (!next.quoted && next.text.front() == '=') {
        return before.text.find('=') == std::string::npos;
    }
    if (before.quoted) {
        return false;
    }
    if (before.text.back() == '=') {
        return true;
    }
    return before.text.back() == ',' && before.text.find('=') != std::string::npos;
}

}  // namespace

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return result;
}

Result<std::vector<Word>> tokenize(const std::vector<std::string>& arguments) {
    std::string line;
    for (const auto& argument : arguments) {
        line += argument;
        line += ' ';
    }
    auto words = split(line);
    if (!words) {
        return words;
    }
    std::vector<Word> joined;
    for (auto& word : *words) {
        if (!joined.empty() && !(word.quoted && word.text.empty()) &&
            continues(joined.back(), word)) {
            joined.back().text += word.text;
            joined.back().quoted = joined.back().quoted || word.quoted;
        } else {
            joined.push_back(std::move(word));
        }
    }
    return joined;
}

}  // namespace perch::cli
