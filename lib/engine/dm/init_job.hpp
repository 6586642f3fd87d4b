// SPDX-License-Identifier: GPL-2.0-or-later
// A full initialization: zeroes a block device from some byte to its end, in a thread of its own.
//
// Ownership: the thread touches nothing but the device it has opened exclusively (so that nobody
// can mount it meanwhile) and two atomics. What was zeroed stays zeroed when it is stopped or
// killed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "util/error.hpp"
#include "util/unique_fd.hpp"

namespace perch {

/// Zeroes [offset, offset + bytes) of a block device that nobody else has open. Errc::in_use.
Result<void> zero_block_device(const std::string& path, std::uint64_t offset, std::uint64_t bytes);

class InitJob {
  public:
    /// Errc::in_use when the device is mounted or otherwise held.
    static Result<std::unique_ptr<InitJob>> start(const std::string& path, std::uint64_t from_bytes,
                                                  std::uint64_t total_bytes);
    InitJob(const InitJob&) = delete;
    InitJob& operator=(const InitJob&) = delete;
    /// Stops at the next piece and waits for it.
    ~InitJob() = default;

    [[nodiscard]] std::uint64_t done_bytes() const { return done_; }
    [[nodiscard]] std::uint64_t total_bytes() const { return total_; }
    [[nodiscard]] bool running() const { return running_; }

  private:
    InitJob(UniqueFd fd, std::uint64_t from_bytes, std::uint64_t total_bytes);
    void run(const std::stop_token& stop);

    UniqueFd fd_;
    std::uint64_t total_;
    std::atomic<std::uint64_t> done_;
    std::atomic<bool> running_{true};
    std::jthread thread_;  ///< last: it uses the others
};

}  // namespace perch
