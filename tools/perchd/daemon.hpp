// SPDX-License-Identifier: GPL-2.0-or-later
// perchd: the loop and what hangs on it.
//
// Threads: the loop (HTTP, timers, wake-ups from the platform) never waits for a drive, the kernel
// or a disk; the dm worker owns the Controller and does all that waits; drives have workers of
// their own (drives/nvme_access); the event log has its writer. The loop and the dm worker exchange
// values only: operations one way, snapshots the other.
//
// It looks when something happened, every second while something goes on, every five while a VD is
// not Optimal, and otherwise once a minute, in case that a wake-up was lost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>

#include "events/event_log.hpp"
#include "http/server.hpp"
#include "platform.hpp"
#include "redfish/service.hpp"
#include "util/worker.hpp"

namespace perch {

struct DaemonOptions {
    std::string socket = "/run/perch/perchd.sock";
    std::string run_directory = "/run/perch";
    std::string lock_prefix;  ///< of the locks' names there
    std::string event_database = "/var/lib/perch/events.db";
};

class Daemon final : public redfish::Backend {
  public:
    Daemon(DaemonOptions options, std::shared_ptr<Platform> platform);

    /// Runs until SIGTERM or SIGINT.
    Result<void> run();

    [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const override { return snapshot_; }
    [[nodiscard]] std::vector<Event> events(std::uint64_t after, std::size_t latest) override;
    std::uint64_t submit(const std::string& name, Operation operation) override;

  private:
    /// What the dm worker owns; it may outlive the daemon if the kernel hangs it.
    struct Core;
    struct Waiter {
        std::uint64_t after = 0;
        std::uint64_t number = 0;
        std::function<void(redfish::Response)> respond;
        redfish::Request request;
        std::shared_ptr<boost::asio::steady_timer> timer;
    };

    void answer(redfish::Request request, std::function<void(redfish::Response)> respond);
    void answer_waiter(std::uint64_t number);
    void publish(Snapshot snapshot);
    void finish_task(std::uint64_t id, const Result<std::string>& result);
    void changed();
    void refresh_now();
    void finish_refresh(Snapshot shown, bool busy, std::optional<double> next_change);
    void schedule_refresh(std::chrono::milliseconds delay);
    void watch_signals();
    void shut_down();

    DaemonOptions options_;
    boost::asio::io_context loop_{1};
    redfish::Service service_{*this};
    std::shared_ptr<const Snapshot> snapshot_ = std::make_shared<Snapshot>();
    std::deque<TaskInfo> tasks_;
    std::uint64_t next_task_ = 1;
    std::deque<Waiter> waiters_;
    std::uint64_t next_waiter_ = 1;
    bool refreshing_ = false;
    bool refresh_again_ = false;
    bool settled_ = false;  ///< one look has found nothing since the last change

    std::shared_ptr<EventLog> events_;
    std::shared_ptr<Platform> platform_;
    std::shared_ptr<Core> core_;
    std::unique_ptr<Worker> dm_worker_;
    std::unique_ptr<http::Server> server_;
    std::unique_ptr<Platform::Watch> watch_;
    boost::asio::steady_timer refresh_timer_{loop_};
    boost::asio::signal_set signals_{loop_};
};

}  // namespace perch
