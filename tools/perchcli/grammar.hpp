// SPDX-License-Identifier: GPL-2.0-or-later
// The command language as one table. Parsing, errors, help, completion and the man page read it;
// adding a command is adding a row.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "object_path.hpp"
#include "session.hpp"
#include "tokenizer.hpp"
#include "value.hpp"

namespace perch::cli {

struct Invocation;

/// Runs a command for one controller (or for none, where the command has no object).
using Handler = Reply (*)(Session&, const Invocation&);

/// Answers why a value is wrong, or nothing. The message follows "name=value: ".
using Check = std::optional<std::string> (*)(std::string_view value);

struct Option {
    std::string_view name;
    std::string_view value;  ///< syntax of the value; empty for a bare word
    std::string_view help;
    bool required = false;
    Check check = nullptr;
};

struct Command {
    PathKind path = PathKind::none;
    /// "add vd r[aid]0|r[aid]1": blanks separate words, '|' the alternatives of one; letters in
    /// brackets may be left out.
    std::string_view words = {};
    std::vector<Option> options = {};
    std::string_view summary = {};
    std::string_view help = {};     ///< a paragraph more, may be empty
    std::string_view example = {};  ///< without the program's name; parses (a test proves it)
    bool destructive = false;       ///< asks on a terminal unless force is given
    Handler handler = nullptr;
};

/// A command line that parsed.
struct Invocation {
    const Command* command = nullptr;
    ObjectPath path;
    std::vector<std::string> words;  ///< the command's words as they were given, in lower case
    std::map<std::string, std::string, std::less<>> options;

    [[nodiscard]] bool has(std::string_view name) const;
    /// The option's value; empty when it was not given.
    [[nodiscard]] std::string value(std::string_view name) const;
};

/// All commands, in the order help prints them.
const std::vector<Command>& commands();

/// How a word may be written: one of these, each with its long form (equal when there is none).
struct Spelling {
    std::string brief;  ///< "del"
    std::string full;   ///< "delete"
};
/// The spellings of each word: {{{"set", "set"}}, {{"r0", "raid0"}, {"r1", "raid1"}}}.
std::vector<std::vector<Spelling>> word_spellings(const Command& command);
/// Whether the word, in lower case, is one of them.
bool is_spelling(const std::vector<Spelling>& spellings, std::string_view word);
/// "/cx/vx del[ete] [force]", as help prints it.
std::string usage(const Command& command);

/// The options that every command takes.
struct GlobalOptions {
    bool json = false;
};
/// Takes J, nolog and page[=N] out of the words, wherever they stand.
GlobalOptions take_global_options(std::vector<Word>& words);
/// Takes the words that begin with '/' from the front and joins them to one path.
std::string take_path(std::vector<Word>& words);

/// Words without global options to a command. Errc::syntax, or Errc::invalid_argument for a value.
Result<Invocation> parse(std::vector<Word> words);

}  // namespace perch::cli
