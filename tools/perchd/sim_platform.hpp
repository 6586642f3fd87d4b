// SPDX-License-Identifier: GPL-2.0-or-later
// A simulated machine: drives and kernel in this process, a clock of its own, and a script that
// says what happens to it (engine/sim). It ends with the process; with a directory its drives
// remain, and the next one finds them as after a shutdown, or after a power cut if the process was
// killed.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "assemble/lock.hpp"
#include "engine/sim/sim_script.hpp"
#include "platform.hpp"

namespace perch {

struct SimPlatformOptions {
    std::string drives;     ///< "8x3.2T,4x1.92T:4k"
    std::string script;     ///< path of a script or FIFO; empty: none
    std::string directory;  ///< where the drives stay; empty: nowhere
};

class SimPlatform final : public Platform {
  public:
    /// Errc::syntax, too_small, limit: the options make no sense. Errc::in_use: another process has
    /// the directory. Errc::io.
    static Result<std::shared_ptr<SimPlatform>> make(const SimPlatformOptions& options);
    SimPlatform() = default;

    DriveAccess& drives() override { return drives_; }
    Engine& engine() override { return engine_; }
    [[nodiscard]] Clock clock() const override;
    [[nodiscard]] ControllerPolicy policy() const override { return {}; }
    [[nodiscard]] std::string trouble() const override { return ""; }
    Result<std::unique_ptr<Watch>> watch(boost::asio::io_context& loop,
                                         std::function<void()> changed) override;
    /// Carries out what the script has said since.
    bool before_work() override;
    std::optional<double> next_change() override;
    [[nodiscard]] double pace() const override { return clock_.speed(); }
    [[nodiscard]] bool ends_with_perchd() const override { return true; }
    void shut_down() override { engine_.shut_down(); }

  private:
    friend class ScriptWatch;
    Result<void> make_drives(const SimPlatformOptions& options);
    Result<void> read_script(const std::string& path);
    /// From the script's thread, the loop: to be done before the next piece of work.
    void queue(SimCommand command);

    SimClock clock_;
    StepCounter steps_;
    SimDrives drives_{steps_};
    SimEngine engine_{drives_, steps_, [this] { return clock_.now(); }};
    std::optional<ControllerLock> lock_;

    std::string script_;  ///< its path
    bool fifo_ = false;
    std::vector<SimCommand> commands_;  ///< of a script that is no FIFO

    std::mutex mutex_;
    std::deque<SimCommand> queued_;
};

}  // namespace perch
