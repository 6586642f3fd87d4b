// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <csignal>
#include <ctime>

#include "assemble/lock.hpp"

namespace perch {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds idle_period{60'000};
constexpr milliseconds second_look{5000};  // what a change has set off may take a moment
constexpr milliseconds busy_period{1000};
constexpr milliseconds settle_delay{50};  // one drive's arrival is several udev events
constexpr milliseconds shortest_period{20};
constexpr seconds longest_wait{30};
constexpr seconds slow_look{5};
constexpr std::size_t kept_tasks = 100;
constexpr std::size_t max_waiters = 64;

std::string utc_now() {
    const auto now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

/// Runs a job; a defect in it becomes an error and not the end of the daemon.
template <typename T, typename Job>
Result<T> guarded(Job job) {
    try {
        return job();
    } catch (const std::exception& error) {
        return fail(Errc::internal, "a defect in Perch: {}", error.what());
    }
}

}  // namespace

struct Daemon::Core {
    Core(std::shared_ptr<Platform> machine, std::shared_ptr<EventLog> log,
         const DaemonOptions& options)
        : platform(std::move(machine)),
          events(std::move(log)),
          run_directory(options.run_directory),
          lock(options.lock_prefix + "assemble.lock") {
        forget();
    }

    /// Nothing is known of the machine.
    void forget() {
        started = false;
        controller = std::make_unique<Controller>(platform->drives(), platform->engine(), *events,
                                                  platform->clock(), platform->policy());
    }

    /// Holds the lock shared with perch-assemble around anything that may change something.
    template <typename Action>
    auto locked(Action action) -> decltype(action()) {
        const auto held = ControllerLock::take(run_directory, lock);
        if (!held) {
            return tl::make_unexpected(held.error());
        }
        if (platform->before_work()) {
            forget();
        }
        return action();
    }

    /// Looks, and acts on what it finds.
    Result<void> refresh() {
        return locked([&]() -> Result<void> {
            if (!started && platform->trouble().empty()) {
                started = controller->start().has_value();
            } else {
                controller->refresh();
            }
            return {};
        });
    }

    std::shared_ptr<Platform> platform;
    std::shared_ptr<EventLog> events;
    std::string run_directory;
    std::string lock;
    std::unique_ptr<Controller> controller;
    bool started = false;
};

Daemon::Daemon(DaemonOptions options, std::shared_ptr<Platform> platform)
    : options_(std::move(options)),
      events_(std::make_shared<EventLog>(options_.event_database)),
      platform_(std::move(platform)),
      core_(std::make_shared<Core>(platform_, events_, options_)),
      dm_worker_(std::make_unique<Worker>()) {}

Result<void> Daemon::run() {
    // Held until the process ends, however it ends.
    const auto single =
        ControllerLock::try_take(options_.run_directory, options_.lock_prefix + "perchd.lock");
    if (!single) {
        return single.error().code == Errc::in_use ? fail(Errc::in_use, "perchd is running already")
                                                   : tl::make_unexpected(single.error());
    }
    auto watch = platform_->watch(loop_, [this] { changed(); });
    if (!watch) {
        return tl::make_unexpected(watch.error());
    }
    watch_ = std::move(*watch);
    auto server = http::Server::listen(
        loop_, {.socket = options_.socket},
        [this](redfish::Request request, std::function<void(redfish::Response)> respond) {
            answer(std::move(request), std::move(respond));
        });
    if (!server) {
        return tl::make_unexpected(server.error());
    }
    server_ = std::move(*server);
    watch_signals();
    events_->emit(EventKind::started, fmt::format("perchd {} started.", PERCH_VERSION));
    refresh_now();
    loop_.run();
    events_->emit(EventKind::stopped, platform_->ends_with_perchd()
                                          ? "perchd stopped, and its VDs with it."
                                          : "perchd stopped; VDs go on running.");
    server_.reset();
    watch_.reset();
    shut_down();
    events_->flush();
    return {};
}

std::vector<Event> Daemon::events(std::uint64_t after, std::size_t latest) {
    return events_->read(after, latest);
}

void Daemon::answer(redfish::Request request, std::function<void(redfish::Response)> respond) {
    const auto after = redfish::Service::awaited_generation(request);
    if (!after || snapshot_->generation > *after || waiters_.size() >= max_waiters) {
        respond(service_.handle(request));
        return;
    }
    const auto number = next_waiter_++;
    auto timer = std::make_shared<asio::steady_timer>(loop_, longest_wait);
    timer->async_wait([this, number](const boost::system::error_code& error) {
        if (!error) {
            answer_waiter(number);
        }
    });
    waiters_.push_back({*after, number, std::move(respond), std::move(request), timer});
}

void Daemon::answer_waiter(std::uint64_t number) {
    const auto found = std::find_if(waiters_.begin(), waiters_.end(),
                                    [&](const auto& waiter) { return waiter.number == number; });
    if (found == waiters_.end()) {
        return;
    }
    auto waiter = std::move(*found);
    waiters_.erase(found);
    waiter.timer->cancel();
    waiter.respond(service_.handle(waiter.request));
}

void Daemon::publish(Snapshot next) {
    next.tasks.assign(tasks_.begin(), tasks_.end());
    next.generation = snapshot_->generation;
    next.time = snapshot_->time;
    if (next == *snapshot_) {
        return;
    }
    next.generation += 1;
    next.time = utc_now();
    snapshot_ = std::make_shared<const Snapshot>(std::move(next));
    std::vector<std::uint64_t> ready;
    for (const auto& waiter : waiters_) {
        if (snapshot_->generation > waiter.after) {
            ready.push_back(waiter.number);
        }
    }
    for (const auto number : ready) {
        answer_waiter(number);
    }
}

std::uint64_t Daemon::submit(const std::string& name, Operation operation) {
    const auto id = next_task_++;
    tasks_.push_back({id, name, "Running", "", "", ""});
    while (tasks_.size() > kept_tasks && tasks_.front().state != "Running") {
        tasks_.pop_front();
    }
    publish(*snapshot_);
    dm_worker_->post([this, core = core_, id, operation = std::move(operation)] {
        const auto result = guarded<std::string>(
            [&] { return core->locked([&] { return operation(*core->controller); }); });
        auto shown = core->controller->snapshot();
        asio::post(loop_, [this, id, result, shown = std::move(shown)]() mutable {
            finish_task(id, result);
            publish(std::move(shown));
            changed();
        });
    });
    return id;
}

void Daemon::finish_task(std::uint64_t id, const Result<std::string>& result) {
    for (auto& task : tasks_) {
        if (task.id == id) {
            task.state = result ? "Completed" : "Exception";
            task.message = result ? "Done." : result.error().message;
            task.error = result ? "" : errc_info(result.error().code).name;
            task.target = result ? *result : "";
        }
    }
}

void Daemon::changed() {
    settled_ = false;
    schedule_refresh(settle_delay);
}

void Daemon::refresh_now() {
    if (refreshing_) {
        refresh_again_ = true;
        return;
    }
    refreshing_ = true;
    dm_worker_->post([this, core = core_] {
        const auto begun = std::chrono::steady_clock::now();
        const auto done = guarded<void>([&] { return core->refresh(); });
        if (const auto took = std::chrono::steady_clock::now() - begun; took > slow_look) {
            fmt::print(stderr, "perchd: a look at the drives took {} s\n",
                       std::chrono::duration_cast<seconds>(took).count());
        }
        auto shown = core->controller->snapshot();
        if (const auto trouble = core->platform->trouble(); !trouble.empty()) {
            shown.problems.push_back({Severity::fatal, "No VD can run: " + trouble + ".", "", ""});
        }
        if (!done) {
            shown.problems.push_back({Severity::critical, done.error().message, "", ""});
        }
        const bool busy = core->controller->busy() || !core->controller->all_started();
        asio::post(loop_, [this, busy, next_change = core->platform->next_change(),
                           shown = std::move(shown)]() mutable {
            finish_refresh(std::move(shown), busy, next_change);
        });
    });
}

/// Shows what a look has found, and arranges for the next one.
void Daemon::finish_refresh(Snapshot shown, bool busy, std::optional<double> next_change) {
    const bool first = snapshot_->generation == 0;
    refreshing_ = false;
    publish(std::move(shown));
    if (first) {
        sd_notify(0, "READY=1");
    }
    const bool healthy = std::all_of(snapshot_->vds.begin(), snapshot_->vds.end(),
                                     [](const auto& vd) { return vd.state == VdState::optimal; });
    auto period = settled_ && healthy ? idle_period : second_look;
    settled_ = true;
    if (busy) {
        period = busy_period;
    }
    if (refresh_again_) {
        period = settle_delay;
    }
    refresh_again_ = false;
    const auto scaled = [&](double milliseconds_left) {
        return milliseconds(static_cast<milliseconds::rep>(milliseconds_left));
    };
    if (busy) {
        period = scaled(static_cast<double>(period.count()) / platform_->pace());
    }
    if (next_change) {
        constexpr double per_second = 1000;
        period = std::min(period, scaled(*next_change * per_second + 1));
    }
    schedule_refresh(std::max(period, shortest_period));
}

void Daemon::schedule_refresh(milliseconds delay) {
    const auto at = asio::steady_timer::clock_type::now() + delay;
    if (refresh_timer_.expiry() > asio::steady_timer::clock_type::now() &&
        refresh_timer_.expiry() <= at) {
        return;  // one is due sooner
    }
    refresh_timer_.expires_at(at);
    refresh_timer_.async_wait([this](const boost::system::error_code& error) {
        if (!error) {
            refresh_now();
        }
    });
}

void Daemon::watch_signals() {
    signals_.add(SIGTERM);
    signals_.add(SIGINT);
    signals_.async_wait([this](const boost::system::error_code& error, int) {
        if (!error) {
            sd_notify(0, "STOPPING=1");
            loop_.stop();
        }
    });
}

/// What would not outlive us is stopped in order, unless something hangs it.
void Daemon::shut_down() {
    if (!platform_->ends_with_perchd()) {
        return;
    }
    constexpr seconds patience{2};
    const auto done = dm_worker_->ask<bool>([core = core_] {
        core->platform->shut_down();
        return true;
    });
    if (done.wait_for(patience) != std::future_status::ready) {
        fmt::print(stderr, "perchd: the simulation did not stop in time\n");
    }
}

}  // namespace perch
