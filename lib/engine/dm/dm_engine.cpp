// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/dm_engine.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "engine/dm/dm_task.hpp"
#include "engine/dm/dmraid_format.hpp"
#include "engine/dm/names.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

Result<std::string> device_number(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISBLK(info.st_mode)) {
        return fail(Errc::not_found, "{}: no such block device", path);
    }
    return fmt::format("{}:{}", major(info.st_rdev), minor(info.st_rdev));
}

/// Makes one linear device over an extent and returns its number; keeps one that fits.
Result<std::string> make_part(const Uuid& vd, const EngineMember& member, dm::Part part,
                              const std::string& partition_number) {
    const bool metadata = part == dm::Part::metadata;
    const auto offset = metadata ? member.metadata_offset : member.data_offset;
    const auto bytes = metadata ? member.metadata_bytes : member.data_bytes;
    const dm::Target target{0, bytes / sector_bytes, "linear",
                            fmt::format("{} {}", partition_number, offset / sector_bytes)};
    const auto name = dm::part_name(member.instance, part);
    const auto uuid = dm::part_uuid(vd, member.instance, part);
    auto info = dm::find(uuid);
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (*info) {
        const auto live = dm::table(name);
        if (live && live->size() == 1 && live->front().params == target.params &&
            live->front().length_sectors == target.length_sectors) {
            return (*info)->number();
        }
        // It belongs to a device that has gone: nothing may hold it any more.
        if (auto removed = dm::remove(name, dm::Visibility::hidden); !removed) {
            return tl::make_unexpected(removed.error());
        }
    }
    if (auto created = dm::create(name, uuid, target, dm::Visibility::hidden); !created) {
        return tl::make_unexpected(created.error());
    }
    info = dm::find(uuid);
    if (!info || !*info) {
        return info ? fail(Errc::io, "{} vanished while it was made", name)
                    : tl::make_unexpected(info.error());
    }
    return (*info)->number();
}

/// make_part, through the moment in which udev, just after a partition was made, makes the kernel
/// read the table once more: the partition is gone then and comes back under another number.
Result<std::string> ensure_part(const Uuid& vd, const EngineMember& member, dm::Part part) {
    constexpr auto patience = std::chrono::seconds(20);
    constexpr auto step = std::chrono::milliseconds(50);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        auto made = device_number(member.partition).and_then([&](const std::string& number) {
            return make_part(vd, member, part, number);
        });
        if (made || made.error().code != Errc::not_found ||
            std::chrono::steady_clock::now() > deadline) {
            return made;
        }
        std::this_thread::sleep_for(step);
    }
}

Result<std::vector<dm::RaidDevices>> ensure_parts(const EngineVd& vd) {
    std::vector<dm::RaidDevices> devices;
    for (const auto& member : vd.members) {
        dm::RaidDevices row;
        if (member.role != MemberRole::absent) {
            auto metadata = ensure_part(vd.uuid, member, dm::Part::metadata);
            auto data = metadata ? ensure_part(vd.uuid, member, dm::Part::data) : metadata;
            if (!data) {
                return tl::make_unexpected(data.error());
            }
            row = {*metadata, *data, member.role == MemberRole::rebuild_fresh};
        }
        devices.push_back(row);
    }
    return devices;
}

/// Removes member devices of the VD that its live table does not name.
Result<void> remove_orphans(const Uuid& vd, const std::vector<dm::RaidDevices>& devices) {
    std::set<std::string> used;
    for (const auto& device : devices) {
        used.insert(device.metadata);
        used.insert(device.data);
    }
    const auto parts = dm::list(fmt::format("{}{}", dm::part_prefix, vd.str()));
    if (!parts) {
        return tl::make_unexpected(parts.error());
    }
    for (const auto& part : *parts) {
        if (!used.contains(part.number())) {
            if (auto removed = dm::remove(part.name, dm::Visibility::hidden); !removed) {
                return removed;
            }
        }
    }
    return {};
}

Result<std::vector<dm::RaidDevices>> live_devices(const std::string& name) {
    const auto table = dm::table(name);
    if (!table) {
        return tl::make_unexpected(table.error());
    }
    if (table->size() != 1 || table->front().type != "raid") {
        return fail(Errc::io, "{} has a table that Perch did not make", name);
    }
    return dm::parse_raid_devices(table->front().params);
}

bool same_devices(const std::vector<dm::RaidDevices>& a, const std::vector<dm::RaidDevices>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.metadata == y.metadata && x.data == y.data;
    });
}

/// True if the live table has lost a member since, that `next` still counts on. The new table's
/// view of the members dates from its load, and would bring the lost one back with stale blocks.
Result<bool> lost_meanwhile(const std::string& name, const std::vector<dm::RaidDevices>& next) {
    const auto lines = dm::status(name);
    if (!lines || lines->size() != 1) {
        return lines ? fail(Errc::io, "{} has no status", name)
                     : tl::make_unexpected(lines.error());
    }
    return dm::parse_raid_status(lines->front().params).map([&](const EngineStatus& status) {
        for (std::size_t row = 0; row < next.size() && row < status.members.size(); ++row) {
            if (!next[row].data.empty() && !next[row].rebuild &&
                status.members[row] == MemberHealth::failed) {
                return true;
            }
        }
        return false;
    });
}

/// Swaps the table of a running VD. The load may fail (the kernel checks the members there) and
/// then nothing has changed; between suspend and resume nothing happens but one look at the old
/// table's status.
Result<void> swap_table(const std::string& name, const dm::Target& target,
                        const std::vector<dm::RaidDevices>& next) {
    if (auto loaded = dm::load(name, target); !loaded) {
        return loaded;
    }
    if (auto suspended = dm::suspend(name); !suspended) {
        const auto cleared = dm::clear(name);
        return cleared ? suspended : cleared;
    }
    const auto lost = lost_meanwhile(name, next);
    if (!lost || *lost) {
        const auto cleared = dm::clear(name);
        const auto resumed = dm::resume(name, dm::Visibility::published);
        return !resumed ? resumed
               : !cleared
                   ? cleared
                   : fail(Errc::io, "{} lost another member while its table was changed", name);
    }
    return dm::resume(name, dm::Visibility::published);
}

}  // namespace

Result<void> DmEngine::apply(const EngineVd& vd) {
    const auto info = dm::find(dm::vd_uuid(vd.uuid));
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    const auto devices = ensure_parts(vd);
    if (!devices) {
        return tl::make_unexpected(devices.error());
    }
    const dm::Target target{0, vd.vd_bytes / sector_bytes, "raid",
                            dm::raid5_params(vd.strip_bytes, *devices)};
    if (!*info || !(*info)->live_table) {
        if (*info) {  // made but never loaded: a kill in the middle of a create
            if (auto removed = dm::remove((*info)->name, dm::Visibility::published); !removed) {
                return removed;
            }
        }
        return dm::create(dm::vd_name(vd.name), dm::vd_uuid(vd.uuid), target,
                          dm::Visibility::published);
    }
    const auto live = live_devices((*info)->name);
    if (!live) {
        return tl::make_unexpected(live.error());
    }
    if (!same_devices(*live, *devices)) {
        if (auto swapped = swap_table((*info)->name, target, *devices); !swapped) {
            return swapped;
        }
    }
    return remove_orphans(vd.uuid, *devices);
}

Result<void> DmEngine::stop(const Uuid& vd) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (*info) {
        if (auto removed = dm::remove((*info)->name, dm::Visibility::published); !removed) {
            return removed;
        }
    }
    return remove_orphans(vd, {});
}

Result<std::optional<EngineStatus>> DmEngine::status(const Uuid& vd) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (!*info || !(*info)->live_table) {
        return std::optional<EngineStatus>();
    }
    const auto lines = dm::status((*info)->name);
    if (!lines) {
        return tl::make_unexpected(lines.error());
    }
    if (lines->size() != 1 || lines->front().type != "raid") {
        return fail(Errc::io, "{} has a table that Perch did not make", (*info)->name);
    }
    return dm::parse_raid_status(lines->front().params).map([&](EngineStatus status) {
        status.kernel_name = fmt::format("dm-{}", (*info)->minor);
        status.kernel_device = "/dev/" + status.kernel_name;
        status.suspended = (*info)->suspended;
        status.open_count = (*info)->open_count;
        return std::optional(status);
    });
}

Result<void> DmEngine::request_resync(const Uuid& vd) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info || !*info) {
        return info ? fail(Errc::wrong_state, "the VD does not run")
                    : tl::make_unexpected(info.error());
    }
    return dm::message((*info)->name, "repair");
}

std::uint64_t DmEngine::record_bytes() const {
    return dm::superblock_and_bitmap_bytes;
}

Result<std::vector<Uuid>> DmEngine::running() {
    return dm::list(dm::vd_prefix).map([](const std::vector<dm::Info>& infos) {
        std::vector<Uuid> vds;
        for (const auto& info : infos) {
            if (const auto uuid = Uuid::parse(info.uuid.substr(dm::vd_prefix.size()))) {
                vds.push_back(*uuid);
            }
        }
        return vds;
    });
}

Result<int> DmEngine::resume_suspended() {
    int resumed = 0;
    for (const auto& [prefix, visibility] : {std::pair{dm::part_prefix, dm::Visibility::hidden},
                                             std::pair{dm::vd_prefix, dm::Visibility::published}}) {
        const auto infos = dm::list(prefix);
        if (!infos) {
            return tl::make_unexpected(infos.error());
        }
        for (const auto& info : *infos) {
            if (info.suspended) {
                if (auto done = dm::resume(info.name, visibility); !done) {
                    return tl::make_unexpected(done.error());
                }
                ++resumed;
            }
        }
    }
    return resumed;
}

Result<std::optional<MemberRecord>> DmEngine::decode_record(
    std::span<const std::byte> metadata) const {
    return dm::decode_superblock(metadata);
}

}  // namespace perch
