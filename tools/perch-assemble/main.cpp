// SPDX-License-Identifier: GPL-2.0-or-later
// perch-assemble(8): starts virtual drives from what their drives say; no daemon, no configuration
// file, no state.
#include <fmt/format.h>
#include <getopt.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string>

#include "assemble/lock.hpp"
#include "drives/nvme_access.hpp"
#include "drives/udev_monitor.hpp"
#include "engine/dm/dm_engine.hpp"
#include "engine/dm/dm_task.hpp"
#include "events/event_log.hpp"
#include "operations/controller.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "perch-assemble: start the virtual drives whose members are there.\n"
    "\n"
    "usage: perch-assemble [options]\n"
    "  --wait SECONDS   wait this long after the last drive arrived for members that are\n"
    "                   absent, then start degraded (default 0: start what is complete)\n"
    "  --stop           stop all virtual drives instead\n"
    "  --run-dir DIR    where the lock is (default /run/perch)\n"
    "  --version        print the version\n"
    "  --help           print this\n"
    "\n"
    "Exit status: 0 when every configured virtual drive runs (with --stop: none runs), 1 when\n"
    "one does not, 2 for wrong options. perch.degraded=no on the kernel command line forbids\n"
    "degraded starts.\n";

struct Options {
    int wait_seconds = 0;
    bool stop = false;
    std::string run_directory = "/run/perch";
};

/// Drives that the kernel is still probing count as arriving, but not for ever.
constexpr int longest_wait_seconds = 60;
/// After the degraded start is due, one more look must have had the time to do it.
constexpr int last_look_seconds = 3;

void print_problems(const perch::Controller& controller) {
    for (const auto& problem : controller.snapshot().problems) {
        fmt::print(stderr, "{} {} {}\n", problem.what, problem.doing, problem.action);
    }
}

int stop_all(const Options& options) {
    const auto lock = perch::ControllerLock::take(options.run_directory);
    if (!lock) {
        fmt::print(stderr, "perch-assemble: {}\n", lock.error().message);
        return 1;
    }
    perch::DmEngine engine;
    const auto running = engine.running();
    if (!running) {
        fmt::print(stderr, "perch-assemble: {}\n", running.error().message);
        return 1;
    }
    int status = 0;
    for (const auto& vd : *running) {
        if (const auto done = engine.stop(vd); !done) {
            fmt::print(stderr, "perch-assemble: {}\n", done.error().message);
            status = 1;
        }
    }
    return status;
}

/// Waits for a block device event or until the next whole second; true if there was an event.
bool wait_for_event(perch::UdevMonitor& monitor, perch::NvmeAccess& drives) {
    constexpr int tick_ms = 1000;
    pollfd descriptor{monitor.fd(), POLLIN, 0};
    if (poll(&descriptor, 1, tick_ms) <= 0) {
        return false;
    }
    while (const auto event = monitor.next()) {
        drives.invalidate(event->disk);
    }
    return true;
}

int assemble(const Options& options) {
    std::string reason;
    if (!perch::dm::available(reason)) {
        fmt::print(stderr, "perch-assemble: {}\n", reason);
        return 1;
    }
    // Listening begins before the first look, so that no arrival falls between.
    auto monitor = perch::UdevMonitor::open();
    if (!monitor) {
        fmt::print(stderr, "perch-assemble: {}\n", monitor.error().message);
        return 1;
    }
    perch::NvmeAccess drives({.find_content = false});
    perch::DmEngine engine;
    perch::StderrEvents events;
    auto policy = perch::ControllerPolicy::from_kernel_command_line();
    policy.degraded_wait_seconds = options.wait_seconds;
    policy.start_degraded = policy.start_degraded && options.wait_seconds > 0;
    policy.only_writer = false;
    perch::Controller controller(drives, engine, events, perch::Clock::system(), policy);
    const auto waiting = options.wait_seconds > 0;
    const auto deadline = Clock::now() + std::chrono::seconds(waiting ? longest_wait_seconds : 0);
    const auto quiet = std::chrono::seconds(waiting ? options.wait_seconds + last_look_seconds : 0);
    auto last_event = Clock::now();
    bool started = false;
    while (true) {
        {
            const auto lock = perch::ControllerLock::take(options.run_directory);
            if (!lock) {
                fmt::print(stderr, "perch-assemble: {}\n", lock.error().message);
                return 1;
            }
            // It sees the drives itself, and must be the only one to write configurations.
            if (perch::ControllerLock::is_held(options.run_directory, "perchd.lock")) {
                fmt::print(stderr,
                           "perch-assemble: perchd runs; it starts what is to be started\n");
                return 0;
            }
            if (!started) {
                if (const auto done = controller.start(); !done) {
                    fmt::print(stderr, "perch-assemble: {}\n", done.error().message);
                    return 1;
                }
                started = true;
            } else {
                controller.refresh();
            }
        }
        if (controller.all_started()) {
            return 0;
        }
        if (Clock::now() >= std::min(deadline, last_event + quiet)) {
            print_problems(controller);
            return 1;
        }
        if (wait_for_event(*monitor, drives)) {
            last_event = Clock::now();
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    const std::array<option, 6> long_options{{{"wait", required_argument, nullptr, 'w'},
                                              {"stop", no_argument, nullptr, 's'},
                                              {"run-dir", required_argument, nullptr, 'r'},
                                              {"version", no_argument, nullptr, 'V'},
                                              {"help", no_argument, nullptr, 'h'},
                                              {nullptr, 0, nullptr, 0}}};
    for (int letter = 0;
         (letter = getopt_long(argc, argv, "h", long_options.data(), nullptr)) != -1;) {
        const std::string value = optarg == nullptr ? "" : optarg;
        switch (letter) {
            case 'w': {
                const auto* end = value.data() + value.size();
                const auto [rest, error] = std::from_chars(value.data(), end, options.wait_seconds);
                if (error != std::errc() || rest != end || options.wait_seconds < 0 ||
                    options.wait_seconds > longest_wait_seconds) {
                    fmt::print(stderr, "perch-assemble: --wait takes 0 to {} seconds, not '{}'\n",
                               longest_wait_seconds, value);
                    return 2;
                }
                break;
            }
            case 's':
                options.stop = true;
                break;
            case 'r':
                options.run_directory = value;
                break;
            case 'V':
                fmt::print("perch-assemble {}\n", PERCH_VERSION);
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
        fmt::print(stderr, "perch-assemble: '{}' is not an option\n{}", argv[optind], usage);
        return 2;
    }
    return options.stop ? stop_all(options) : assemble(options);
}
