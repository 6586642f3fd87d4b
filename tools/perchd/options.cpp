// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

namespace perch {

const char* const perchd_usage =
    "perchd: the Perch daemon. Watches NVMe drives and virtual drives, and serves the management\n"
    "interface (Redfish over a unix socket). Virtual drives run without it.\n"
    "\n"
    "usage: perchd [options]\n"
    "  --socket PATH      where to listen (default /run/perch/perchd.sock)\n"
    "  --run-dir DIR      locks (default /run/perch)\n"
    "  --events PATH      event database (default /var/lib/perch/events.db)\n"
    "  --engine dm|sim    dm: this machine's drives and device-mapper (default);\n"
    "                     sim: a simulation, without root and without touching anything\n"
    "  --version          print the version\n"
    "  --help             print this\n"
    "\n"
    "With --engine=sim:\n"
    "  --sim-drives SETS  COUNTxSIZE[:4k], and more after commas (default 8x3.2T)\n"
    "  --sim-script PATH  what happens to them, line by line: a file or a FIFO; see perchd(8)\n"
    "  --sim-dir DIR      keep the drives there for the next start\n"
    "  Defaults: locks and socket in DIR, else beside --socket, else in $XDG_RUNTIME_DIR/perch or\n"
    "  /tmp/perch-UID; events in DIR, else in memory.\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 when it cannot run, 2 for wrong options.\n";

namespace {

/// Options that take a value, and where it goes.
struct Valued {
    std::string_view name;
    std::string PerchdOptions::*value;
    bool only_sim;
};

constexpr std::array<Valued, 6> valued{{
    {"--socket", &PerchdOptions::socket, false},
    {"--run-dir", &PerchdOptions::run_directory, false},
    {"--events", &PerchdOptions::event_database, false},
    {"--sim-drives", &PerchdOptions::sim_drives, true},
    {"--sim-script", &PerchdOptions::sim_script, true},
    {"--sim-dir", &PerchdOptions::sim_directory, true},
}};

void fill_in_dm(PerchdOptions& options) {
    const auto fill = [](std::string& value, const char* otherwise) {
        if (value.empty()) {
            value = otherwise;
        }
    };
    fill(options.socket, "/run/perch/perchd.sock");
    fill(options.run_directory, "/run/perch");
    fill(options.event_database, "/var/lib/perch/events.db");
}

void fill_in_sim(PerchdOptions& options, const std::string& runtime_directory) {
    if (options.run_directory.empty()) {
        options.run_directory =
            !options.sim_directory.empty() ? options.sim_directory
            : !options.socket.empty()
                ? std::filesystem::absolute(options.socket).parent_path().string()
            : !runtime_directory.empty() ? runtime_directory + "/perch"
                                         : fmt::format("/tmp/perch-{}", getuid());
    }
    if (options.socket.empty()) {
        options.socket = options.run_directory + "/perchd.sock";
    }
    // Several simulations may have their sockets in one directory.
    options.lock_prefix = std::filesystem::path(options.socket).filename().string() + ".";
    if (options.event_database.empty()) {
        options.event_database =
            options.sim_directory.empty() ? ":memory:" : options.sim_directory + "/events.db";
    }
}

}  // namespace

Result<PerchdOptions> parse_perchd_options(
    const std::vector<std::string>& arguments,
    const std::function<std::string(const std::string&)>& environment) {
    PerchdOptions options;
    std::string engine = "dm";
    std::string sim_option;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto equals = arguments[i].find('=');
        const auto name = arguments[i].substr(0, equals);
        if (name == "--help" || name == "-h" || name == "--version") {
            options.show =
                name == "--version" ? PerchdOptions::Show::version : PerchdOptions::Show::help;
            return options;
        }
        const auto* row = std::find_if(valued.begin(), valued.end(),
                                       [&](const auto& known) { return known.name == name; });
        if (row == valued.end() && name != "--engine") {
            return fail(Errc::syntax, "there is no option '{}'", arguments[i]);
        }
        if (!seen.insert(name).second) {
            return fail(Errc::syntax, "{} is given twice", name);
        }
        if (equals == std::string::npos && i + 1 == arguments.size()) {
            return fail(Errc::syntax, "{} needs a value", name);
        }
        const auto value =
            equals == std::string::npos ? arguments[++i] : arguments[i].substr(equals + 1);
        if (value.empty()) {
            return fail(Errc::syntax, "{} needs a value", name);
        }
        if (row == valued.end()) {
            engine = value;
            continue;
        }
        options.*row->value = value;
        if (row->only_sim) {
            sim_option = name;
        }
    }
    if (engine != "dm" && engine != "sim") {
        return fail(Errc::syntax, "--engine={}: there is dm and sim", engine);
    }
    options.simulate = engine == "sim";
    if (!options.simulate && !sim_option.empty()) {
        return fail(Errc::syntax, "{} needs --engine=sim", sim_option);
    }
    if (options.simulate) {
        fill_in_sim(options, environment("XDG_RUNTIME_DIR"));
    } else {
        fill_in_dm(options);
    }
    return options;
}

}  // namespace perch
