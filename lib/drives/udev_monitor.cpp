// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/udev_monitor.hpp"

#include <libudev.h>

#include <cerrno>

namespace perch {

namespace {

struct DeviceDeleter {
    void operator()(udev_device* device) const { udev_device_unref(device); }
};
using DevicePtr = std::unique_ptr<udev_device, DeviceDeleter>;

std::string text(const char* value) {
    return value == nullptr ? "" : value;
}

}  // namespace

void UdevMonitor::UdevDeleter::operator()(udev* context) const {
    udev_unref(context);
}
void UdevMonitor::MonitorDeleter::operator()(udev_monitor* monitor) const {
    udev_monitor_unref(monitor);
}

Result<UdevMonitor> UdevMonitor::open() {
    UdevMonitor monitor;
    monitor.udev_.reset(udev_new());
    monitor.monitor_.reset(
        monitor.udev_ ? udev_monitor_new_from_netlink(monitor.udev_.get(), "udev") : nullptr);
    if (!monitor.monitor_ ||
        udev_monitor_filter_add_match_subsystem_devtype(monitor.monitor_.get(), "block", nullptr) <
            0 ||
        udev_monitor_enable_receiving(monitor.monitor_.get()) < 0) {
        return fail(Errc::io, "cannot listen to udev: {}", errno_text(errno));
    }
    return monitor;
}

int UdevMonitor::fd() const {
    return udev_monitor_get_fd(monitor_.get());
}

std::optional<UdevMonitor::Event> UdevMonitor::next() {
    const DevicePtr device(udev_monitor_receive_device(monitor_.get()));
    if (!device) {
        return std::nullopt;
    }
    Event event;
    event.action = text(udev_device_get_action(device.get()));
    event.name = text(udev_device_get_sysname(device.get()));
    event.disk = event.name;
    if (text(udev_device_get_devtype(device.get())) == "partition") {
        if (auto* parent = udev_device_get_parent(device.get()); parent != nullptr) {
            event.disk = text(udev_device_get_sysname(parent));
        }
    }
    return event;
}

}  // namespace perch
