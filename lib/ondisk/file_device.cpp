// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/file_device.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "util/units.hpp"

namespace perch {

namespace {

constexpr std::size_t alignment = 4096;
constexpr std::uint64_t chunk_bytes = MiB;

/// O_DIRECT wants aligned memory; this is one aligned bounce buffer.
class AlignedBuffer {
  public:
    explicit AlignedBuffer(std::size_t size) : storage_(size + alignment), size_(size) {
        void* start = storage_.data();
        std::size_t space = storage_.size();
        data_ = static_cast<std::byte*>(std::align(alignment, size, start, space));
    }
    [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }

  private:
    Bytes storage_;
    std::byte* data_ = nullptr;
    std::size_t size_;
};

Result<std::uint64_t> device_size(int fd, const std::string& path) {
    struct stat info {};
    std::uint64_t bytes = 0;
    if (fstat(fd, &info) != 0) {
        return fail(Errc::io, "{}: {}", path, errno_text(errno));
    }
    if (S_ISREG(info.st_mode)) {
        return static_cast<std::uint64_t>(info.st_size);
    }
    if (ioctl(fd, BLKGETSIZE64, &bytes) != 0) {
        return fail(Errc::io, "{}: cannot read its size: {}", path, errno_text(errno));
    }
    return bytes;
}

}  // namespace

FileDevice::FileDevice(std::string path, UniqueFd fd, std::uint64_t size, std::uint64_t base)
    : path_(std::move(path)), fd_(std::move(fd)), size_(size), base_(base) {}

FileDevice::FileDevice(FileDevice&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      size_(other.size_),
      base_(other.base_) {}

Result<FileDevice> FileDevice::open(const std::string& path, Mode mode, std::uint64_t base) {
    const int flags =
        O_CLOEXEC | O_DIRECT | (mode == Mode::read_write ? O_RDWR | O_DSYNC : O_RDONLY);
    UniqueFd fd(::open(path.c_str(), flags));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", path, errno_text(errno));
    }
    const auto size = device_size(fd.get(), path);
    if (!size) {
        return tl::make_unexpected(size.error());
    }
    return FileDevice(path, std::move(fd), *size, base);
}

Result<Bytes> FileDevice::read(std::uint64_t offset, std::uint64_t length) {
    Bytes result;
    result.reserve(length);
    const AlignedBuffer buffer(std::min(length, chunk_bytes));
    while (result.size() < length) {
        const auto want = std::min<std::uint64_t>(length - result.size(), chunk_bytes);
        const auto place = offset - base_ + result.size();
        const auto got = pread(fd_.get(), buffer.span().data(), want, static_cast<off_t>(place));
        if (got < 0) {
            return fail(Errc::io, "{}: read of {} bytes at {} failed: {}", path_, want, place,
                        errno_text(errno));
        }
        if (got == 0) {
            return fail(Errc::io, "{}: read of {} bytes at {} is beyond its end", path_, want,
                        place);
        }
        const auto part = buffer.span().first(static_cast<std::size_t>(got));
        result.insert(result.end(), part.begin(), part.end());
    }
    return result;
}

Result<void> FileDevice::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    const AlignedBuffer buffer(std::min<std::uint64_t>(bytes.size(), chunk_bytes));
    while (!bytes.empty()) {
        const auto length = std::min<std::uint64_t>(bytes.size(), chunk_bytes);
        std::copy_n(bytes.begin(), length, buffer.span().begin());
        const auto done =
            pwrite(fd_.get(), buffer.span().data(), length, static_cast<off_t>(offset - base_));
        if (done <= 0) {
            return fail(Errc::io, "{}: write of {} bytes at {} failed: {}", path_, length, offset,
                        errno_text(done < 0 ? errno : EIO));
        }
        offset += static_cast<std::uint64_t>(done);
        bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
    return {};
}

Result<void> FileDevice::zero(std::uint64_t offset, std::uint64_t length) {
    std::array<std::uint64_t, 2> range{offset - base_, length};
    if (ioctl(fd_.get(), BLKZEROOUT, range.data()) == 0) {
        // BLKZEROOUT completes before it returns, but says nothing of the drive's cache.
        if (fdatasync(fd_.get()) != 0) {
            return fail(Errc::io, "{}: flush failed: {}", path_, errno_text(errno));
        }
        return {};
    }
    if (errno != ENOTTY && errno != EINVAL && errno != EOPNOTSUPP) {
        return fail(Errc::io, "{}: zeroing {} bytes at {} failed: {}", path_, length, offset,
                    errno_text(errno));
    }
    const Bytes zeros(std::min(length, chunk_bytes));
    while (length > 0) {
        const auto part = std::min<std::uint64_t>(length, zeros.size());
        auto written = write(offset, std::span(zeros).first(part));
        if (!written) {
            return written;
        }
        offset += part;
        length -= part;
    }
    return {};
}

}  // namespace perch
