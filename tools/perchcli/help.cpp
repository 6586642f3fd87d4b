// SPDX-License-Identifier: GPL-2.0-or-later
#include "help.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace perch::cli {

namespace {

bool is_help_word(const Word& word) {
    constexpr std::array<std::string_view, 5> words{"help", "-h", "-help", "--help", "?"};
    return !word.quoted && std::find(words.begin(), words.end(), lower(word.text)) != words.end();
}

bool begins_with(const Command& command, const HelpRequest& request) {
    const auto pattern = word_spellings(command);
    if (request.path != PathKind::none && request.path != command.path) {
        return false;
    }
    for (std::size_t i = 0; i < request.words.size() && i < pattern.size(); ++i) {
        if (!is_spelling(pattern[i], request.words[i])) {
            return false;
        }
    }
    // Options may follow the words: "/c0 add vd r5 drives=0:1 -h".
    return true;
}

std::string details(const Command& command) {
    auto text = fmt::format("perchcli {}\n    {}\n", usage(command), command.summary);
    if (!command.help.empty()) {
        text += fmt::format("    {}\n", command.help);
    }
    if (command.destructive) {
        text += "    Asks before it goes on; without a terminal to ask on, it needs force.\n";
    }
    for (const auto& option : command.options) {
        const auto syntax = option.value.empty() ? std::string(option.name)
                                                 : fmt::format("{}={}", option.name, option.value);
        text += fmt::format("      {:<26} {}\n", syntax, option.help);
    }
    return text + fmt::format("    Example: perchcli {}\n", command.example);
}

constexpr std::string_view objects_text =
    "Objects: /c0 controller, /c0/e0 enclosure, /c0/e0/s3 or /c0/s3 drive, /c0/v1 VD, /c0/d0 drive "
    "group,\n"
    "  /c0/f0 foreign drive group; lists and ranges /s0-3,7; all: /call /eall /sall /vall /dall "
    "/fall.\n"
    "After any command: J (JSON), nolog, page[=N] (accepted, without effect). Case does not "
    "matter; letters in [] may be left out.\n"
    "PERCH_SOCKET in the environment names the socket of another perchd.\n";

std::string overview() {
    auto text = banner() + "\n";
    for (const auto& command : commands()) {
        text += fmt::format("perchcli {}\n    {}\n", usage(command), command.summary);
    }
    text += "perchcli -v | version\n    Version of this program.\n";
    text += "perchcli help [VERB] | <verb> help | -h\n    This list, or details and examples.\n\n";
    return text + std::string(objects_text);
}

/// Text for troff: '-' is a minus there, '\' and leading dots mean something.
std::string troff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
            out += fmt::format("\\&{}", c);
        } else {
            out += c;
        }
    }
    return out;
}

std::string man_command(const Command& command) {
    auto text = fmt::format(".TP\n.B {}\n{}\n", troff(usage(command)), troff(command.summary));
    if (!command.help.empty()) {
        text += troff(command.help) + "\n";
    }
    if (command.destructive) {
        text += "Asks before it goes on; without a terminal to ask on, it needs\n.BR force .\n";
    }
    if (!command.options.empty()) {
        text += ".RS\n";
        for (const auto& option : command.options) {
            text +=
                fmt::format(".TP\n.B {}{}{}\n{}\n", option.name, option.value.empty() ? "" : "=",
                            troff(option.value), troff(option.help));
        }
        text += ".RE\n";
    }
    return text;
}

std::string man_exit_statuses() {
    std::string text = ".SH EXIT STATUS\n0 exactly when Status is Success. Else:\n";
    for (auto code = 0; code <= static_cast<int>(Errc::internal); ++code) {
        const auto& info = errc_info(static_cast<Errc>(code));
        text += fmt::format(".TP\n.B {}\n{}\n", info.exit_status, troff(info.meaning));
    }
    return text;
}

}  // namespace

std::string cli_version() {
    // PERCH_VERSION is "0.1.0"; the vendor's form has four groups of fixed width.
    std::array<int, 3> parts{};
    std::size_t index = 0;
    for (const char c : std::string_view(PERCH_VERSION)) {
        if (c == '.') {
            ++index;
        } else if (index < parts.size() && c >= '0' && c <= '9') {
            parts.at(index) = parts.at(index) * 10 + (c - '0');
        }
    }
    return fmt::format("008.{:04}.{:04}.{:04}", parts[0], parts[1], parts[2]);
}

std::string banner() {
    return fmt::format(
        "\n      PerchCli SAS Customization Utility Ver {} (Perch {})\n"
        "\n    (c)Copyright the Perch authors, GPL-2.0-or-later. For NVMe drives; no SAS hardware "
        "needed.\n",
        cli_version(), PERCH_VERSION);
}

std::optional<HelpRequest> help_request(std::vector<Word> words) {
    if (words.empty()) {
        return HelpRequest{};
    }
    const auto path = parse_path(take_path(words));
    const auto asked = std::find_if(words.begin(), words.end(), is_help_word);
    if (asked == words.end()) {
        return std::nullopt;
    }
    HelpRequest request;
    request.path = path ? path->kind() : PathKind::none;
    words.erase(asked);
    for (const auto& word : words) {
        if (lower(word.text) != "verbose" && word.text.find('=') == std::string::npos) {
            request.words.push_back(lower(word.text));
        }
    }
    return request;
}

Result<std::string> help_text(const HelpRequest& request) {
    if (request.words.empty() && request.path == PathKind::none) {
        return overview();
    }
    std::string text;
    for (const auto& command : commands()) {
        if (begins_with(command, request)) {
            text += details(command) + "\n";
        }
    }
    if (!text.empty()) {
        return text + std::string(objects_text);
    }
    std::set<std::string> verbs;
    for (const auto& command : commands()) {
        if (request.path == PathKind::none || request.path == command.path) {
            verbs.insert(word_spellings(command).front().front().brief);
        }
    }
    return fail(Errc::syntax, "syntax error, no command begins with '{}', expecting {}",
                fmt::join(request.words, " "), fmt::join(verbs, " | "));
}

std::string man_page() {
    std::string text = fmt::format(
        ".\\\" Made by 'perchcli --man' from the command table.\n"
        ".\\\" SPDX-License-Identifier: GPL-2.0-or-later\n"
        ".TH PERCHCLI 8 \"\" \"Perch {}\" \"System Administration\"\n"
        ".SH NAME\nperchcli \\- control a Perch software RAID controller\n"
        ".SH SYNOPSIS\n.B perchcli\n.RI [ OBJECT ]\n.I VERB\n.RI [ OPTIONS ]\n.RB [ J ]\n"
        ".SH DESCRIPTION\n"
        ".B perchcli\nshows and changes virtual drives on NVMe drives. It speaks the command "
        "language of perccli2 and storcli2, and talks to\n.BR perchd (8)\nover a unix socket.\n"
        ".PP\nDestructive commands ask on a terminal; without one they need\n.BR force .\n"
        ".SH OBJECTS\n"
        ".TP\n.B /cx\nController x; /c0, or /call.\n"
        ".TP\n.B /cx/ex\nEnclosure.\n"
        ".TP\n.BR /cx/ex/sx , \\~ /cx/sx\nDrive by slot; lists and ranges such as /s0\\-3,7. A "
        "range "
        "means the drives that are there, a single number must be.\n"
        ".TP\n.B /cx/vx\nVirtual drive.\n"
        ".TP\n.B /cx/dx\nDrive group.\n"
        ".TP\n.B /cx/fx\nForeign drive group: one of another controller, or of another history "
        "of this one. Its number may change when drives come and go.\n"
        ".PP\nEach x may be\n.BR all .\nCase does not matter. The path may be split by blanks. "
        "Letters "
        "in brackets may be left out: r[aid]5 is r5 or raid5.\n"
        ".SH COMMANDS\n",
        PERCH_VERSION);
    for (const auto& command : commands()) {
        text += man_command(command);
    }
    text +=
        ".TP\n.B help [VERB]\nAll commands, or those that begin with VERB.\n"
        ".TP\n.B \\-v, version\nThe version.\n"
        ".SH OPTIONS\nWith every command, anywhere:\n"
        ".TP\n.B J\nAnswer in JSON, errors too.\n"
        ".TP\n.B nolog, page[=N]\nAccepted for the vendor's scripts; no effect.\n";
    text += man_exit_statuses();
    text +=
        ".SH ENVIRONMENT\n.TP\n.B PERCH_SOCKET\nThe socket of perchd, instead of "
        "/run/perch/perchd.sock: that of\n.B perchd \\-\\-engine=sim\\fR, for example.\n"
        ".SH FILES\n.TP\n.I /run/perch/perchd.sock\nWhere perchd answers. Root and group perch may "
        "change things, others may look.\n"
        ".SH EXAMPLES\n.nf\n";
    for (const auto& command : commands()) {
        text += fmt::format("perchcli {}\n", troff(command.example));
    }
    return text + ".fi\n.SH SEE ALSO\n.BR perchd (8)\n";
}

}  // namespace perch::cli
