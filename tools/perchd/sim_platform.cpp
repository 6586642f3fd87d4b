// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim_platform.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace perch {

namespace asio = boost::asio;

namespace {

constexpr const char* default_drives = "8x3.2T";

std::string read_whole(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

/// Follows the script on the loop: waits where it says so, and hands the rest to the dm worker.
class ScriptWatch final : public Platform::Watch {
  public:
    ScriptWatch(asio::io_context& loop, SimPlatform& platform, std::function<void()> changed)
        : platform_(platform),
          changed_(std::move(changed)),
          timer_(loop),
          fifo_(loop),
          waiting_(platform.commands_.begin(), platform.commands_.end()) {
        if (platform_.fifo_) {
            // Also for writing, so that the last writer's end is not the script's.
            const int fd = ::open(platform_.script_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
            if (fd >= 0) {
                fifo_.assign(fd);
                read();
            } else {
                fmt::print(stderr, "perchd: cannot open {}: {}\n", platform_.script_,
                           errno_text(errno));
            }
        }
        run();
    }

  private:
    void run() {
        bool any = false;
        while (!waiting_.empty() && !paused_) {
            const auto command = waiting_.front();
            waiting_.pop_front();
            if (command.verb == SimCommand::Verb::wait) {
                pause(command.number);
            } else if (command.verb == SimCommand::Verb::speed) {
                platform_.clock_.set_speed(command.number);  // the waits that follow go by it
                any = true;
            } else {
                platform_.queue(command);
                any = true;
            }
        }
        if (any) {
            changed_();
        }
    }

    void pause(double length) {
        paused_ = true;
        timer_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(
            std::chrono::duration<double>(length / platform_.clock_.speed())));
        timer_.async_wait([this](const boost::system::error_code& error) {
            if (!error) {
                paused_ = false;
                run();
            }
        });
    }

    void read() {
        fifo_.async_read_some(asio::buffer(buffer_),
                              [this](const boost::system::error_code& error, std::size_t length) {
                                  if (error) {
                                      return;
                                  }
                                  text_.append(buffer_.data(), length);
                                  take_lines();
                                  run();
                                  read();
                              });
    }

    void take_lines() {
        constexpr std::size_t longest = 4096;
        for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
            take_line(std::string_view(text_).substr(0, end));
            text_.erase(0, end + 1);
        }
        if (text_.size() > longest) {
            take_line("a line without end");
            text_.clear();
        }
    }

    void take_line(std::string_view line) {
        ++line_;
        auto command = parse_sim_line(line);
        if (!command) {
            fmt::print(stderr, "perchd: {}:{}: {}\n", platform_.script_, line_,
                       command.error().message);
        } else if (*command) {
            (*command)->line = line_;
            waiting_.push_back(**command);
        }
    }

    SimPlatform& platform_;
    std::function<void()> changed_;
    asio::steady_timer timer_;
    asio::posix::stream_descriptor fifo_;
    std::array<char, 1024> buffer_{};
    std::string text_;
    int line_ = 0;
    std::deque<SimCommand> waiting_;
    bool paused_ = false;
};

Result<std::shared_ptr<SimPlatform>> SimPlatform::make(const SimPlatformOptions& options) {
    auto platform = std::make_shared<SimPlatform>();
    return platform->make_drives(options)
        .and_then([&] { return platform->read_script(options.script); })
        .map([&] { return platform; });
}

Result<void> SimPlatform::make_drives(const SimPlatformOptions& options) {
    const auto text = options.drives.empty() ? default_drives : options.drives;
    const auto sets = parse_sim_drives(text);
    if (!sets) {
        return fail_with("--sim-drives", sets.error());
    }
    if (!options.directory.empty()) {
        auto lock = ControllerLock::try_take(options.directory, "perchd.lock");
        if (!lock) {
            return lock.error().code == Errc::in_use
                       ? fail(Errc::in_use, "another perchd simulates the drives in {}",
                              options.directory)
                       : tl::make_unexpected(lock.error());
        }
        lock_ = std::move(*lock);
        if (auto kept = drives_.keep_in(options.directory); !kept) {
            return kept;
        }
        const auto made_of = options.directory + "/made-of";
        if (!drives_.all().empty()) {
            if (const auto before = read_whole(made_of);
                !options.drives.empty() && before != options.drives) {
                return fail(Errc::syntax,
                            "{} holds the drives of --sim-drives={}; leave the option out or use "
                            "another directory",
                            options.directory, before);
            }
            return {};
        }
        std::ofstream(made_of) << text;
    }
    int slot = 0;
    try {
        for (const auto& set : *sets) {
            for (int i = 0; i < set.count; ++i) {
                drives_.add(slot++, set.bytes, set.block);
            }
        }
    } catch (const std::runtime_error& error) {
        return fail(Errc::io, "{}", error.what());
    }
    return {};
}

Result<void> SimPlatform::read_script(const std::string& path) {
    if (path.empty()) {
        return {};
    }
    script_ = path;
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
        return fail(Errc::syntax, "--sim-script: {}: {}", path, errno_text(errno));
    }
    fifo_ = S_ISFIFO(info.st_mode);
    if (fifo_) {
        return {};
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(Errc::syntax, "--sim-script: {} is neither a file nor a FIFO", path);
    }
    return parse_sim_script(path, read_whole(path)).map([&](std::vector<SimCommand> commands) {
        commands_ = std::move(commands);
    });
}

Clock SimPlatform::clock() const {
    return {[clock = clock_] { return clock.now(); }, Clock::system().wall_seconds};
}

Result<std::unique_ptr<Platform::Watch>> SimPlatform::watch(asio::io_context& loop,
                                                            std::function<void()> changed) {
    return std::unique_ptr<Watch>(std::make_unique<ScriptWatch>(loop, *this, std::move(changed)));
}

void SimPlatform::queue(SimCommand command) {
    const std::lock_guard lock(mutex_);
    queued_.push_back(std::move(command));
}

bool SimPlatform::before_work() {
    std::deque<SimCommand> commands;
    {
        const std::lock_guard lock(mutex_);
        commands.swap(queued_);
    }
    bool anew = false;
    for (const auto& command : commands) {
        if (const auto done = run_sim_command(command, drives_, engine_, clock_); !done) {
            fmt::print(stderr, "perchd: {}:{}: {}\n", script_, command.line, done.error().message);
        }
        anew = anew || command.verb == SimCommand::Verb::power_cut ||
               command.verb == SimCommand::Verb::reboot;
    }
    return anew;
}

std::optional<double> SimPlatform::next_change() {
    const auto end = engine_.next_end();
    return end ? std::optional(*end / clock_.speed()) : std::nullopt;
}

}  // namespace perch
