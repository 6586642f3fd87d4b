// SPDX-License-Identifier: GPL-2.0-or-later
#include "assemble/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

namespace perch {

Result<ControllerLock> ControllerLock::lock(const std::string& path, int operation) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    constexpr mode_t mode = 0600;
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, mode));
    if (!fd.valid()) {
        return fail(errno == EACCES ? Errc::permission : Errc::io, "cannot open {}: {}", path,
                    errno_text(errno));
    }
    while (flock(fd.get(), operation) != 0) {
        if (errno == EWOULDBLOCK) {
            return fail(Errc::in_use, "{} is held by another process", path);
        }
        if (errno != EINTR) {
            return fail(Errc::io, "cannot lock {}: {}", path, errno_text(errno));
        }
    }
    return ControllerLock(std::move(fd));
}

Result<ControllerLock> ControllerLock::take(const std::string& directory, const std::string& name) {
    return lock(directory + "/" + name, LOCK_EX);
}

Result<ControllerLock> ControllerLock::try_take(const std::string& directory,
                                                const std::string& name) {
    constexpr auto step = std::chrono::milliseconds(20);
    constexpr int tries = 10;
    const auto path = directory + "/" + name;
    auto taken = lock(path, LOCK_EX | LOCK_NB);
    for (int i = 1; !taken && taken.error().code == Errc::in_use && i < tries; ++i) {
        std::this_thread::sleep_for(step);
        taken = lock(path, LOCK_EX | LOCK_NB);
    }
    return taken;
}

bool ControllerLock::is_held(const std::string& directory, const std::string& name) {
    const auto looked = lock(directory + "/" + name, LOCK_SH | LOCK_NB);
    return !looked && looked.error().code == Errc::in_use;
}

}  // namespace perch
