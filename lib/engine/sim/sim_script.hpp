// SPDX-License-Identifier: GPL-2.0-or-later
// What happens to the simulated machine, line by line. Blank lines and what follows a '#' do not
// count. A drive is named by its slot (of enclosure 0), a VD by its name. Sizes are decimal as
// drives are sold (3.2T, 480G, 100M, 64K) or binary (3TiB, 4GiB, 64MiB); durations 5s, 2m, 1h,
// 100ms.
//
//   wait 5s                          nothing happens for 5 seconds of the simulation's time
//   pull 3                           surprise removal
//   insert 3 [same|blank]            the drive that was pulled from there last, or a blank one like
//   it add 9 3.2T [512|4k]              a new blank drive, with logical blocks of that size slow 2
//   100M                      the drive does 100 MB/s (of 2 GB/s) from now on fail 4 [reads|writes]
//   its reads, its writes or all its I/O are errors hang 5                           it answers
//   nothing any more wake 5                           it is well again: neither slow nor failing
//   nor hanging foreign 6 "ext4 filesystem"      it carries that, and nothing of Perch's use 6
//   "mounted on /boot"         somebody has it in use; "" ends that write v1 host I/O everywhere:
//   the VD is not clean until `idle` idle v1                          the host falls silent open
//   v1, close v1                somebody has the VD open, or not any more speed 100x time runs 100
//   times as fast power-cut                        everything in memory is gone; the drives stay
//
// What a line does is done at once; what follows from it (the kernel notices a failure at the next
// access, Perch at its next look) is not the script's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sim/sim_engine.hpp"
#include "util/error.hpp"

namespace perch {

/// Time that can run faster than it does. Any thread.
class SimClock {
  public:
    SimClock();
    /// Seconds since the start.
    [[nodiscard]] double now() const;
    /// At least 0.001.
    void set_speed(double speed);
    [[nodiscard]] double speed() const;

  private:
    struct State;
    std::shared_ptr<State> state_;
};

/// One line, understood.
struct SimCommand {
    enum class Verb {
        wait,
        pull,
        insert,
        add,
        slow,
        fail,
        hang,
        wake,
        foreign,
        use,
        write,
        idle,
        open,
        close,
        speed,
        power_cut,
        reboot,
    };
    Verb verb = Verb::wait;
    int slot = -1;
    std::string text;           ///< content, user, VD, or the word that says how
    std::uint64_t bytes = 0;    ///< a size, or bytes per second
    std::uint32_t block = 512;  ///< of a new drive
    double number = 0;          ///< seconds, or times
    int line = 0;               ///< in its script
};

/// nullopt: nothing to do. Errc::syntax says what was expected.
Result<std::optional<SimCommand>> parse_sim_line(std::string_view line);
/// A whole script; the error names `name` and the line.
Result<std::vector<SimCommand>> parse_sim_script(const std::string& name, std::string_view text);

/// "3.2T", "480G", "3TiB" in bytes. Errc::syntax.
Result<std::uint64_t> parse_sim_size(std::string_view text);

/// Carries a command out; `wait` is the caller's. Errc::not_found, wrong_state: there is no such
/// drive or VD, or it is already so.
Result<void> run_sim_command(const SimCommand& command, SimDrives& drives, SimEngine& engine,
                             SimClock& clock);

/// The drives of an option "8x3.2T,4x1.92T:4k": how many, of what size, with which blocks.
struct SimDriveSet {
    int count = 0;
    std::uint64_t bytes = 0;
    std::uint32_t block = 512;
    bool operator==(const SimDriveSet&) const = default;
};
/// Errc::syntax; Errc::too_small for drives that Perch could not use, Errc::limit for more than a
/// controller may have.
Result<std::vector<SimDriveSet>> parse_sim_drives(std::string_view text);

}  // namespace perch
