// SPDX-License-Identifier: GPL-2.0-or-later
// What a command answers, before it becomes text or JSON. Handlers build a Reply from blocks; the
// two renderers walk the same blocks, so text and JSON cannot disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "util/error.hpp"

namespace perch::cli {

/// A cell: text or a whole number. Never a boolean and never nothing: that is the dialect.
using Value = std::variant<std::string, std::int64_t>;

std::string value_text(const Value& value);
/// "Yes" or "No".
Value yes_no(bool value);
/// The number, or "-" when there is none.
Value number_or_dash(const std::optional<int>& value);

/// Where a column's cells go: numbers are right aligned with text ("-") on the left, as the
/// vendor's.
enum class Align { left, right, number };

struct Column {
    std::string name;
    Align align = Align::left;
};

using Row = std::vector<Value>;

struct Table {
    std::string title;
    std::vector<Column> columns;
    std::vector<Row> rows;
    bool single = false;     ///< JSON: the first row as an object instead of a list
    std::string text_title;  ///< heading in text when it differs from the JSON key
};

/// "Key = Value" lines under a heading.
struct Properties {
    std::string title;
    std::vector<std::pair<std::string, Value>> values;
    std::vector<Properties> children;  ///< nested in JSON, sections of their own in text
};

/// One "Key = Value" line without a heading.
struct Pair {
    std::string key;
    Value value;
};

/// Only in text: lines that explain columns or state facts.
struct Text {
    std::vector<std::string> lines;
};

/// The same facts twice: a list in JSON, sentences in text (possibly none).
struct Notes {
    Table data;
    std::vector<std::string> lines;
};

struct Block;

/// JSON: a list of objects under one key, each made of blocks. Text: the blocks one after another.
struct Group {
    std::string key;
    std::vector<std::vector<Block>> entries;
};

struct Block {
    std::variant<Table, Properties, Pair, Text, Notes, Group> item;
};

struct Reply {
    std::optional<int> controller;      ///< absent: the command has no controller
    bool controller_is_number = false;  ///< v8 prints the number only for a controller not found
    std::optional<Error> error;         ///< Status = Failure
    std::string description = "None";   ///< for a failure without one, the error's message is used
    bool description_is_final = false;  ///< keep the description also when there is an error
    std::optional<Table> detailed_status;
    std::vector<std::string> preface;  ///< text lines before everything else
    std::vector<Block> blocks;
};

/// A failure whose description is the error's message.
Reply failure_reply(const Error& error);

/// 0 when all replies are successes, else the exit status of the first failure.
int exit_status(const std::vector<Reply>& replies);

}  // namespace perch::cli
