// SPDX-License-Identifier: GPL-2.0-or-later
// perchd(8): the daemon. Parses its options, gives itself what a storage daemon needs, runs.
#include <fmt/format.h>
#include <getopt.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "daemon.hpp"

namespace {

constexpr const char* usage =
    "perchd: the Perch daemon. Watches NVMe drives and virtual drives, and serves the management\n"
    "interface (Redfish over a unix socket). Virtual drives run without it.\n"
    "\n"
    "usage: perchd [options]\n"
    "  --socket PATH    where to listen (default /run/perch/perchd.sock)\n"
    "  --run-dir DIR    locks (default /run/perch)\n"
    "  --events PATH    event database (default /var/lib/perch/events.db)\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 when it cannot run, 2 for wrong options.\n";

/// A daemon that may run with / on a VD it manages must not need that VD to go on.
void harden_against_own_storage() {
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        fmt::print(stderr, "perchd: cannot lock memory; goes on without\n");
    }
#ifdef PR_SET_IO_FLUSHER
    if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) {
        fmt::print(stderr, "perchd: cannot become an I/O flusher; goes on without\n");
    }
#endif
}

}  // namespace

int main(int argc, char** argv) {
    perch::DaemonOptions options;
    const std::array<option, 6> long_options{{{"socket", required_argument, nullptr, 's'},
                                              {"run-dir", required_argument, nullptr, 'r'},
                                              {"events", required_argument, nullptr, 'e'},
                                              {"version", no_argument, nullptr, 'V'},
                                              {"help", no_argument, nullptr, 'h'},
                                              {nullptr, 0, nullptr, 0}}};
    for (int letter = 0;
         (letter = getopt_long(argc, argv, "h", long_options.data(), nullptr)) != -1;) {
        switch (letter) {
            case 's':
                options.socket = optarg;
                break;
            case 'r':
                options.run_directory = optarg;
                break;
            case 'e':
                options.event_database = optarg;
                break;
            case 'V':
                fmt::print("perchd {}\n", PERCH_VERSION);
                return 0;
            case 'h':
                fmt::print("{}", usage);
                return 0;
            default:
                fmt::print(stderr, "{}", usage);
                return 2;
        }
    }
    if (optind != argc) {
        fmt::print(stderr, "perchd: '{}' is not an option\n{}", argv[optind], usage);
        return 2;
    }
    harden_against_own_storage();
    perch::Daemon daemon(options);
    if (const auto done = daemon.run(); !done) {
        fmt::print(stderr, "perchd: {}\n", done.error().message);
        return 1;
    }
    // A worker that a drive has hung must not keep the process: skip static destruction.
    std::fflush(nullptr);
    std::_Exit(EXIT_SUCCESS);
}
