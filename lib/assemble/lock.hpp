// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "util/error.hpp"
#include "util/unique_fd.hpp"

namespace perch {

/// The one lock under which perchd and perch-assemble change drives or device-mapper. Held as long
/// as the object lives; the kernel drops it when the holder dies.
class ControllerLock {
  public:
    /// Waits for another holder. `directory` is made when missing.
    static Result<ControllerLock> take(const std::string& directory = "/run/perch",
                                       const std::string& name = "assemble.lock");
    /// Errc::in_use instead of waiting, but for the moment that is_held() may have it.
    static Result<ControllerLock> try_take(const std::string& directory, const std::string& name);

    /// Whether somebody holds it. Never holds it long itself.
    static bool is_held(const std::string& directory, const std::string& name);

  private:
    explicit ControllerLock(UniqueFd fd) : fd_(std::move(fd)) {}
    static Result<ControllerLock> lock(const std::string& path, int operation);
    UniqueFd fd_;
};

}  // namespace perch
