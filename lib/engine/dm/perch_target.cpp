// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/perch_target.hpp"

#include <sys/utsname.h>

#include "engine/dm/names.hpp"
#include "engine/dm/perch_target_format.hpp"
#include "engine/dm/vd_device.hpp"
#include "util/units.hpp"

namespace perch::dm {

namespace {

/// Of the target's version: another first number is another table or status.
constexpr std::uint32_t target_major = 1;

std::string kernel_release() {
    utsname names{};
    return uname(&names) == 0 ? std::string(std::begin(names.release)) : "this kernel";
}

/// The table, by the partitions as they are now.
Result<Target> make_target(const EngineVd& vd) {
    std::vector<std::string> devices;
    for (const auto& member : vd.members) {
        auto number = member.role == MemberRole::absent ? Result<std::string>("")
                                                        : device_number(member.partition);
        if (!number) {
            return tl::make_unexpected(number.error());
        }
        devices.push_back(std::move(*number));
    }
    return Target{0, vd.vd_bytes / sector_bytes, perch_target_type, perch_params(vd, devices)};
}

/// Why it does not run although its table is live.
Result<void> check_started(const std::string& name) {
    return perch_status(name).and_then([&](const EngineStatus& status) -> Result<void> {
        return status.trouble.empty() ? Result<void>() : fail(Errc::io, "{}", status.trouble);
    });
}

Result<void> start(const EngineVd& vd, const Target& target) {
    const auto name = vd_name(vd.name);
    return create(name, vd_uuid(vd.uuid), target, Visibility::published)
        .and_then([&] { return check_started(name); })
        .or_else([&](const Error& error) -> Result<void> {
            // One that serves nothing is worth less than none: what is missing may come yet.
            const auto made = find(vd_uuid(vd.uuid));
            if (made && *made) {
                if (auto removed = remove(name, Visibility::published); !removed) {
                    return fail(error.code, "{}; {}", error.message, removed.error().message);
                }
            }
            return tl::make_unexpected(error);
        });
}

Result<void> swap(const std::string& name, const Target& target) {
    if (auto loaded = load(name, target); !loaded) {
        return loaded;
    }
    if (auto suspended = suspend(name); !suspended) {
        const auto cleared = clear(name);
        return cleared ? suspended : cleared;
    }
    return resume(name, Visibility::published).and_then([&] { return check_started(name); });
}

/// Whether the running target must look at the members again: it has another table, or does not use
/// one that was put in its place since.
Result<bool> must_reload(const std::string& name, const EngineVd& vd, const Target& target) {
    const auto live = only_target(table(name), name);
    if (!live) {
        return tl::make_unexpected(live.error());
    }
    if (live->type != perch_target_type) {
        return fail(Errc::wrong_state, "{} runs on the kernel's target '{}'", name, live->type);
    }
    if (live->params != target.params) {
        return true;
    }
    return perch_status(name).map([&](const EngineStatus& status) {
        for (std::size_t row = 0; row < vd.members.size() && row < status.members.size(); ++row) {
            const auto role = vd.members[row].role;
            if ((role == MemberRole::rebuild_fresh || role == MemberRole::rebuild_continue) &&
                status.members[row] == MemberHealth::failed) {
                return true;
            }
        }
        return false;
    });
}

}  // namespace

Result<void> check_perch_target() {
    const auto found = target_version(perch_target_type);
    if (!found) {
        return tl::make_unexpected(found.error());
    }
    if (!*found) {
        return fail(Errc::unsupported,
                    "the kernel module dm-perch is not there for {}. Install it for this kernel "
                    "('modprobe dm-perch' then works)",
                    kernel_release());
    }
    const auto& version = **found;
    if (version.major != target_major) {
        return fail(Errc::unsupported,
                    "the kernel module dm-perch has version {}.{}.{}, this program needs {}.x. "
                    "Install the one that belongs to it",
                    version.major, version.minor, version.patch, target_major);
    }
    return {};
}

Result<void> apply_perch(const EngineVd& vd) {
    if (auto supported = check_perch_target(); !supported) {
        return supported;
    }
    return with_partitions(vd.members,
                           [&]() -> Result<void> {
                               const auto target = make_target(vd);
                               if (!target) {
                                   return tl::make_unexpected(target.error());
                               }
                               const auto info =
                                   live_device(vd_uuid(vd.uuid), Visibility::published);
                               if (!info) {
                                   return tl::make_unexpected(info.error());
                               }
                               if (!*info) {
                                   return start(vd, *target);
                               }
                               const auto reload = must_reload((*info)->name, vd, *target);
                               if (!reload) {
                                   return tl::make_unexpected(reload.error());
                               }
                               return *reload ? swap((*info)->name, *target) : Result<void>();
                           })
        .and_then([&] { return follow_name(vd); });
}

Result<EngineStatus> perch_status(const std::string& name) {
    const auto live = only_target(table(name), name).and_then([](const Target& target) {
        return parse_perch_table(target.params);
    });
    if (!live) {
        return tl::make_unexpected(live.error());
    }
    return only_target(dm::status(name), name).and_then([&](const Target& line) {
        return parse_perch_status(line.params, *live);
    });
}

}  // namespace perch::dm
