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
    const auto& extent =
        member.extent(part == dm::Part::metadata ? ExtentType::dm_raid : ExtentType::data);
    const dm::Target target{0, extent.bytes / sector_bytes, "linear",
                            fmt::format("{} {}", partition_number, extent.offset / sector_bytes)};
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

/// Whether the drive of a partition ("/dev/nvme3n1p1") is there.
bool drive_exists(const std::string& partition) {
    struct stat info {};
    return stat(partition.substr(0, partition.rfind('p')).c_str(), &info) == 0;
}

/// make_part, through the moment in which udev, just after a partition was made, makes the kernel
/// read the table once more: the partition is gone then and comes back under another number. When
/// the drive itself is gone there is nothing to wait for.
Result<std::string> ensure_part(const Uuid& vd, const EngineMember& member, dm::Part part) {
    constexpr auto patience = std::chrono::seconds(20);
    constexpr auto step = std::chrono::milliseconds(50);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
        auto made = device_number(member.partition).and_then([&](const std::string& number) {
            return make_part(vd, member, part, number);
        });
        if (made || made.error().code != Errc::not_found || !drive_exists(member.partition) ||
            std::chrono::steady_clock::now() > deadline) {
            return made;
        }
        std::this_thread::sleep_for(step);
    }
}

/// One raid or striped device right above the parts: the VD itself, or a span of it.
struct Array {
    std::string name;
    std::string uuid;
    dm::Visibility visibility = dm::Visibility::published;
    std::uint64_t bytes = 0;
    std::size_t first = 0;  ///< its rows of the VD
    std::size_t count = 0;
};

bool stripes_over_spans(const RaidShape& shape) {
    return shape.level == RaidLevel::raid50 || shape.level == RaidLevel::raid60;
}

std::vector<Array> arrays_of(const EngineVd& vd) {
    if (!stripes_over_spans(vd.shape)) {
        return {{dm::vd_name(vd.name), dm::vd_uuid(vd.uuid), dm::Visibility::published, vd.vd_bytes,
                 0, vd.members.size()}};
    }
    std::vector<Array> arrays;
    const auto spans = vd.shape.spans();
    const auto per_span = static_cast<std::size_t>(vd.shape.per_span);
    for (int span = 0; span < spans; ++span) {
        arrays.push_back({dm::span_name(vd.uuid, span), dm::span_uuid(vd.uuid, span),
                          dm::Visibility::hidden, vd.vd_bytes / static_cast<std::uint64_t>(spans),
                          static_cast<std::size_t>(span) * per_span, per_span});
    }
    return arrays;
}

Result<std::vector<dm::RaidDevices>> ensure_parts(const EngineVd& vd) {
    const bool has_metadata = is_redundant(vd.shape.level);
    std::vector<dm::RaidDevices> devices;
    for (const auto& member : vd.members) {
        dm::RaidDevices row;
        if (member.role != MemberRole::absent) {
            auto metadata = has_metadata ? ensure_part(vd.uuid, member, dm::Part::metadata)
                                         : Result<std::string>("");
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

/// Removes what lies below a VD and is not in `used` (device numbers): parts of members that left.
/// Spans lie above parts, so they go first.
Result<void> remove_orphans(const Uuid& vd, const std::set<std::string>& used) {
    auto parts = dm::list(fmt::format("{}{}", dm::part_prefix, vd.str()));
    if (!parts) {
        return tl::make_unexpected(parts.error());
    }
    const auto span_prefix = fmt::format("{}{}-span", dm::part_prefix, vd.str());
    std::stable_partition(parts->begin(), parts->end(),
                          [&](const auto& part) { return part.uuid.starts_with(span_prefix); });
    for (const auto& part : *parts) {
        if (!used.contains(part.number())) {
            if (auto removed = dm::remove(part.name, dm::Visibility::hidden); !removed) {
                return removed;
            }
        }
    }
    return {};
}

/// The one target of a device of ours.
Result<dm::Target> only_target(const Result<std::vector<dm::Target>>& targets,
                               const std::string& name) {
    if (!targets) {
        return tl::make_unexpected(targets.error());
    }
    if (targets->size() != 1 ||
        (targets->front().type != "raid" && targets->front().type != "striped")) {
        return fail(Errc::io, "{} has a table that Perch did not make", name);
    }
    return targets->front();
}

/// The devices that a live table names, by row.
Result<std::vector<dm::RaidDevices>> live_devices(const std::string& name) {
    return only_target(dm::table(name), name)
        .and_then([](const dm::Target& target) -> Result<std::vector<dm::RaidDevices>> {
            if (target.type == "raid") {
                return dm::parse_raid_devices(target.params);
            }
            return dm::parse_striped_devices(target.params)
                .map([](const std::vector<std::string>& names) {
                    std::vector<dm::RaidDevices> devices;
                    for (const auto& device : names) {
                        devices.push_back({"", device, false});
                    }
                    return devices;
                });
        });
}

bool same_devices(const std::vector<dm::RaidDevices>& a, const std::vector<dm::RaidDevices>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.metadata == y.metadata && x.data == y.data;
    });
}

/// True if the live table has lost a member since, that `next` still counts on. The new table's
/// view of the members dates from its load, and would bring the lost one back with stale blocks.
Result<bool> lost_meanwhile(const std::string& name, const std::vector<dm::RaidDevices>& next) {
    return only_target(dm::status(name), name)
        .and_then([](const dm::Target& line) { return dm::parse_raid_status(line.params); })
        .map([&](const EngineStatus& status) {
            for (std::size_t row = 0; row < next.size() && row < status.members.size(); ++row) {
                if (!next[row].data.empty() && !next[row].rebuild &&
                    status.members[row] == MemberHealth::failed) {
                    return true;
                }
            }
            return false;
        });
}

/// Swaps the table of a running array. The load may fail (the kernel checks the members there) and
/// then nothing has changed; between suspend and resume nothing happens but one look at the old
/// table's status.
Result<void> swap_table(const Array& array, const dm::Target& target,
                        const std::vector<dm::RaidDevices>& next) {
    if (auto loaded = dm::load(array.name, target); !loaded) {
        return loaded;
    }
    if (auto suspended = dm::suspend(array.name); !suspended) {
        const auto cleared = dm::clear(array.name);
        return cleared ? suspended : cleared;
    }
    const auto lost = lost_meanwhile(array.name, next);
    if (!lost || *lost) {
        const auto cleared = dm::clear(array.name);
        const auto resumed = dm::resume(array.name, array.visibility);
        return !resumed   ? resumed
               : !cleared ? cleared
                          : fail(Errc::io, "{} lost another member while its table was changed",
                                 array.name);
    }
    return dm::resume(array.name, array.visibility);
}

/// A device of that UUID with a live table; one that was made but never loaded (a kill in the
/// middle of a create) is removed. nullopt: there is none.
Result<std::optional<dm::Info>> live_device(const std::string& uuid, dm::Visibility visibility) {
    auto info = dm::find(uuid);
    if (info && *info && !(*info)->live_table) {
        if (auto removed = dm::remove((*info)->name, visibility); !removed) {
            return tl::make_unexpected(removed.error());
        }
        return std::optional<dm::Info>();
    }
    return info;
}

/// Makes one array run on exactly those devices.
Result<void> apply_array(const EngineVd& vd, const Array& array,
                         const std::vector<dm::RaidDevices>& devices) {
    dm::Target target{0, array.bytes / sector_bytes, "raid",
                      dm::raid_params(vd.shape.level, vd.strip_bytes, devices)};
    if (!is_redundant(vd.shape.level)) {
        std::vector<std::string> names;
        for (const auto& device : devices) {
            names.push_back(device.data);
        }
        target.type = "striped";
        target.params = dm::striped_params(vd.strip_bytes, names);
    }
    const auto info = live_device(array.uuid, array.visibility);
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (!*info) {
        return dm::create(array.name, array.uuid, target, array.visibility);
    }
    auto current = array;
    current.name = (*info)->name;
    const auto live = live_devices(current.name);
    if (!live) {
        return tl::make_unexpected(live.error());
    }
    if (same_devices(*live, devices)) {
        return {};
    }
    if (target.type == "striped") {
        return fail(Errc::wrong_state, "the members of a running RAID0 cannot be changed");
    }
    return swap_table(current, target, devices);
}

/// The striped device over the spans.
Result<void> apply_top(const EngineVd& vd, const std::vector<std::string>& span_numbers) {
    const auto info = live_device(dm::vd_uuid(vd.uuid), dm::Visibility::published);
    if (!info || *info) {
        return info ? Result<void>() : tl::make_unexpected(info.error());
    }
    const auto row_bytes = vd.strip_bytes * static_cast<std::uint64_t>(vd.shape.data_members()) /
                           static_cast<std::uint64_t>(vd.shape.spans());
    const dm::Target target{0, vd.vd_bytes / sector_bytes, "striped",
                            dm::striped_params(row_bytes, span_numbers)};
    return dm::create(dm::vd_name(vd.name), dm::vd_uuid(vd.uuid), target,
                      dm::Visibility::published);
}

/// A renamed VD that runs is renamed in the kernel too.
Result<void> follow_name(const EngineVd& vd) {
    const auto info = dm::find(dm::vd_uuid(vd.uuid));
    if (!info || !*info || (*info)->name == dm::vd_name(vd.name)) {
        return info ? Result<void>() : tl::make_unexpected(info.error());
    }
    return dm::rename((*info)->name, dm::vd_name(vd.name));
}

/// Adds one array's status to that of the VD.
void add_status(EngineStatus& total, const EngineStatus& part) {
    total.members.insert(total.members.end(), part.members.begin(), part.members.end());
    total.task_done_sectors += part.task_done_sectors;
    total.task_total_sectors += part.task_total_sectors;
    total.mismatches += part.mismatches;
    total.suspended = total.suspended || part.suspended;
    if (total.task == EngineTask::none) {
        total.task = part.task;
    }
}

/// The raid devices of a running VD, in the order of its spans; the VD's own where it has none.
Result<std::vector<dm::Info>> raid_devices(const Uuid& vd) {
    const auto top = dm::find(dm::vd_uuid(vd));
    if (!top || !*top || !(*top)->live_table) {
        return top ? fail(Errc::wrong_state, "the VD does not run")
                   : tl::make_unexpected(top.error());
    }
    std::vector<dm::Info> devices;
    for (int span = 0;; ++span) {
        const auto info = dm::find(dm::span_uuid(vd, span));
        if (!info) {
            return tl::make_unexpected(info.error());
        }
        if (!*info) {
            break;
        }
        devices.push_back(**info);
    }
    if (devices.empty()) {
        devices.push_back(**top);
    }
    return devices;
}

/// What one raid or striped device says of itself. A striped one notices nothing: its members are
/// taken to be well, and the controller sees who is gone.
Result<EngineStatus> array_status(const dm::Info& info) {
    const auto line = only_target(dm::status(info.name), info.name);
    if (!line) {
        return tl::make_unexpected(line.error());
    }
    if (line->type == "raid") {
        return dm::parse_raid_status(line->params).map([&](EngineStatus status) {
            status.suspended = info.suspended;
            return status;
        });
    }
    return live_devices(info.name).map([&](const std::vector<dm::RaidDevices>& devices) {
        EngineStatus status;
        status.suspended = info.suspended;
        status.members.assign(devices.size(), MemberHealth::in_sync);
        return status;
    });
}

Result<void> message_all(const Uuid& vd, const std::string& text) {
    return raid_devices(vd).and_then([&](const std::vector<dm::Info>& infos) -> Result<void> {
        for (const auto& info : infos) {
            if (auto sent = dm::message(info.name, text); !sent) {
                return sent;
            }
        }
        return {};
    });
}

}  // namespace

Result<void> DmEngine::apply(const EngineVd& vd) {
    const auto devices = ensure_parts(vd);
    if (!devices) {
        return tl::make_unexpected(devices.error());
    }
    std::set<std::string> used;
    for (const auto& device : *devices) {
        used.insert({device.metadata, device.data});
    }
    std::vector<std::string> span_numbers;
    for (const auto& array : arrays_of(vd)) {
        const auto begin = devices->begin() + static_cast<std::ptrdiff_t>(array.first);
        if (auto done =
                apply_array(vd, array, {begin, begin + static_cast<std::ptrdiff_t>(array.count)});
            !done) {
            return done;
        }
        const auto info = dm::find(array.uuid);
        if (!info || !*info) {
            return info ? fail(Errc::io, "{} vanished while it was made", array.name)
                        : tl::make_unexpected(info.error());
        }
        span_numbers.push_back((*info)->number());
    }
    used.insert(span_numbers.begin(), span_numbers.end());
    if (stripes_over_spans(vd.shape)) {
        if (auto done = apply_top(vd, span_numbers); !done) {
            return done;
        }
    }
    if (auto renamed = follow_name(vd); !renamed) {
        return renamed;
    }
    return remove_orphans(vd.uuid, used);
}

Result<void> DmEngine::stop(const Uuid& vd) {
    inits_.erase(vd);
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
    const auto top = dm::find(dm::vd_uuid(vd));
    if (!top) {
        return tl::make_unexpected(top.error());
    }
    if (!*top || !(*top)->live_table) {
        return std::optional<EngineStatus>();
    }
    const auto infos = raid_devices(vd);
    if (!infos) {
        return tl::make_unexpected(infos.error());
    }
    EngineStatus total;
    for (const auto& info : *infos) {
        const auto part = array_status(info);
        if (!part) {
            return tl::make_unexpected(part.error());
        }
        add_status(total, *part);
    }
    total.kernel_name = fmt::format("dm-{}", (*top)->minor);
    total.kernel_device = "/dev/" + total.kernel_name;
    total.suspended = total.suspended || (*top)->suspended;
    total.open_count = (*top)->open_count;
    if (const auto job = inits_.find(vd); job != inits_.end()) {
        const bool running = job->second->running();
        total.init = EngineInit{job->second->done_bytes(), running};
        if (running) {
            --total.open_count;  // our own
            total.task = EngineTask::init;
            total.task_done_sectors = job->second->done_bytes() / sector_bytes;
            total.task_total_sectors = job->second->total_bytes() / sector_bytes;
        }
    }
    return std::optional(total);
}

Result<void> DmEngine::request_resync(const Uuid& vd) {
    return message_all(vd, "repair");
}

Result<void> DmEngine::start_check(const Uuid& vd) {
    return message_all(vd, "check");
}

Result<void> DmEngine::start_init(const Uuid& vd, std::uint64_t from_bytes) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info || !*info) {
        return info ? fail(Errc::wrong_state, "the VD does not run")
                    : tl::make_unexpected(info.error());
    }
    const auto table = dm::table((*info)->name);
    if (!table || table->empty()) {
        return table ? fail(Errc::wrong_state, "the VD does not run")
                     : tl::make_unexpected(table.error());
    }
    inits_.erase(vd);
    auto job = InitJob::start(fmt::format("/dev/dm-{}", (*info)->minor), from_bytes,
                              table->front().length_sectors * sector_bytes);
    if (!job) {
        return tl::make_unexpected(job.error());
    }
    inits_.emplace(vd, std::move(*job));
    return {};
}

Result<void> DmEngine::stop_task(const Uuid& vd) {
    if (inits_.erase(vd) > 0) {
        return {};
    }
    const auto now = status(vd);
    if (now && *now && (*now)->task == EngineTask::check) {
        return message_all(vd, "idle");
    }
    return now ? Result<void>() : tl::make_unexpected(now.error());
}

Result<void> DmEngine::zero(const Uuid& vd, std::uint64_t offset, std::uint64_t bytes) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info || !*info) {
        return info ? fail(Errc::wrong_state, "the VD does not run")
                    : tl::make_unexpected(info.error());
    }
    return zero_block_device(fmt::format("/dev/dm-{}", (*info)->minor), offset, bytes);
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

Result<Bytes> DmEngine::rewrite_record(std::span<const std::byte> metadata, std::uint64_t events,
                                       const std::vector<int>& failed_rows) const {
    return dm::rewrite_superblock(metadata, events, failed_rows);
}

}  // namespace perch
