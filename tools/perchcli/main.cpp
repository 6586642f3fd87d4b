// SPDX-License-Identifier: GPL-2.0-or-later
#include <sys/utsname.h>

#include <string>
#include <vector>

#include "app.hpp"
#include "completion.hpp"
#include "help.hpp"
#include "http_connection.hpp"
#include "unix_terminal.hpp"

namespace {

std::string operating_system() {
    utsname names{};
    return uname(&names) == 0 ? std::string(names.sysname) + names.release : "Linux";
}

}  // namespace

int main(int argc, char** argv) {
    using namespace perch::cli;
    std::vector<std::string> arguments(argv + 1, argv + argc);
    UnixTerminal terminal;
    if (!arguments.empty() && arguments.front() == "--man") {
        terminal.out(man_page());
        return 0;
    }
    if (!arguments.empty() && arguments.front() == "--complete") {
        // A person waits for the tab key: a slow perchd is as good as none.
        HttpConnection connection(default_socket(), std::chrono::milliseconds(300));
        arguments.erase(arguments.begin());
        for (const auto& candidate : complete(connection, arguments)) {
            terminal.out(candidate + "\n");
        }
        return 0;
    }
    HttpConnection connection(default_socket());
    return run({connection, terminal, operating_system()}, arguments);
}
