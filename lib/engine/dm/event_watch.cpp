// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/event_watch.hpp"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <sys/ioctl.h>

#include <cerrno>

namespace perch::dm {

Result<EventWatch> EventWatch::open() {
    UniqueFd fd(::open("/dev/mapper/control", O_RDWR | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open /dev/mapper/control: {}", errno_text(errno));
    }
    return EventWatch(std::move(fd));
}

Result<void> EventWatch::arm() {
    dm_ioctl request{};
    request.version[0] = DM_VERSION_MAJOR;
    request.version[1] = 0;
    request.data_size = sizeof(request);
    if (ioctl(fd_.get(), DM_DEV_ARM_POLL, &request) != 0) {
        return fail(Errc::io, "cannot watch device-mapper events: {}", errno_text(errno));
    }
    return {};
}

}  // namespace perch::dm
