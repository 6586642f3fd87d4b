// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/nvme_access.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "drives/block_users.hpp"
#include "drives/health.hpp"
#include "ondisk/config_slot.hpp"
#include "ondisk/content.hpp"
#include "ondisk/file_device.hpp"
#include "ondisk/gpt.hpp"

namespace perch {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// What is on a drive; runs on the drive's worker.
void probe_content(FoundDrive& found, bool want_content) {
    const auto path = found.identity.path();
    auto device = FileDevice::open(path, FileDevice::Mode::read_only);
    if (!device) {
        found.trouble = device.error();
        return;
    }
    const auto by_table = find_partition(path, found.identity.logical_block_bytes);
    const bool in_table = by_table && *by_table;
    // A damaged table makes the partition vanish; the label is still at its fixed place.
    const auto fixed = partition_layout(found.identity.size_bytes);
    if (in_table || fixed) {
        auto label = read_label(*device, in_table ? **by_table : *fixed);
        if (!label) {
            found.trouble = label.error();
            return;
        }
        if (*label && !by_table) {
            found.trouble = by_table.error();
            return;
        }
        if (*label && !in_table) {
            found.trouble = Error{Errc::corrupt,
                                  "it carries Perch's label, but its partition table is damaged; "
                                  "restore the table from its backup (sgdisk --load-backup or "
                                  "gdisk's 'r' menu)"};
            return;
        }
        found.label = *label;
    }
    if (found.label) {
        auto configuration = read_configuration(*device, found.label->partition);
        if (configuration) {
            found.configuration = std::move(*configuration);
        } else {
            found.trouble = configuration.error();
        }
        return;
    }
    if (want_content) {
        auto content = in_table ? find_content_beside_table(path) : find_content(path);
        if (content) {
            found.content = std::move(*content);
        } else {
            found.trouble = content.error();
        }
    }
}

/// Waits until the kernel shows the partition that was just made.
Result<void> wait_for_node(const std::string& path) {
    constexpr auto patience = std::chrono::seconds(20);
    constexpr auto step = std::chrono::milliseconds(20);
    const auto deadline = SteadyClock::now() + patience;
    struct stat info {};
    while (stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) {
        if (SteadyClock::now() > deadline) {
            return fail(Errc::timeout, "{} did not appear after the partition was made", path);
        }
        std::this_thread::sleep_for(step);
    }
    return {};
}

/// flock with a limit: whoever holds it for long (a partitioning tool) must not hold us up.
Result<void> flock_patiently(int fd, const std::string& path) {
    constexpr auto patience = std::chrono::seconds(20);
    constexpr auto step = std::chrono::milliseconds(20);
    const auto deadline = SteadyClock::now() + patience;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return fail(Errc::io, "cannot lock {}: {}", path, errno_text(errno));
        }
        if (SteadyClock::now() > deadline) {
            return fail(Errc::timeout, "{} is locked by another program", path);
        }
        std::this_thread::sleep_for(step);
    }
    return {};
}

/// Keeps udev from probing the drive while it is edited (systemd's BLOCK_DEVICE_LOCKING). Opened
/// read-only: closing a whole drive that was open for writing makes udev re-read its partitions.
Result<UniqueFd> lock_drive(const DriveIdentity& drive) {
    UniqueFd fd(::open(drive.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", drive.path(), errno_text(errno));
    }
    return flock_patiently(fd.get(), drive.path()).map([&] { return std::move(fd); });
}

/// Opens Perch's partition for an edit and does it, the drive locked. The label on what was opened
/// must be `owner`'s: names change hands when drives are pulled and inserted.
template <typename Job>
auto edit_partition(const DriveIdentity& drive, const PartitionLayout& partition, const Uuid& owner,
                    Job job) -> decltype(job(std::declval<FileDevice&>())) {
    const auto lock = lock_drive(drive);
    if (!lock) {
        return tl::make_unexpected(lock.error());
    }
    auto device =
        FileDevice::open(drive.partition_path(), FileDevice::Mode::read_write, partition.offset);
    if (!device) {
        return tl::make_unexpected(device.error());
    }
    const auto label = read_label(*device, partition);
    if (!label || !*label || (*label)->drive != owner) {
        return fail(Errc::not_found, "{} is another drive by now; nothing was written on it",
                    drive.path());
    }
    return job(*device);
}

/// The drive behind a name that was just opened must be the one that was decided about.
Result<void> check_same_drive(const DriveIdentity& drive) {
    const auto now = list_drives();
    const auto found = std::find_if(now.begin(), now.end(),
                                    [&](const auto& other) { return other.name == drive.name; });
    if (found == now.end() || found->identity != drive.identity || found->slot != drive.slot) {
        return fail(Errc::not_found, "{} is another drive by now; nothing was written on it",
                    drive.path());
    }
    return {};
}

/// Runs on the drive's worker. The descriptor opened first is the one that all is written through:
/// if the drive is pulled after that, writes fail instead of reaching its successor.
Result<Label> take_drive(const DriveIdentity& drive, const Uuid& controller) {
    const auto partition = partition_layout(drive.size_bytes);
    if (!partition) {
        return tl::make_unexpected(partition.error());
    }
    const Label label{controller, Uuid::random(), drive.size_bytes, *partition,
                      drive.logical_block_bytes};
    {
        const UniqueFd fd(::open(drive.path().c_str(), O_RDWR | O_CLOEXEC));
        if (!fd.valid()) {
            return fail(Errc::io, "cannot open {}: {}", drive.path(), errno_text(errno));
        }
        if (auto same = check_same_drive(drive); !same) {
            return tl::make_unexpected(same.error());
        }
        if (auto locked = flock_patiently(fd.get(), drive.path()); !locked) {
            return tl::make_unexpected(locked.error());
        }
        // The kernel's own word that nobody has it: mounts, md, dm, LVM all hold it exclusively.
        // Not held on, because re-reading the partition table wants to hold it itself.
        if (const UniqueFd exclusive(::open(drive.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
            !exclusive.valid()) {
            return fail(errno == EBUSY ? Errc::in_use : Errc::io, "cannot take {}: {}",
                        drive.path(), errno_text(errno));
        }
        auto done = write_gpt(fd.get(), drive.path(), *partition, drive.logical_block_bytes);
        if (!done) {
            return tl::make_unexpected(done.error());
        }
        auto device = FileDevice::open(fmt::format("/proc/self/fd/{}", fd.get()),
                                       FileDevice::Mode::read_write);
        done = device ? write_label(*device, label) : tl::make_unexpected(device.error());
        if (!done) {
            return tl::make_unexpected(done.error());
        }
    }
    if (auto done = wait_for_node(drive.partition_path()); !done) {
        return tl::make_unexpected(done.error());
    }
    return label;
}

}  // namespace

NvmeAccess::Entry* NvmeAccess::entry(const DriveIdentity& drive) {
    const auto found = entries_.find(drive.name);
    // The same kernel name may be another drive by now.
    if (found == entries_.end() || found->second->identity.identity != drive.identity) {
        return nullptr;
    }
    return found->second.get();
}

void NvmeAccess::start_probe(Entry& entry) const {
    entry.probe = entry.worker.ask<FoundDrive>(
        [identity = entry.identity, want_content = options_.find_content] {
            FoundDrive found;
            found.identity = identity;
            found.answered = true;
            probe_content(found, want_content);
            return found;
        });
}

void NvmeAccess::refresh_health(Entry& entry) const {
    const auto ready = [&] {
        return entry.health.valid() &&
               entry.health.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    if (ready()) {
        const auto answer = entry.health.get();
        entry.last_health = answer ? std::optional(*answer) : std::nullopt;
    }
    const auto now = SteadyClock::now();
    if (!entry.health.valid() || (ready() && now - entry.health_asked > options_.health_period)) {
        entry.health_asked = now;
        entry.health = entry.health_worker.ask<Result<DriveHealth>>(
            [controller = entry.identity.controller] { return read_health(controller); });
    }
}

std::vector<FoundDrive> NvmeAccess::look() {
    const auto identities = list_drives(options_.sysfs);
    std::set<std::string> invalid;
    {
        const std::lock_guard lock(invalid_mutex_);
        invalid.swap(invalid_);
    }
    std::erase_if(entries_, [&](const auto& row) {
        return std::none_of(identities.begin(), identities.end(), [&](const auto& identity) {
            return identity.name == row.first && identity.identity == row.second->identity.identity;
        });
    });
    for (const auto& identity : identities) {
        auto& slot = entries_[identity.name];
        const bool fresh = !slot;
        if (fresh) {
            slot = std::make_unique<Entry>();
        }
        slot->identity = identity;
        if (fresh || invalid.contains(identity.name)) {
            start_probe(*slot);
        }
        refresh_health(*slot);
    }
    std::vector<FoundDrive> drives;
    const auto deadline = SteadyClock::now() + options_.look_timeout;
    for (const auto& identity : identities) {
        auto& slot = *entries_.at(identity.name);
        FoundDrive drive;
        if (slot.probe.wait_until(deadline) == std::future_status::ready) {
            drive = slot.probe.get();
        }
        drive.identity = identity;
        drive.users = block_users(identity.name, {.sysfs = options_.sysfs});
        drive.health = slot.last_health;
        drives.push_back(std::move(drive));
    }
    return drives;
}

template <typename T>
Result<T> NvmeAccess::edit(const DriveIdentity& drive, std::function<Result<T>()> job) {
    auto* slot = entry(drive);
    if (slot == nullptr) {
        return fail(Errc::not_found, "{} is gone", drive.name);
    }
    const auto answer = slot->worker.ask<Result<T>>(std::move(job));
    return wait_until(answer, SteadyClock::now() + options_.edit_timeout, drive.path());
}

Result<Label> NvmeAccess::take(const DriveIdentity& drive, const Uuid& controller) {
    auto label = edit<Label>(drive, [drive, controller] { return take_drive(drive, controller); });
    invalidate(drive.name);
    return label;
}

std::vector<Result<void>> NvmeAccess::write_configuration(const std::vector<FoundDrive>& drives,
                                                          const Configuration& configuration) {
    std::vector<std::shared_future<Result<void>>> answers;
    for (const auto& drive : drives) {
        auto* slot = entry(drive.identity);
        if (slot == nullptr) {
            answers.emplace_back();
            continue;
        }
        answers.push_back(slot->worker.ask<Result<void>>([identity = drive.identity,
                                                          label = *drive.label, configuration] {
            return edit_partition(identity, label.partition, label.drive, [&](FileDevice& device) {
                return perch::write_configuration(device, label.partition, configuration);
            });
        }));
    }
    const auto deadline = SteadyClock::now() + options_.edit_timeout;
    std::vector<Result<void>> results;
    for (std::size_t i = 0; i < drives.size(); ++i) {
        const auto& name = drives[i].identity.name;
        results.push_back(answers[i].valid()
                              ? wait_until(answers[i], deadline, drives[i].identity.path())
                              : fail(Errc::not_found, "{} is gone", name));
        invalidate(name);
    }
    return results;
}

Result<Bytes> NvmeAccess::read(const DriveIdentity& drive, std::uint64_t offset,
                               std::uint64_t length) {
    return edit<Bytes>(drive, [drive, offset, length] {
        return FileDevice::open(drive.path(), FileDevice::Mode::read_only)
            .and_then([&](FileDevice device) { return device.read(offset, length); });
    });
}

Result<void> NvmeAccess::zero(const std::vector<DriveRange>& ranges) {
    std::vector<std::shared_future<Result<void>>> answers;
    for (const auto& range : ranges) {
        auto* slot = entry(range.drive);
        if (slot == nullptr) {
            return fail(Errc::not_found, "{} is gone", range.drive.name);
        }
        answers.push_back(slot->worker.ask<Result<void>>([range] {
            // Perch's partition begins at the same place on all drives, and ends by their size.
            return partition_layout(range.drive.size_bytes)
                .and_then([&](const PartitionLayout& partition) {
                    return edit_partition(range.drive, partition, range.owner,
                                          [&](FileDevice& device) {
                                              return device.zero(range.offset, range.length);
                                          });
                });
        }));
    }
    const auto deadline = SteadyClock::now() + options_.edit_timeout;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (auto done = wait_until(answers[i], deadline, ranges[i].drive.path()); !done) {
            return done;
        }
    }
    return {};
}

void NvmeAccess::invalidate(const std::string& name) {
    const std::lock_guard lock(invalid_mutex_);
    invalid_.insert(name);
}

}  // namespace perch
