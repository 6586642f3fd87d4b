// SPDX-License-Identifier: GPL-2.0-or-later
#include "unix_terminal.hpp"

#include <unistd.h>

#include <iostream>

namespace perch::cli {

bool UnixTerminal::interactive() const {
    return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

bool UnixTerminal::moving_output() const {
    return isatty(STDOUT_FILENO) == 1;
}

void UnixTerminal::out(std::string_view text) {
    std::cout << text << std::flush;
}

void UnixTerminal::err(std::string_view text) {
    std::cout << std::flush;
    std::cerr << text << std::flush;
}

std::optional<std::string> UnixTerminal::ask(std::string_view question) {
    err(question);
    std::string line;
    if (!std::getline(std::cin, line)) {
        return std::nullopt;
    }
    return line;
}

}  // namespace perch::cli
