// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/dm_engine.hpp"

#include "engine/dm/dm_task.hpp"
#include "engine/dm/dmraid_format.hpp"
#include "engine/dm/dmraid_stack.hpp"
#include "engine/dm/names.hpp"
#include "engine/dm/perch_target.hpp"
#include "engine/dm/vd_device.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

/// What runs a device of ours.
Result<EngineKind> kind_of(const dm::Info& info) {
    return dm::only_target(dm::table(info.name), info.name).map([](const dm::Target& target) {
        return target.type == dm::perch_target_type ? EngineKind::perch : EngineKind::dm_raid;
    });
}

/// Both targets know the same words.
Result<void> message(const Uuid& vd, const std::string& text) {
    const auto info = dm::find(dm::vd_uuid(vd));
    if (!info || !*info) {
        return info ? fail(Errc::wrong_state, "the VD does not run")
                    : tl::make_unexpected(info.error());
    }
    return kind_of(**info).and_then([&](EngineKind kind) {
        return kind == EngineKind::perch ? dm::message((*info)->name, text)
                                         : dm::message_dmraid(vd, text);
    });
}

}  // namespace

Result<void> DmEngine::supports(EngineKind kind) {
    return kind == EngineKind::perch ? dm::check_perch_target() : Result<void>();
}

EngineKind DmEngine::preferred() const {
    return EngineKind::perch;
}

Result<void> DmEngine::apply(const EngineVd& vd) {
    return vd.kind == EngineKind::perch ? dm::apply_perch(vd) : dm::apply_dmraid(vd);
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
    return dm::remove_below_dmraid(vd);
}

Result<std::optional<EngineStatus>> DmEngine::status(const Uuid& vd) {
    const auto top = dm::find(dm::vd_uuid(vd));
    if (!top) {
        return tl::make_unexpected(top.error());
    }
    if (!*top || !(*top)->live_table) {
        return std::optional<EngineStatus>();
    }
    const auto kind = kind_of(**top);
    const auto found = !kind                        ? tl::make_unexpected(kind.error())
                       : *kind == EngineKind::perch ? dm::perch_status((*top)->name)
                                                    : dm::dmraid_status(vd);
    if (!found) {
        return tl::make_unexpected(found.error());
    }
    auto total = *found;
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
    return message(vd, "repair");
}

Result<void> DmEngine::start_check(const Uuid& vd) {
    return message(vd, "check");
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
        return message(vd, "idle");
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
