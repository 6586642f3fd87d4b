// SPDX-License-Identifier: GPL-2.0-or-later
// perchd(8): the daemon. Parses its options, chooses the machine, runs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "daemon.hpp"
#include "nvme_platform.hpp"
#include "options.hpp"
#include "sim_platform.hpp"

namespace {

constexpr int cannot_run = 1;
constexpr int wrong_options = 2;

std::string environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "" : value;
}

perch::Result<std::shared_ptr<perch::Platform>> make_platform(const perch::PerchdOptions& options) {
    if (!options.simulate) {
        perch::harden_against_own_storage();
        return std::make_shared<perch::NvmePlatform>();
    }
    return perch::SimPlatform::make({options.sim_drives, options.sim_script, options.sim_directory})
        .map([&](std::shared_ptr<perch::SimPlatform> platform) -> std::shared_ptr<perch::Platform> {
            fmt::print(stderr,
                       "perchd: a simulation; look at it with: PERCH_SOCKET={} perchcli show\n",
                       std::filesystem::absolute(options.socket).string());
            return platform;
        });
}

bool makes_no_sense(perch::Errc code) {
    return code == perch::Errc::syntax || code == perch::Errc::limit ||
           code == perch::Errc::too_small;
}

}  // namespace

int main(int argc, char** argv) {
    const auto options =
        perch::parse_perchd_options({argv + std::min(argc, 1), argv + argc}, environment);
    if (!options) {
        fmt::print(stderr, "perchd: {}\n\n{}", options.error().message, perch::perchd_usage);
        return wrong_options;
    }
    if (options->show == perch::PerchdOptions::Show::help) {
        fmt::print("{}", perch::perchd_usage);
        return EXIT_SUCCESS;
    }
    if (options->show == perch::PerchdOptions::Show::version) {
        fmt::print("perchd {}\n", PERCH_VERSION);
        return EXIT_SUCCESS;
    }
    auto platform = make_platform(*options);
    if (!platform) {
        fmt::print(stderr, "perchd: {}\n", platform.error().message);
        return makes_no_sense(platform.error().code) ? wrong_options : cannot_run;
    }
    perch::Daemon daemon(
        {options->socket, options->run_directory, options->lock_prefix, options->event_database},
        std::move(*platform));
    if (const auto done = daemon.run(); !done) {
        fmt::print(stderr, "perchd: {}\n", done.error().message);
        return cannot_run;
    }
    // A worker that a drive has hung must not keep the process: skip static destruction.
    std::fflush(nullptr);
    std::_Exit(EXIT_SUCCESS);
}
