// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "util/error.hpp"

struct udev;
struct udev_monitor;

namespace perch {

/// Block device events, after udev has handled them.
class UdevMonitor {
  public:
    struct Event {
        std::string action;  ///< "add", "change", "remove"
        std::string name;    ///< "nvme3n1p1"
        std::string disk;    ///< the whole drive: "nvme3n1"
    };

    static Result<UdevMonitor> open();
    /// Readable when an event waits.
    [[nodiscard]] int fd() const;
    /// The next event; nullopt when none waits.
    std::optional<Event> next();

  private:
    struct UdevDeleter {
        void operator()(udev* context) const;
    };
    struct MonitorDeleter {
        void operator()(udev_monitor* monitor) const;
    };
    UdevMonitor() = default;
    std::unique_ptr<udev, UdevDeleter> udev_;
    std::unique_ptr<udev_monitor, MonitorDeleter> monitor_;
};

}  // namespace perch
