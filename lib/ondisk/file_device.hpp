// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "ondisk/block_device.hpp"
#include "util/unique_fd.hpp"

namespace perch {

/// A drive (or, in tests, a regular file) opened with O_DIRECT and, for writing, O_DSYNC.
class FileDevice final : public BlockDevice {
  public:
    enum class Mode { read_only, read_write };

    /// Opens; for writing also flocks it exclusively, so that udev does not probe in the middle of
    /// an edit (systemd's BLOCK_DEVICE_LOCKING). Errc::io with the path and the reason.
    static Result<FileDevice> open(const std::string& path, Mode mode);

    [[nodiscard]] std::uint64_t size() const override { return size_; }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override;
    Result<void> zero(std::uint64_t offset, std::uint64_t length) override;
    [[nodiscard]] int fd() const { return fd_.get(); }

    FileDevice(FileDevice&&) noexcept;
    ~FileDevice() override = default;

  private:
    FileDevice(std::string path, UniqueFd fd, std::uint64_t size);
    std::string path_;
    UniqueFd fd_;
    std::uint64_t size_;
};

}  // namespace perch
