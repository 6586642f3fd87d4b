// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/vd_device.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "engine/dm/names.hpp"
#include "util/unique_fd.hpp"

namespace perch::dm {

namespace {

/// Whether the drive of a partition ("/dev/nvme3n1p1") is there.
bool drive_exists(const std::string& partition) {
    struct stat info {};
    return stat(partition.substr(0, partition.rfind('p')).c_str(), &info) == 0;
}

/// Opens all partitions that are needed: while one is open, the kernel reads its drive's table not
/// anew.
Result<std::vector<UniqueFd>> hold(const std::vector<EngineMember>& members) {
    std::vector<UniqueFd> held;
    for (const auto& member : members) {
        if (member.role == MemberRole::absent) {
            continue;
        }
        UniqueFd fd(open(member.partition.c_str(), O_RDONLY | O_CLOEXEC));
        if (!fd.valid()) {
            return fail(Errc::not_found, "{}: {}", member.partition, errno_text(errno));
        }
        held.push_back(std::move(fd));
    }
    return held;
}

}  // namespace

Result<std::string> device_number(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) {
        return fail(Errc::not_found, "{}: no such block device", path);
    }
    return fmt::format("{}:{}", major(info.st_rdev), minor(info.st_rdev));
}

Result<void> with_partitions(const std::vector<EngineMember>& members,
                             const std::function<Result<void>()>& action) {
    constexpr auto patience = std::chrono::seconds(60);
    constexpr auto step = std::chrono::milliseconds(50);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        auto held = hold(members);
        auto done = held ? action() : tl::make_unexpected(held.error());
        const bool all_there = std::all_of(members.begin(), members.end(), [](const auto& member) {
            return member.role == MemberRole::absent || drive_exists(member.partition);
        });
        if (done || done.error().code != Errc::not_found || !all_there ||
            std::chrono::steady_clock::now() > deadline) {
            return done;
        }
        std::this_thread::sleep_for(step);
    }
}

Result<std::optional<Info>> live_device(const std::string& uuid, Visibility visibility) {
    auto info = find(uuid);
    if (info && *info && !(*info)->live_table) {
        if (auto removed = remove((*info)->name, visibility); !removed) {
            return tl::make_unexpected(removed.error());
        }
        return std::optional<Info>();
    }
    return info;
}

Result<Target> only_target(const Result<std::vector<Target>>& targets, const std::string& name) {
    if (!targets) {
        return tl::make_unexpected(targets.error());
    }
    if (targets->size() != 1) {
        return fail(Errc::io, "{} has a table that Perch did not make", name);
    }
    return targets->front();
}

Result<void> follow_name(const EngineVd& vd) {
    const auto info = find(vd_uuid(vd.uuid));
    if (!info || !*info || (*info)->name == vd_name(vd.name)) {
        return info ? Result<void>() : tl::make_unexpected(info.error());
    }
    return rename((*info)->name, vd_name(vd.name));
}

}  // namespace perch::dm
