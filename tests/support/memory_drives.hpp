// SPDX-License-Identifier: GPL-2.0-or-later
// Drives in memory for tests: they can be pulled and put back, and they stop the program at the
// n-th step that would change something, as a kill or a power cut does.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "drives/drive_access.hpp"
#include "ondisk/block_device.hpp"

namespace perch::test {

/// Thrown at the chosen step; nothing after it happens.
struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("stopped") {}
};

/// Counts every step that changes a drive or the engine, and stops at one of them.
class StepCounter {
  public:
    /// Called before a step takes effect.
    void step();
    /// Stop before step number `n` (0-based) from now; never when negative.
    void arm(int n) { left_ = n; }
    [[nodiscard]] int count() const { return count_; }
    void reset() { count_ = 0; }

  private:
    int left_ = -1;
    int count_ = 0;
};

/// Sparse memory in 4 KiB pages. A write that is stopped may be torn: its first half is kept.
class MemoryDevice final : public BlockDevice {
  public:
    MemoryDevice(std::uint64_t size, StepCounter& steps) : size_(size), steps_(steps) {}
    [[nodiscard]] std::uint64_t size() const override { return size_; }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override;
    Result<void> zero(std::uint64_t offset, std::uint64_t length) override;

    bool torn = false;     ///< a stopped write leaves its first half
    bool failing = false;  ///< every access is an I/O error

  private:
    void store(std::uint64_t offset, std::span<const std::byte> bytes);
    std::uint64_t size_;
    StepCounter& steps_;
    std::map<std::uint64_t, Bytes> pages_;
};

struct MemoryDrive {
    DriveIdentity identity;
    std::unique_ptr<MemoryDevice> device;
    bool present = true;
    bool answers = true;
    std::string content;  ///< what is on it before Perch takes it
    std::vector<std::string> users;
};

class MemoryDrives final : public DriveAccess {
  public:
    explicit MemoryDrives(StepCounter& steps) : steps_(steps) {}

    /// A blank drive in that slot. Size in bytes.
    MemoryDrive& add(int slot, std::uint64_t size, std::uint32_t block_bytes = 512);
    MemoryDrive& in_slot(int slot);
    MemoryDrive* by_partition(const std::string& partition);

    std::vector<FoundDrive> look() override;
    Result<Label> take(const DriveIdentity& drive, const Uuid& controller) override;
    std::vector<Result<void>> write_configuration(const std::vector<FoundDrive>& drives,
                                                  const Configuration& configuration) override;
    Result<Bytes> read(const DriveIdentity& drive, std::uint64_t offset,
                       std::uint64_t length) override;
    Result<void> zero(const std::vector<DriveRange>& ranges) override;

  private:
    Result<MemoryDrive*> present(const DriveIdentity& drive);
    StepCounter& steps_;
    std::vector<std::unique_ptr<MemoryDrive>> drives_;
};

}  // namespace perch::test
