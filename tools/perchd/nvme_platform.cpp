// SPDX-License-Identifier: GPL-2.0-or-later
#include "nvme_platform.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "drives/udev_monitor.hpp"
#include "engine/dm/dm_task.hpp"
#include "engine/dm/event_watch.hpp"

namespace perch {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

class KernelWatch final : public Platform::Watch {
  public:
    KernelWatch(asio::io_context& loop, UdevMonitor udev, NvmeAccess& drives,
                std::function<void()> changed)
        : udev_(std::move(udev)),
          drives_(drives),
          changed_(std::move(changed)),
          udev_descriptor_(loop, udev_.fd()),
          dm_descriptor_(loop),
          mounts_descriptor_(loop) {
        watch_udev();
        watch_dm();
        watch_mounts();
    }
    ~KernelWatch() override {
        // These descriptors belong to udev_ and dm_events_.
        udev_descriptor_.release();
        if (dm_descriptor_.is_open()) {
            dm_descriptor_.release();
        }
    }

  private:
    void watch_udev() {
        udev_descriptor_.async_wait(Descriptor::wait_read,
                                    [this](const boost::system::error_code& error) {
                                        if (!error) {
                                            take_udev_events();
                                            watch_udev();
                                        }
                                    });
    }

    void take_udev_events() {
        bool drive = false;
        while (const auto event = udev_.next()) {
            if (event->disk.starts_with("nvme")) {
                drives_.invalidate(event->disk);
                drive = true;
            }
        }
        if (drive) {
            changed_();
        }
    }

    void watch_dm() {
        if (!dm_events_) {
            auto watch = dm::EventWatch::open();
            if (!watch) {
                return;  // no device-mapper: the snapshot says so
            }
            dm_events_ = std::move(*watch);
            dm_descriptor_.assign(dm_events_->fd());
        }
        if (!dm_events_->arm()) {
            return;
        }
        dm_descriptor_.async_wait(Descriptor::wait_read,
                                  [this](const boost::system::error_code& error) {
                                      if (!error) {
                                          changed_();
                                          watch_dm();
                                      }
                                  });
    }

    /// /proc/self/mountinfo signals an exceptional condition when something is mounted or unmounted
    /// (proc(5)): who uses a VD is then shown at once.
    void watch_mounts() {
        if (!mounts_descriptor_.is_open()) {
            const int fd = ::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
            if (fd < 0) {
                return;  // the daemon looks by itself now and then
            }
            mounts_descriptor_.assign(fd);
        }
        mounts_descriptor_.async_wait(Descriptor::wait_error,
                                      [this](const boost::system::error_code& error) {
                                          if (!error) {
                                              changed_();
                                              watch_mounts();
                                          }
                                      });
    }

    UdevMonitor udev_;
    std::optional<dm::EventWatch> dm_events_;
    NvmeAccess& drives_;
    std::function<void()> changed_;
    Descriptor udev_descriptor_;
    Descriptor dm_descriptor_;
    Descriptor mounts_descriptor_;
};

}  // namespace

ControllerPolicy NvmePlatform::policy() const {
    return ControllerPolicy::from_kernel_command_line();
}

std::string NvmePlatform::trouble() const {
    std::string reason;
    return dm::available(reason) ? "" : reason;
}

Result<std::unique_ptr<Platform::Watch>> NvmePlatform::watch(asio::io_context& loop,
                                                             std::function<void()> changed) {
    return UdevMonitor::open().map([&](UdevMonitor monitor) -> std::unique_ptr<Watch> {
        return std::make_unique<KernelWatch>(loop, std::move(monitor), drives_, std::move(changed));
    });
}

void harden_against_own_storage() {
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        fmt::print(stderr, "perchd: cannot lock memory; goes on without\n");
    }
#ifdef PR_SET_IO_FLUSHER
    if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0) {
        fmt::print(stderr, "perchd: cannot become an I/O flusher; goes on without\n");
    }
#endif
}

}  // namespace perch
