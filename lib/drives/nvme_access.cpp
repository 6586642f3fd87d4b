// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/nvme_access.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "drives/block_users.hpp"
#include "drives/health.hpp"
#include "drives/probe.hpp"
#include "ondisk/config_slot.hpp"
#include "ondisk/file_device.hpp"
#include "ondisk/gpt.hpp"
#include "uapi/perch_format.h"

namespace perch {

namespace {

using SteadyClock = std::chrono::steady_clock;

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

/// Opens Perch's partition for an edit and does it, the drive locked; the job gets the device,
/// whose offsets count from the start of the drive, and the label. The label on what was opened
/// must be `owner`'s: names change hands when drives are pulled and inserted.
template <typename Job>
Result<void> edit_partition(const DriveIdentity& drive, const Uuid& owner, Job job) {
    const auto lock = lock_drive(drive);
    if (!lock) {
        return tl::make_unexpected(lock.error());
    }
    auto device = FileDevice::open(drive.partition_path(), FileDevice::Mode::read_write,
                                   PERCH_FRONT_RESERVE_BYTES);
    if (!device) {
        return tl::make_unexpected(device.error());
    }
    const auto label = find_label(*device, drive.size_bytes);
    if (!label || !*label || (*label)->drive != owner) {
        return fail(Errc::not_found, "{} is another drive by now; nothing was written on it",
                    drive.path());
    }
    return job(*device, **label);
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

/// Opens a whole drive for writing, locked, and sure that it is that drive and nobody uses it. All
/// is written through this descriptor: if the drive is pulled after that, writes fail instead of
/// reaching its successor.
Result<UniqueFd> open_whole(const DriveIdentity& drive) {
    UniqueFd fd(::open(drive.path().c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", drive.path(), errno_text(errno));
    }
    if (auto same = check_same_drive(drive); !same) {
        return tl::make_unexpected(same.error());
    }
    if (auto locked = flock_patiently(fd.get(), drive.path()); !locked) {
        return tl::make_unexpected(locked.error());
    }
    // The kernel's own word that nobody has it: mounts, md, dm, LVM all hold it exclusively. Not
    // held on, because re-reading the partition table wants to hold it itself.
    if (const UniqueFd exclusive(::open(drive.path().c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
        !exclusive.valid()) {
        return fail(errno == EBUSY ? Errc::in_use : Errc::io, "cannot take {}: {}", drive.path(),
                    errno_text(errno));
    }
    return fd;
}

Result<FileDevice> device_of(const UniqueFd& fd) {
    return FileDevice::open(fmt::format("/proc/self/fd/{}", fd.get()),
                            FileDevice::Mode::read_write);
}

/// Runs on the drive's worker.
Result<Label> take_drive(const DriveIdentity& drive, const Uuid& controller, Coercion coercion) {
    const auto partition = partition_layout(drive.size_bytes, coercion);
    if (!partition) {
        return tl::make_unexpected(partition.error());
    }
    const Label label{controller, Uuid::random(), drive.size_bytes, *partition,
                      drive.logical_block_bytes};
    {
        const auto fd = open_whole(drive);
        if (!fd) {
            return tl::make_unexpected(fd.error());
        }
        auto done = write_gpt(fd->get(), drive.path(), *partition, drive.logical_block_bytes);
        if (!done) {
            return tl::make_unexpected(done.error());
        }
        auto device = device_of(*fd);
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

/// Runs on the drive's worker. Both ends and the label go; what lies between is not Perch's to
/// judge.
Result<void> release_drive(const DriveIdentity& drive) {
    constexpr std::uint64_t end_bytes = 16ULL << 20;  // what the blank test reads at each end
    const auto fd = open_whole(drive);
    if (!fd) {
        return tl::make_unexpected(fd.error());
    }
    auto device = device_of(*fd);
    if (!device) {
        return tl::make_unexpected(device.error());
    }
    const auto label = find_label(*device, drive.size_bytes);
    if (label && *label) {
        const auto& partition = (*label)->partition;
        auto zeroed = device->zero(partition.offset, PERCH_EXTENTS_OFFSET).and_then([&] {
            return device->zero(partition.offset + partition.length - PERCH_EDGE_BYTES,
                                PERCH_EDGE_BYTES);
        });
        if (!zeroed) {
            return zeroed;
        }
    }
    return device->zero(0, end_bytes)
        .and_then([&] { return device->zero(drive.size_bytes - end_bytes, end_bytes); })
        .and_then([&]() -> Result<void> {
            return ::ioctl(fd->get(), BLKRRPART) == 0
                       ? Result<void>()
                       : fail(Errc::io, "{}: the kernel does not re-read its partition table: {}",
                              drive.path(), errno_text(errno));
        });
}

/// Runs on the drive's worker; one descriptor for all, as in take_drive.
Result<void> repair_table_of(const DriveIdentity& drive) {
    {
        const UniqueFd fd(::open(drive.path().c_str(), O_RDWR | O_CLOEXEC));
        if (!fd.valid()) {
            return fail(Errc::io, "cannot open {}: {}", drive.path(), errno_text(errno));
        }
        if (auto same = check_same_drive(drive); !same) {
            return same;
        }
        if (auto locked = flock_patiently(fd.get(), drive.path()); !locked) {
            return locked;
        }
        FoundDrive found;
        found.identity = drive;
        probe_content(found, drive.path(), false);
        if (!found.table_damaged) {
            // Somebody has mended it meanwhile, or it is no longer what it was.
            return found.label ? Result<void>()
                               : fail(Errc::wrong_state, "{}: {}", drive.path(),
                                      found.trouble ? found.trouble->message : "it has no label");
        }
        auto device = FileDevice::open(fmt::format("/proc/self/fd/{}", fd.get()),
                                       FileDevice::Mode::read_only);
        const auto label =
            device ? find_label(*device, drive.size_bytes) : tl::make_unexpected(device.error());
        if (!label || !*label) {
            return fail(Errc::corrupt, "{} has no label any more", drive.path());
        }
        const auto& partition = (*label)->partition;
        auto done = repair_gpt(fd.get(), drive.path(), partition, drive.logical_block_bytes);
        if (!done) {
            return done;
        }
    }
    return wait_for_node(drive.partition_path());
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
            probe_content(found, identity.path(), want_content);
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

Result<Label> NvmeAccess::take(const DriveIdentity& drive, const Uuid& controller,
                               Coercion coercion) {
    auto label = edit<Label>(
        drive, [drive, controller, coercion] { return take_drive(drive, controller, coercion); });
    invalidate(drive.name);
    return label;
}

Result<void> NvmeAccess::release(const DriveIdentity& drive) {
    auto done = edit<void>(drive, [drive] { return release_drive(drive); });
    invalidate(drive.name);
    return done;
}

Result<void> NvmeAccess::adopt(const DriveIdentity& drive, const Uuid& owner,
                               const Uuid& controller) {
    auto done = edit<void>(drive, [drive, owner, controller] {
        return edit_partition(drive, owner, [&](FileDevice& device, Label label) {
            label.controller = controller;
            return rewrite_label(device, label);
        });
    });
    invalidate(drive.name);
    return done;
}

Result<void> NvmeAccess::repair_table(const DriveIdentity& drive) {
    auto done = edit<void>(drive, [drive] { return repair_table_of(drive); });
    invalidate(drive.name);
    return done;
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
        answers.push_back(slot->worker.ask<Result<void>>(
            [identity = drive.identity, owner = drive.label->drive, configuration] {
                return edit_partition(identity, owner, [&](FileDevice& device, const Label& label) {
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

Result<std::optional<Superblock>> NvmeAccess::read_superblock(const DriveIdentity& drive,
                                                              std::uint64_t offset) {
    return edit<std::optional<Superblock>>(drive, [drive, offset] {
        return FileDevice::open(drive.path(), FileDevice::Mode::read_only)
            .and_then([&](FileDevice device) { return perch::read_superblock(device, offset); });
    });
}

Result<void> NvmeAccess::edit_all(const std::vector<PartitionEdit>& edits) {
    std::vector<std::shared_future<Result<void>>> answers;
    for (const auto& edit : edits) {
        auto* slot = entry(edit.drive);
        if (slot == nullptr) {
            return fail(Errc::not_found, "{} is gone", edit.drive.name);
        }
        answers.push_back(slot->worker.ask<Result<void>>([edit] {
            return edit_partition(
                edit.drive, edit.owner,
                [&](FileDevice& device, const Label& /*label*/) { return edit.job(device); });
        }));
    }
    const auto deadline = SteadyClock::now() + options_.edit_timeout;
    for (std::size_t i = 0; i < edits.size(); ++i) {
        if (auto done = wait_until(answers[i], deadline, edits[i].drive.path()); !done) {
            return done;
        }
    }
    return {};
}

Result<void> NvmeAccess::write_superblocks(const std::vector<SuperblockWrite>& writes) {
    std::vector<PartitionEdit> edits;
    for (const auto& write : writes) {
        edits.push_back({write.drive, write.owner, [write](BlockDevice& device) {
                             return write_superblock(device, write.offset, write.superblock);
                         }});
    }
    return edit_all(edits);
}

Result<void> NvmeAccess::write(const DriveIdentity& drive, const Uuid& owner, std::uint64_t offset,
                               const Bytes& bytes) {
    return edit_all({{drive, owner, [offset, bytes](BlockDevice& device) {
                          return device.write(offset, bytes);
                      }}});
}

Result<void> NvmeAccess::zero(const std::vector<DriveRange>& ranges) {
    std::vector<PartitionEdit> edits;
    for (const auto& range : ranges) {
        edits.push_back({range.drive, range.owner, [range](BlockDevice& device) {
                             return device.zero(range.offset, range.length);
                         }});
    }
    return edit_all(edits);
}

void NvmeAccess::invalidate(const std::string& name) {
    const std::lock_guard lock(invalid_mutex_);
    invalid_.insert(name);
}

}  // namespace perch
