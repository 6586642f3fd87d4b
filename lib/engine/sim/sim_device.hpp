// SPDX-License-Identifier: GPL-2.0-or-later
// One simulated drive's blocks, and what stops a program between two writes to them.
//
// Whatever changes a drive or the simulated kernel is a step of a StepCounter. A test arms it to
// stop at one of them, as a kill or a power cut does: Stopped is thrown, and nothing after that
// step happens. Writes to several drives that go on beside each other are one step, at which any
// subset of them may be done and the others not done or torn.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "ondisk/block_device.hpp"
#include "util/unique_fd.hpp"

namespace perch {

/// Thrown at the chosen step; nothing after it happens.
struct Stopped : std::runtime_error {
    Stopped() : std::runtime_error("stopped") {}
};

/// Who carries a step out. What the kernel has begun it ends, also when the program is killed; only
/// a power cut stops it.
enum class Stepper { program, kernel };

/// Where to stop, and what of that step is done by then.
struct StopPoint {
    int step = -1;           ///< 0-based, counted from when it is armed; negative: never
    std::vector<bool> done;  ///< by job of the step: it was done; empty: none was
    bool torn = false;       ///< the others were begun: a part of their writes, in 4 KiB units
    unsigned seed = 0;       ///< chooses which part; 0: the first half
    [[nodiscard]] bool has_done(std::size_t job) const { return job < done.size() && done[job]; }
};

/// Counts steps, and stops at one of them.
class StepCounter {
  public:
    /// A step of one job that leaves nothing half done. Called before it takes effect.
    void step(Stepper who = Stepper::program);
    /// A step of `width` jobs beside each other. nullopt: do them all and go on. Otherwise the
    /// caller does what the answer says and throws Stopped.
    std::optional<StopPoint> begin(std::size_t width, Stepper who = Stepper::program);

    void arm(StopPoint stop) { stop_ = std::move(stop); }
    /// Stop before step number `n` (0-based) from now; never when negative.
    void arm(int n) { stop_ = StopPoint{n, {}, false, 0}; }
    /// Whether the kernel's own steps count; they do not when a kill is simulated.
    void set_counts_kernel(bool counts) { counts_kernel_ = counts; }
    /// Steps since reset().
    [[nodiscard]] int count() const { return count_; }
    /// How many jobs each of them had; the first 10,000.
    [[nodiscard]] const std::vector<std::size_t>& widths() const { return widths_; }
    void reset() {
        widths_.clear();
        count_ = 0;
    }

  private:
    StopPoint stop_;
    bool counts_kernel_ = true;
    int count_ = 0;
    std::vector<std::size_t> widths_;
};

using SimPage = std::array<std::byte, 4096>;
inline constexpr std::uint64_t sim_page_bytes = sizeof(SimPage);

/// Keeps equal pages once: drives of a controller carry the same configuration. Shared by drives;
/// one thread.
class PagePool {
  public:
    /// The page with that content (4096 bytes); nullptr for zeros.
    std::shared_ptr<const SimPage> intern(std::span<const std::byte> bytes);

  private:
    std::unordered_map<std::size_t, std::weak_ptr<const SimPage>> pages_;
    std::size_t sweep_at_ = 1024;
};

/// Sparse blocks in memory, in 4 KiB pages; kept in a sparse file as well when given one.
class SimDevice final : public BlockDevice {
  public:
    using Pages = std::map<std::uint64_t, std::shared_ptr<const SimPage>>;  ///< by page number

    SimDevice(std::uint64_t size, StepCounter& steps, std::shared_ptr<PagePool> pool = nullptr);

    /// Reads what that file holds, and writes to it from now on; it is made when missing. Errc::io.
    Result<void> keep_in(const std::string& path);

    [[nodiscard]] std::uint64_t size() const override { return size_; }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override;
    Result<void> zero(std::uint64_t offset, std::uint64_t length) override;

    /// Whether a write there would work now; the error it would give.
    [[nodiscard]] Result<void> check_write(std::uint64_t offset, std::uint64_t length) const;
    [[nodiscard]] Result<void> check_read(std::uint64_t offset, std::uint64_t length) const;
    /// Writes without being a step: for what has counted already, and for what a test prepares.
    void store(std::uint64_t offset, std::span<const std::byte> bytes);
    void erase(std::uint64_t offset, std::uint64_t length);
    /// Holds those pages and no others, as a copy or a drive from elsewhere does.
    void set_pages(const Pages& pages);

    [[nodiscard]] const Pages& pages() const { return pages_; }
    [[nodiscard]] StepCounter& steps() const { return steps_; }

    bool torn = false;         ///< a stopped write leaves its first half, whatever the stop says
    bool failing = false;      ///< every access is an I/O error
    bool fail_reads = false;   ///< reads are I/O errors
    bool fail_writes = false;  ///< writes are I/O errors
    bool hung = false;         ///< nothing is answered

  private:
    void store_page(std::uint64_t page, std::span<const std::byte> bytes);

    std::uint64_t size_;
    StepCounter& steps_;
    std::shared_ptr<PagePool> pool_;
    Pages pages_;
    UniqueFd file_;
};

/// One drive's part of a step over several drives: takes writes, and keeps them back until
/// commit_staged() says which of them happen. Reads see them at once.
class StagedDevice final : public BlockDevice {
  public:
    explicit StagedDevice(SimDevice& device) : device_(device) {}
    [[nodiscard]] std::uint64_t size() const override { return device_.size(); }
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) override;
    Result<void> write(std::uint64_t offset, std::span<const std::byte> bytes) override;
    Result<void> zero(std::uint64_t offset, std::uint64_t length) override;

    [[nodiscard]] bool empty() const { return writes_.empty(); }
    /// The writes of the other one once more, here. Errc::io.
    Result<void> repeat(const StagedDevice& other);
    /// All writes, in order.
    void apply();
    /// Some first ones whole, and the next one in part.
    void apply_torn(unsigned seed);

  private:
    struct Write {
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
        std::optional<Bytes> bytes;  ///< nullopt: zeros
    };
    void apply_part(const Write& write, std::uint64_t from, std::uint64_t length);

    SimDevice& device_;
    std::vector<Write> writes_;
};

/// Carries staged writes out as one step; throws Stopped if it is the one to stop at. Devices
/// without writes do not count.
void commit_staged(StepCounter& steps, const std::vector<std::unique_ptr<StagedDevice>>& devices,
                   Stepper who = Stepper::program);

}  // namespace perch
