// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "util/error.hpp"
#include "util/unique_fd.hpp"

namespace perch::dm {

/// Tells when any device-mapper device has an event (a member failed, a rebuild ended): the file
/// becomes readable after arm() once one happens (Linux 4.14, DM_DEV_ARM_POLL).
class EventWatch {
  public:
    static Result<EventWatch> open();
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// Call before waiting, and again after each wake-up. Cheap; never waits.
    Result<void> arm();

  private:
    explicit EventWatch(UniqueFd fd) : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

}  // namespace perch::dm
