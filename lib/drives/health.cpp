// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/health.hpp"

#include <endian.h>
#include <fcntl.h>
#include <libnvme.h>

#include <cerrno>
#include <cstring>

#include "util/unique_fd.hpp"

namespace perch {

Result<DriveHealth> read_health(const std::string& controller) {
    const auto path = "/dev/" + controller;
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", path, errno_text(errno));
    }
    nvme_smart_log log{};
    const int rc = nvme_get_log_smart(fd.get(), NVME_NSID_ALL, false, &log);
    if (rc != 0) {
        return fail(Errc::io, "{}: reading the SMART log failed: {}", path,
                    rc < 0 ? errno_text(errno) : std::string(nvme_status_to_string(rc, false)));
    }
    constexpr int kelvin_offset = 273;
    DriveHealth health;
    health.temperature_celsius = (log.temperature[1] << 8 | log.temperature[0]) - kelvin_offset;
    health.percentage_used = log.percent_used;
    health.available_spare = log.avail_spare;
    health.critical_warning = log.critical_warning;
    // A 128-bit counter, little-endian; the upper half stays zero for longer than drives live.
    std::uint64_t media_errors = 0;
    std::memcpy(&media_errors, log.media_errors, sizeof(media_errors));
    health.media_errors = le64toh(media_errors);
    return health;
}

}  // namespace perch
