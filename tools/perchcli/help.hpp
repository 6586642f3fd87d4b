// SPDX-License-Identifier: GPL-2.0-or-later
// Help, version and man page, all from the command table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar.hpp"

namespace perch::cli {

/// "008.0000.0001.0000": the dialect, then Perch's version. Clients choose their parser by the 8.
std::string cli_version();
/// The version banner in the vendor's shape.
std::string banner();

/// What the user asked help about; nothing when the words are no request for help. Understands
/// help, help VERB, VERB help, PATH VERB -h, -h, --help, ?, and no words at all.
struct HelpRequest {
    PathKind path = PathKind::none;  ///< none: any object
    std::vector<std::string> words;  ///< leading words of the commands wanted; empty: all
};
std::optional<HelpRequest> help_request(std::vector<Word> words);

/// The list of all commands, or the commands wanted with options and examples; Errc::syntax when
/// there is no such command.
Result<std::string> help_text(const HelpRequest& request);

/// perchcli(8) as troff.
std::string man_page();

}  // namespace perch::cli
