// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/dmraid_stack.hpp"

#include <algorithm>
#include <set>

#include "engine/dm/dmraid_format.hpp"
#include "engine/dm/names.hpp"
#include "engine/dm/vd_device.hpp"
#include "util/units.hpp"

namespace perch::dm {

namespace {

/// Makes one linear device over an extent and returns its number; keeps one that fits.
Result<std::string> make_part(const Uuid& vd, const EngineMember& member, Part part,
                              const std::string& partition_number) {
    const auto& extent =
        member.extent(part == Part::metadata ? ExtentType::dm_raid : ExtentType::data);
    const Target target{0, extent.bytes / sector_bytes, "linear",
                        fmt::format("{} {}", partition_number, extent.offset / sector_bytes)};
    const auto name = part_name(member.instance, part);
    const auto uuid = part_uuid(vd, member.instance, part);
    auto info = find(uuid);
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (*info) {
        const auto live = table(name);
        if (live && live->size() == 1 && live->front().params == target.params &&
            live->front().length_sectors == target.length_sectors) {
            return (*info)->number();
        }
        // It belongs to a device that has gone: nothing may hold it any more.
        if (auto removed = remove(name, Visibility::hidden); !removed) {
            return tl::make_unexpected(removed.error());
        }
    }
    if (auto created = create(name, uuid, target, Visibility::hidden); !created) {
        return tl::make_unexpected(created.error());
    }
    info = find(uuid);
    if (!info || !*info) {
        return info ? fail(Errc::io, "{} vanished while it was made", name)
                    : tl::make_unexpected(info.error());
    }
    return (*info)->number();
}

Result<std::string> ensure_part(const Uuid& vd, const EngineMember& member, Part part) {
    std::string number;
    return with_partitions({member},
                           [&]() -> Result<void> {
                               return device_number(member.partition)
                                   .and_then([&](const std::string& partition) {
                                       return make_part(vd, member, part, partition);
                                   })
                                   .map([&](std::string made) { number = std::move(made); });
                           })
        .map([&] { return number; });
}

/// One raid or striped device right above the parts: the VD itself, or a span of it.
struct Array {
    std::string name;
    std::string uuid;
    Visibility visibility = Visibility::published;
    std::uint64_t bytes = 0;
    std::size_t first = 0;  ///< its rows of the VD
    std::size_t count = 0;
};

bool stripes_over_spans(const RaidShape& shape) {
    return shape.level == RaidLevel::raid50 || shape.level == RaidLevel::raid60;
}

std::vector<Array> arrays_of(const EngineVd& vd) {
    if (!stripes_over_spans(vd.shape)) {
        return {{vd_name(vd.name), vd_uuid(vd.uuid), Visibility::published, vd.vd_bytes, 0,
                 vd.members.size()}};
    }
    std::vector<Array> arrays;
    const auto spans = vd.shape.spans();
    const auto per_span = static_cast<std::size_t>(vd.shape.per_span);
    for (int span = 0; span < spans; ++span) {
        arrays.push_back({span_name(vd.uuid, span), span_uuid(vd.uuid, span), Visibility::hidden,
                          vd.vd_bytes / static_cast<std::uint64_t>(spans),
                          static_cast<std::size_t>(span) * per_span, per_span});
    }
    return arrays;
}

Result<std::vector<RaidDevices>> ensure_parts(const EngineVd& vd) {
    const bool has_metadata = is_redundant(vd.shape.level);
    std::vector<RaidDevices> devices;
    for (const auto& member : vd.members) {
        RaidDevices row;
        if (member.role != MemberRole::absent) {
            auto metadata = has_metadata ? ensure_part(vd.uuid, member, Part::metadata)
                                         : Result<std::string>("");
            auto data = metadata ? ensure_part(vd.uuid, member, Part::data) : metadata;
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
    auto parts = list(fmt::format("{}{}", part_prefix, vd.str()));
    if (!parts) {
        return tl::make_unexpected(parts.error());
    }
    const auto span_prefix = fmt::format("{}{}-span", part_prefix, vd.str());
    std::stable_partition(parts->begin(), parts->end(),
                          [&](const auto& part) { return part.uuid.starts_with(span_prefix); });
    for (const auto& part : *parts) {
        if (!used.contains(part.number())) {
            if (auto removed = remove(part.name, Visibility::hidden); !removed) {
                return removed;
            }
        }
    }
    return {};
}

/// The devices that a live table names, by row.
Result<std::vector<RaidDevices>> live_devices(const std::string& name) {
    return only_target(table(name), name)
        .and_then([](const Target& target) -> Result<std::vector<RaidDevices>> {
            if (target.type == "raid") {
                return parse_raid_devices(target.params);
            }
            return parse_striped_devices(target.params)
                .map([](const std::vector<std::string>& names) {
                    std::vector<RaidDevices> devices;
                    for (const auto& device : names) {
                        devices.push_back({"", device, false});
                    }
                    return devices;
                });
        });
}

bool same_devices(const std::vector<RaidDevices>& a, const std::vector<RaidDevices>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.metadata == y.metadata && x.data == y.data;
    });
}

/// True if the live table has lost a member since, that `next` still counts on. The new table's
/// view of the members dates from its load, and would bring the lost one back with stale blocks.
Result<bool> lost_meanwhile(const std::string& name, const std::vector<RaidDevices>& next) {
    return only_target(status(name), name)
        .and_then([](const Target& line) { return parse_raid_status(line.params); })
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
Result<void> swap_table(const Array& array, const Target& target,
                        const std::vector<RaidDevices>& next) {
    if (auto loaded = load(array.name, target); !loaded) {
        return loaded;
    }
    if (auto suspended = suspend(array.name); !suspended) {
        const auto cleared = clear(array.name);
        return cleared ? suspended : cleared;
    }
    const auto lost = lost_meanwhile(array.name, next);
    if (!lost || *lost) {
        const auto cleared = clear(array.name);
        const auto resumed = resume(array.name, array.visibility);
        return !resumed   ? resumed
               : !cleared ? cleared
                          : fail(Errc::io, "{} lost another member while its table was changed",
                                 array.name);
    }
    return resume(array.name, array.visibility);
}

/// Makes one array run on exactly those devices.
Result<void> apply_array(const EngineVd& vd, const Array& array,
                         const std::vector<RaidDevices>& devices) {
    Target target{0, array.bytes / sector_bytes, "raid",
                  raid_params(vd.shape.level, vd.strip_bytes, devices)};
    if (!is_redundant(vd.shape.level)) {
        std::vector<std::string> names;
        for (const auto& device : devices) {
            names.push_back(device.data);
        }
        target.type = "striped";
        target.params = striped_params(vd.strip_bytes, names);
    }
    const auto info = live_device(array.uuid, array.visibility);
    if (!info) {
        return tl::make_unexpected(info.error());
    }
    if (!*info) {
        return create(array.name, array.uuid, target, array.visibility);
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
    const auto info = live_device(vd_uuid(vd.uuid), Visibility::published);
    if (!info || *info) {
        return info ? Result<void>() : tl::make_unexpected(info.error());
    }
    const auto row_bytes = vd.strip_bytes * static_cast<std::uint64_t>(vd.shape.data_members()) /
                           static_cast<std::uint64_t>(vd.shape.spans());
    const Target target{0, vd.vd_bytes / sector_bytes, "striped",
                        striped_params(row_bytes, span_numbers)};
    return create(vd_name(vd.name), vd_uuid(vd.uuid), target, Visibility::published);
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
Result<std::vector<Info>> raid_devices(const Uuid& vd) {
    const auto top = find(vd_uuid(vd));
    if (!top || !*top || !(*top)->live_table) {
        return top ? fail(Errc::wrong_state, "the VD does not run")
                   : tl::make_unexpected(top.error());
    }
    std::vector<Info> devices;
    for (int span = 0;; ++span) {
        const auto info = find(span_uuid(vd, span));
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
Result<EngineStatus> array_status(const Info& info) {
    const auto line = only_target(status(info.name), info.name);
    if (!line) {
        return tl::make_unexpected(line.error());
    }
    if (line->type == "raid") {
        return parse_raid_status(line->params).map([&](EngineStatus status) {
            status.suspended = info.suspended;
            return status;
        });
    }
    return live_devices(info.name).map([&](const std::vector<RaidDevices>& devices) {
        EngineStatus status;
        status.suspended = info.suspended;
        status.members.assign(devices.size(), MemberHealth::in_sync);
        return status;
    });
}

}  // namespace

Result<void> message_dmraid(const Uuid& vd, const std::string& text) {
    return raid_devices(vd).and_then([&](const std::vector<Info>& infos) -> Result<void> {
        for (const auto& info : infos) {
            if (auto sent = message(info.name, text); !sent) {
                return sent;
            }
        }
        return {};
    });
}

Result<void> apply_dmraid(const EngineVd& vd) {
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
        const auto info = find(array.uuid);
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

Result<EngineStatus> dmraid_status(const Uuid& vd) {
    const auto infos = raid_devices(vd);
    if (!infos) {
        return tl::make_unexpected(infos.error());
    }
    EngineStatus total;
    for (const auto& info : *infos) {
        auto part = array_status(info);
        if (!part) {
            return part;
        }
        add_status(total, *part);
    }
    return total;
}

Result<void> remove_below_dmraid(const Uuid& vd) {
    return remove_orphans(vd, {});
}

}  // namespace perch::dm
