// SPDX-License-Identifier: GPL-2.0-or-later
// What perchd needs of the machine it runs on. The real one is nvme_platform, the simulated one
// sim_platform; nothing else of perchd knows which it is.
//
// Threads: watch() and the Watch belong to the loop. Everything else is called on the dm worker.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "drives/drive_access.hpp"
#include "engine/engine.hpp"
#include "operations/controller.hpp"

namespace perch {

class Platform {
  public:
    /// Tells of changes as long as it lives.
    class Watch {
      public:
        Watch() = default;
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        virtual ~Watch() = default;
    };

    Platform() = default;
    Platform(const Platform&) = delete;
    Platform& operator=(const Platform&) = delete;
    virtual ~Platform() = default;

    virtual DriveAccess& drives() = 0;
    virtual Engine& engine() = 0;
    [[nodiscard]] virtual Clock clock() const = 0;
    [[nodiscard]] virtual ControllerPolicy policy() const = 0;
    /// Why no VD can run here, for a person; empty: they can.
    [[nodiscard]] virtual std::string trouble() const = 0;

    /// `changed` is called on the loop's thread whenever drives, VDs or their users may have
    /// changed.
    virtual Result<std::unique_ptr<Watch>> watch(boost::asio::io_context& loop,
                                                 std::function<void()> changed) = 0;

    /// Before each piece of work. True: the machine was started anew, and what was known of it no
    /// longer counts.
    virtual bool before_work() { return false; }
    /// Seconds until something changes that watch() does not tell; nullopt: nothing known.
    virtual std::optional<double> next_change() { return std::nullopt; }
    /// How many times faster than time its clock runs.
    [[nodiscard]] virtual double pace() const { return 1; }
    /// Whether VDs end with perchd; then shut_down() stops them in order.
    [[nodiscard]] virtual bool ends_with_perchd() const { return false; }
    virtual void shut_down() {}
};

}  // namespace perch
