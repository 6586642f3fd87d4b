// SPDX-License-Identifier: GPL-2.0-or-later
// Replies as the v8 dialect's text and JSON.
#pragma once

#include <string>
#include <vector>

#include "value.hpp"

namespace perch::cli {

/// What the header lines say about the program and the host.
struct Header {
    std::string cli_version;
    std::string operating_system;
};

/// A table with its rules of dashes, without heading.
std::string render_table(const Table& table);
std::string render_text(const std::vector<Reply>& replies, const Header& header);
/// Tab-indented, "key" : value, in the order of the blocks.
std::string render_json(const std::vector<Reply>& replies, const Header& header);

}  // namespace perch::cli
