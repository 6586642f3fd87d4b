// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon.hpp"

#include <fcntl.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <csignal>
#include <ctime>

#include "assemble/lock.hpp"
#include "engine/dm/dm_task.hpp"
#include "util/units.hpp"

namespace perch {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds idle_period{5000};
constexpr milliseconds busy_period{1000};
constexpr milliseconds settle_delay{50};  // one drive's arrival is several udev events
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
    Core(std::shared_ptr<NvmeAccess> access, std::shared_ptr<EventLog> log, std::string directory)
        : drives(std::move(access)),
          events(std::move(log)),
          run_directory(std::move(directory)),
          controller(*drives, engine, *events, Clock::system(),
                     ControllerPolicy::from_kernel_command_line()) {}

    /// Holds the lock shared with perch-assemble around anything that may change something.
    template <typename Action>
    auto locked(Action action) -> decltype(action()) {
        const auto lock = ControllerLock::take(run_directory);
        if (!lock) {
            return tl::make_unexpected(lock.error());
        }
        return action();
    }

    std::shared_ptr<NvmeAccess> drives;
    std::shared_ptr<EventLog> events;
    std::string run_directory;
    DmEngine engine;
    Controller controller;
    bool started = false;
};

Daemon::Daemon(DaemonOptions options)
    : options_(std::move(options)),
      events_(std::make_shared<EventLog>(options_.event_database)),
      drives_(std::make_shared<NvmeAccess>()),
      core_(std::make_shared<Core>(drives_, events_, options_.run_directory)),
      dm_worker_(std::make_unique<Worker>()) {}

Daemon::~Daemon() {
    // The descriptors belong to udev_ and dm_events_.
    if (udev_descriptor_.is_open()) {
        udev_descriptor_.release();
    }
    if (dm_descriptor_.is_open()) {
        dm_descriptor_.release();
    }
}

Result<void> Daemon::run() {
    // Held until the process ends, however it ends.
    const auto single = ControllerLock::try_take(options_.run_directory, "perchd.lock");
    if (!single) {
        return single.error().code == Errc::in_use ? fail(Errc::in_use, "perchd is running already")
                                                   : tl::make_unexpected(single.error());
    }
    auto monitor = UdevMonitor::open();
    if (!monitor) {
        return tl::make_unexpected(monitor.error());
    }
    udev_ = std::move(*monitor);
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
    watch_udev();
    watch_dm();
    watch_mounts();
    events_->emit(EventKind::started, fmt::format("perchd {} started.", PERCH_VERSION));
    refresh_now();
    loop_.run();
    events_->emit(EventKind::stopped, "perchd stopped; VDs go on running.");
    server_.reset();
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
            [&] { return core->locked([&] { return operation(core->controller); }); });
        auto shown = core->controller.snapshot();
        asio::post(loop_, [this, id, result, shown = std::move(shown)]() mutable {
            finish_task(id, result);
            publish(std::move(shown));
            schedule_refresh(settle_delay);
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

void Daemon::refresh_now() {
    if (refreshing_) {
        refresh_again_ = true;
        return;
    }
    refreshing_ = true;
    dm_worker_->post([this, core = core_] {
        const auto begun = std::chrono::steady_clock::now();
        const auto done = guarded<void>([&] {
            return core->locked([&]() -> Result<void> {
                std::string reason;
                if (!core->started && dm::available(reason)) {
                    core->started = core->controller.start().has_value();
                } else {
                    core->controller.refresh();
                }
                return {};
            });
        });
        if (const auto took = std::chrono::steady_clock::now() - begun; took > slow_look) {
            fmt::print(stderr, "perchd: a look at the drives took {} s\n",
                       std::chrono::duration_cast<seconds>(took).count());
        }
        auto shown = core->controller.snapshot();
        std::string reason;
        if (!dm::available(reason)) {
            shown.problems.push_back({Severity::fatal, "No VD can run: " + reason + ".", "", ""});
        }
        if (!done) {
            shown.problems.push_back({Severity::critical, done.error().message, "", ""});
        }
        const bool busy = core->controller.busy() || !core->controller.all_started();
        asio::post(loop_, [this, busy, shown = std::move(shown)]() mutable {
            const bool first = snapshot_->generation == 0;
            refreshing_ = false;
            busy_ = busy;
            publish(std::move(shown));
            if (first) {
                sd_notify(0, "READY=1");
            }
            schedule_refresh(refresh_again_ ? settle_delay : busy_ ? busy_period : idle_period);
            refresh_again_ = false;
        });
    });
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

void Daemon::watch_udev() {
    if (!udev_descriptor_.is_open()) {
        udev_descriptor_.assign(udev_->fd());
    }
    udev_descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                                [this](const boost::system::error_code& error) {
                                    if (error) {
                                        return;
                                    }
                                    bool drive = false;
                                    while (const auto event = udev_->next()) {
                                        if (event->disk.starts_with("nvme")) {
                                            drives_->invalidate(event->disk);
                                            drive = true;
                                        }
                                    }
                                    if (drive) {
                                        schedule_refresh(settle_delay);
                                    }
                                    watch_udev();
                                });
}

void Daemon::watch_dm() {
    if (!dm_events_) {
        auto watch = dm::EventWatch::open();
        if (!watch) {
            return;  // no device-mapper: the snapshot says so; the timer still looks
        }
        dm_events_ = std::move(*watch);
        dm_descriptor_.assign(dm_events_->fd());
    }
    if (!dm_events_->arm()) {
        return;
    }
    dm_descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                              [this](const boost::system::error_code& error) {
                                  if (!error) {
                                      schedule_refresh(settle_delay);
                                      watch_dm();
                                  }
                              });
}

/// /proc/self/mountinfo signals an exceptional condition when something is mounted or unmounted
/// (proc(5)): who uses a VD is then shown at once.
void Daemon::watch_mounts() {
    if (!mounts_descriptor_.is_open()) {
        const int fd = ::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return;  // the timer still looks
        }
        mounts_descriptor_.assign(fd);
    }
    mounts_descriptor_.async_wait(asio::posix::stream_descriptor::wait_error,
                                  [this](const boost::system::error_code& error) {
                                      if (!error) {
                                          schedule_refresh(settle_delay);
                                          watch_mounts();
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

}  // namespace perch
