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

    /// `base`: where on the drive this file's first byte lies, when it is a partition; all offsets
    /// stay those of the whole drive. Errc::io with the path and the reason.
    static Result<FileDevice> open(const std::string& path, Mode mode, std::uint64_t base = 0);

    [[nodiscard]] std::uint64_t size() const override { return size_; }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override;
    Result<void> zero(std::uint64_t offset, std::uint64_t length) override;

    FileDevice(FileDevice&&) noexcept;
    ~FileDevice() override = default;

  private:
    FileDevice(std::string path, UniqueFd fd, std::uint64_t size, std::uint64_t base);
    std::string path_;
    UniqueFd fd_;
    std::uint64_t size_;
    std::uint64_t base_;
};

}  // namespace perch
