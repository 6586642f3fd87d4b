// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/init_job.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "util/units.hpp"

namespace perch {

namespace {

Result<UniqueFd> open_exclusively(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
    if (fd.get() < 0) {
        return fail(errno == EBUSY ? Errc::in_use : Errc::io, "{}: {}", path, errno_text(errno));
    }
    return fd;
}

Result<void> zero_range(int fd, std::uint64_t offset, std::uint64_t bytes) {
    std::array<std::uint64_t, 2> range{offset, bytes};
    if (::ioctl(fd, BLKZEROOUT, range.data()) != 0) {
        return fail(Errc::io, "zeroing {} at {}: {}", format_size(bytes), format_size(offset),
                    errno_text(errno));
    }
    return {};
}

}  // namespace

Result<void> zero_block_device(const std::string& path, std::uint64_t offset, std::uint64_t bytes) {
    return open_exclusively(path).and_then([&](const UniqueFd& fd) -> Result<void> {
        if (auto done = zero_range(fd.get(), offset, bytes); !done) {
            return done;
        }
        return ::fsync(fd.get()) == 0 ? Result<void>()
                                      : fail(Errc::io, "{}: {}", path, errno_text(errno));
    });
}

Result<std::unique_ptr<InitJob>> InitJob::start(const std::string& path, std::uint64_t from_bytes,
                                                std::uint64_t total_bytes) {
    return open_exclusively(path).map([&](UniqueFd fd) {
        return std::unique_ptr<InitJob>(new InitJob(std::move(fd), from_bytes, total_bytes));
    });
}

InitJob::InitJob(UniqueFd fd, std::uint64_t from_bytes, std::uint64_t total_bytes)
    : fd_(std::move(fd)),
      total_(total_bytes),
      done_(from_bytes),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void InitJob::run(const std::stop_token& stop) {
    constexpr std::uint64_t piece = 64 * MiB;  // what a stop waits for at most
    while (!stop.stop_requested() && done_ < total_) {
        const auto length = std::min(piece, total_ - done_);
        if (!zero_range(fd_.get(), done_, length) || ::fdatasync(fd_.get()) != 0) {
            break;  // done_ stays short of total_, which says that it failed
        }
        done_ += length;
    }
    fd_ = UniqueFd();  // the VD can be mounted now
    running_ = false;
}

}  // namespace perch
