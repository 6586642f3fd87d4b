// SPDX-License-Identifier: GPL-2.0-or-later
// What an administrator asks for VDs. Each request checks everything first, then follows the steps
// that the crash argument in controller.hpp lists.
#include <algorithm>
#include <set>

#include "drives/block_users.hpp"
#include "operations/controller.hpp"
#include "util/collections.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

Result<void> check_name(const Configuration& configuration, const std::string& name, int id) {
    if (!valid_vd_name(name)) {
        return fail(Errc::invalid_argument,
                    "'{}' is not a VD name: 1 to {} letters, digits, '.', '_' and '-', beginning "
                    "with a letter or digit",
                    name, max_vd_name);
    }
    for (const auto& other : configuration.vds) {
        if (other.name == name && other.id != id) {
            return fail(Errc::invalid_argument, "the name '{}' is taken by v{}", name, other.id);
        }
    }
    return {};
}

/// One array of dm-raid records at most that many failed members in the field that Perch reads.
constexpr int max_mirrored_members = 64;

std::vector<std::size_t> all_rows(const ConfigVd& vd) {
    std::vector<std::size_t> rows(vd.members.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
        rows[row] = row;
    }
    return rows;
}

}  // namespace

Result<void> Controller::check_healthy_configuration() const {
    if (history_.refusal) {
        return fail(Errc::wrong_state, "nothing can be changed: {}", *history_.refusal);
    }
    return {};
}

Result<PartitionLayout> Controller::partition_of(const FoundDrive& drive) const {
    if (is_ours(drive, configuration_)) {
        return drive.label->partition;
    }
    auto partition = partition_layout(drive.identity.size_bytes, configuration_.settings.coercion);
    return partition ? partition : fail_with(bay(drive), partition.error());
}

/// The drive group that the drives are, all of them and no others; nullopt: none of them is in any.
Result<std::optional<int>> Controller::group_for(const CreateRequest& request) const {
    std::optional<int> group;
    std::size_t members = 0;
    std::string member;
    for (const auto& id : request.drives) {
        const auto drive = found_drive(id);
        if (!drive) {
            return tl::make_unexpected(drive.error());
        }
        const auto own = (*drive)->label && is_ours(**drive, configuration_)
                             ? group_of_drive(configuration_, (*drive)->label->drive)
                             : std::nullopt;
        if (own && group && *own != *group) {
            return fail(Errc::wrong_state, "the drives belong to the drive groups {} and {}",
                        *group, *own);
        }
        if (own && !group) {
            group = own;
            member = bay(**drive);
        }
        members += own ? 1 : 0;
    }
    if (!group) {
        return group;
    }
    const auto& first = *vds_of_group(configuration_, *group).front();
    if (members != request.drives.size() || members != first.members.size()) {
        return fail(Errc::wrong_state,
                    "{} is already a member of drive group {}: a VD takes all {} drives of a drive "
                    "group, or drives that are in none",
                    member, *group, first.members.size());
    }
    if (request.level != first.level ||
        (request.per_span != 0 && request.per_span != first.per_span)) {
        return fail(Errc::wrong_state,
                    "drive group {} is {} with {} drives per span; all its VDs are", *group,
                    to_string(first.level), first.per_span);
    }
    for (const auto* vd : vds_of_group(configuration_, *group)) {
        if (vd->deleting || vd_state(*vd) != VdState::optimal) {
            return fail(Errc::wrong_state,
                        "{} of drive group {} is not Optimal; wait or repair it "
                        "first",
                        vd_title(*vd), *group);
        }
    }
    if (vds_of_group(configuration_, *group).size() >= max_vds_per_group) {
        return fail(Errc::limit, "a drive group has at most {} VDs", max_vds_per_group);
    }
    return group;
}

/// The drives by row: as asked for, or as an existing group has them.
Result<std::vector<std::string>> Controller::rows_for(const CreateRequest& request,
                                                      std::optional<int> group) const {
    if (!group) {
        return request.drives;
    }
    std::vector<std::string> rows;
    for (const auto& member : vds_of_group(configuration_, *group).front()->members) {
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr) {
            return fail(Errc::wrong_state, "{} of drive group {} is not there",
                        drive_title(member.drive), *group);
        }
        rows.push_back(drive->identity.id());
    }
    return rows;
}

/// Where a VD's extents go, and how large it is.
Result<VdLayout> Controller::plan_layout(const CreateRequest& request, const RaidShape& shape,
                                         int group, bool existing) const {
    if (existing) {
        const auto free = free_in_group(configuration_, group);
        if (free.empty()) {
            return fail(Errc::too_small, "no free space to create a VD: drive group {} is full",
                        group);
        }
        return vd_layout(shape, free, request.size_bytes);
    }
    std::uint64_t smallest = UINT64_MAX;
    const FoundDrive* first = nullptr;
    for (const auto& id : request.drives) {
        const auto drive = found_drive(id);
        if (!drive) {
            return tl::make_unexpected(drive.error());
        }
        if (auto ok = check_takeable(**drive, request.force); !ok) {
            return tl::make_unexpected(ok.error());
        }
        first = first == nullptr ? *drive : first;
        if ((*drive)->identity.logical_block_bytes != first->identity.logical_block_bytes) {
            return fail(Errc::sector_size,
                        "{} has sectors of {} bytes and {} of {}; a VD needs drives with one "
                        "sector size",
                        bay(*first), first->identity.logical_block_bytes, bay(**drive),
                        (*drive)->identity.logical_block_bytes);
        }
        const auto partition = partition_of(**drive);
        if (!partition) {
            return tl::make_unexpected(partition.error());
        }
        smallest = std::min(smallest, partition->length);
    }
    return vd_layout(shape, free_ranges(smallest, {}), request.size_bytes);
}

EngineKind Controller::engine_for(const CreateRequest& request) const {
    return request.engine.value_or(engine_.preferred());
}

/// The VD that is asked for, its members without drives yet.
Result<ConfigVd> Controller::plan_create(const CreateRequest& request) const {
    if (std::set(request.drives.begin(), request.drives.end()).size() != request.drives.size()) {
        return fail(Errc::invalid_argument, "a drive is named twice");
    }
    if (configuration_.vds.size() >= max_vds) {
        return fail(Errc::limit, "a controller has at most {} VDs", max_vds);
    }
    const auto group = group_for(request);
    if (!group) {
        return tl::make_unexpected(group.error());
    }
    const auto per_span =
        *group ? vds_of_group(configuration_, **group).front()->per_span : request.per_span;
    const auto shape = make_shape(request.level, static_cast<int>(request.drives.size()), per_span);
    if (!shape) {
        return tl::make_unexpected(shape.error());
    }
    const auto engine = engine_for(request);
    if (auto ok = engine_.supports(engine); !ok) {
        return fail(ok.error().code,
                    "{}; or create the VD with engine=dm-raid, on the kernel's own RAID, which "
                    "promises less. Nothing was written",
                    ok.error().message);
    }
    if (engine == EngineKind::dm_raid && shape->level == RaidLevel::raid10 &&
        shape->members > max_mirrored_members) {
        return fail(Errc::limit, "RAID10 has at most {} members on dm-raid, {} given",
                    max_mirrored_members, shape->members);
    }
    const auto used_id = [&](int id) { return find_vd(configuration_, id) != nullptr; };
    const auto used_group = [&](int id) { return !vds_of_group(configuration_, id).empty(); };
    ConfigVd vd;
    vd.id = first_free(1, used_id);
    vd.group = *group ? **group : first_free(0, used_group);
    if (vd.group >= max_groups) {
        return fail(Errc::limit, "a controller has at most {} drive groups", max_groups);
    }
    vd.name = request.name.empty() ? fmt::format("v{}", vd.id) : request.name;
    if (auto ok = check_name(configuration_, vd.name, vd.id); !ok) {
        return tl::make_unexpected(ok.error());
    }
    const auto layout = plan_layout(request, *shape, vd.group, group->has_value());
    if (!layout) {
        return tl::make_unexpected(layout.error());
    }
    const auto first = found_drive(request.drives.front());
    vd.block_bytes = first ? (*first)->identity.logical_block_bytes : 512;
    if (auto ok = check_strip(request.strip_bytes, vd.block_bytes); !ok) {
        return tl::make_unexpected(ok.error());
    }
    for (const auto& id : request.spares) {
        const auto spare = found_drive(id);
        const auto ok = spare.and_then(
            [&](const FoundDrive* drive) { return check_takeable(*drive, request.force); });
        if (!ok) {
            return tl::make_unexpected(ok.error());
        }
        if (std::find(request.drives.begin(), request.drives.end(), id) != request.drives.end()) {
            return fail(Errc::invalid_argument, "{} is named as a member and as a spare",
                        bay(**spare));
        }
    }
    vd.uuid = Uuid::random();
    vd.level = shape->level;
    vd.per_span = shape->per_span;
    vd.strip_bytes = request.strip_bytes;
    vd.vd_bytes = layout->vd_bytes;
    vd.engine = engine;
    vd.region_bytes = engine == EngineKind::perch ? region_bytes_for(layout->data_bytes) : 0;
    vd.needs_resync = is_redundant(shape->level);
    vd.created = clock_.wall_seconds();
    for (std::size_t row = 0; row < request.drives.size(); ++row) {
        ConfigMember member;
        member.instance = Uuid::random();
        member.extents = layout->extents;
        vd.members.push_back(std::move(member));
    }
    return vd;
}

/// The VD that the request describes, if it exists already: a script that runs twice, or whose
/// answer was lost, must not fail (and surely not delete anything).
const ConfigVd* Controller::find_same(const CreateRequest& request) const {
    for (const auto& vd : configuration_.vds) {
        bool same = !request.name.empty() && vd.name == request.name && !vd.deleting &&
                    vd.level == request.level && vd.strip_bytes == request.strip_bytes &&
                    (request.per_span == 0 || request.per_span == vd.per_span) &&
                    (!request.engine || *request.engine == vd.engine) &&
                    (!request.size_bytes ||
                     (*request.size_bytes <= vd.vd_bytes &&
                      vd.vd_bytes - *request.size_bytes < MiB * vd.members.size())) &&
                    vd.members.size() == request.drives.size();
        for (std::size_t row = 0; same && row < vd.members.size(); ++row) {
            const auto drive = found_drive(request.drives[row]);
            same = drive && (*drive)->label && (*drive)->label->drive == vd.members[row].drive;
        }
        if (same) {
            return &vd;
        }
    }
    return nullptr;
}

Result<int> Controller::create_vd(const CreateRequest& request) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return tl::make_unexpected(ok.error());
    }
    if (request.drives.empty()) {
        return fail(Errc::invalid_argument, "no drives are named");
    }
    if (const auto* existing = find_same(request); existing != nullptr) {
        return existing->id;
    }
    auto plan = plan_create(request);
    const auto rows = plan ? group_for(request).and_then(
                                 [&](std::optional<int> group) { return rows_for(request, group); })
                           : tl::make_unexpected(plan.error());
    if (!rows) {
        return tl::make_unexpected(rows.error());
    }
    auto vd = std::move(*plan);
    if (configuration_.controller.is_nil()) {
        configuration_.controller = Uuid::random();
    }
    std::vector<ConfigDrive> taken;
    for (const auto& id : *rows) {
        auto drive = take_drive(id, request.force);
        if (!drive) {
            return tl::make_unexpected(drive.error());
        }
        taken.push_back(std::move(*drive));
    }
    std::vector<ConfigDrive> spares;
    for (const auto& id : request.spares) {
        auto spare = take_drive(id, request.force);
        if (!spare) {
            return tl::make_unexpected(spare.error());
        }
        spare->role = DriveRole::dedicated_spare;
        spare->spare_for = {vd.group};
        spares.push_back(std::move(*spare));
    }
    auto next = configuration_;
    for (std::size_t row = 0; row < taken.size(); ++row) {
        vd.members[row].drive = taken[row].uuid;
        upsert_drive(next, taken[row]);
    }
    for (const auto& spare : spares) {
        upsert_drive(next, spare);
    }
    auto ready = wipe(vd).and_then([&] { return write_superblocks(vd, all_rows(vd), false); });
    if (!ready) {
        return tl::make_unexpected(ready.error());
    }
    next.vds.push_back(vd);
    if (auto done = commit(next); !done) {
        return tl::make_unexpected(done.error());
    }
    if (auto done = apply(vd.id); !done) {
        // Back to where we were; what was written on the drives is a label and zeros.
        auto undo = configuration_;
        std::erase_if(undo.vds, [&](const auto& other) { return other.id == vd.id; });
        const auto undone = commit(undo);
        const auto stopped = engine_.stop(vd.uuid);
        return fail(done.error().code, "{} could not be started: {}{}", vd_title(vd),
                    done.error().message,
                    undone && stopped ? "" : ". It could not be undone either; delete it");
    }
    events_.emit(EventKind::vd_created,
                 fmt::format("{} was created: {} of {} drives, {}, strip {}.", vd_title(vd),
                             to_string(vd.level), vd.members.size(), format_size(vd.vd_bytes),
                             format_block(vd.strip_bytes)));
    refresh();
    return vd.id;
}

Result<void> Controller::delete_vd(int id) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    const auto* vd = find_vd(configuration_, id);
    if (vd == nullptr) {
        return fail(Errc::not_found, "no VD {}; 'perchcli /c0/vall show' lists them", id);
    }
    if (auto unused = check_unused(*vd); !unused) {
        return unused;
    }
    const auto title = vd_title(*vd);
    if (auto stopped = engine_.stop(vd->uuid); !stopped) {
        if (stopped.error().code == Errc::in_use) {
            return fail(Errc::in_use, "{} is open in some program. Nothing changed", title);
        }
        return stopped;
    }
    auto next = configuration_;
    find_vd(next, id)->deleting = true;
    if (auto done = commit(next); !done) {
        return done;
    }
    auto finished = finish_delete(id);
    refresh();
    return finished;
}

/// Nobody mounts, maps or otherwise holds the VD.
Result<void> Controller::check_unused(const ConfigVd& vd) const {
    const auto* runtime = runtime_of(vd);
    if (runtime == nullptr || !runtime->status) {
        return {};
    }
    if (const auto users = block_users(runtime->status->kernel_name); !users.empty()) {
        return fail(Errc::in_use,
                    "{} is in use ({}); it is refused even with force. Nothing changed",
                    vd_title(vd), fmt::join(users, ", "));
    }
    return {};
}

/// The VD, while changes are allowed.
Result<const ConfigVd*> Controller::configured_vd(int id) const {
    if (auto ok = check_healthy_configuration(); !ok) {
        return tl::make_unexpected(ok.error());
    }
    const auto* vd = find_vd(configuration_, id);
    if (vd == nullptr || vd->deleting) {
        return fail(Errc::not_found, "no VD {}; 'perchcli /c0/vall show' lists them", id);
    }
    return vd;
}

/// The VD, if requests that need the engine can be carried out on it.
Result<const ConfigVd*> Controller::running_vd(int id) const {
    auto vd = configured_vd(id);
    if (vd && vd_state(**vd) == VdState::offline) {
        return fail(Errc::wrong_state, "{} is Offline: {}", vd_title(**vd),
                    runtime_of(**vd) == nullptr ? "" : runtime_of(**vd)->reason);
    }
    return vd;
}

Result<void> Controller::rename_vd(int id, const std::string& name) {
    refresh();
    const auto vd = configured_vd(id);
    if (!vd) {
        return tl::make_unexpected(vd.error());
    }
    if (auto ok = check_name(configuration_, name, id); !ok) {
        return ok;
    }
    const auto before = vd_title(**vd);
    if ((*vd)->name == name) {
        return {};
    }
    auto next = configuration_;
    find_vd(next, id)->name = name;
    if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(EventKind::vd_renamed,
                 fmt::format("{} was renamed; it is /dev/perch/{} now.", before, name));
    refresh();
    return {};
}

Result<void> Controller::start_init(int id, bool full) {
    refresh();
    const auto vd = running_vd(id);
    if (!vd) {
        return tl::make_unexpected(vd.error());
    }
    if (auto unused = check_unused(**vd); !unused) {
        return unused;
    }
    if ((*vd)->initialized) {
        return fail(Errc::wrong_state, "an initialization of {} is in progress", vd_title(**vd));
    }
    const auto title = vd_title(**vd);
    if (!full) {
        constexpr std::uint64_t ends = 8 * MiB;
        const auto bytes = std::min(ends, (*vd)->vd_bytes);
        auto done = engine_.zero((*vd)->uuid, 0, bytes).and_then([&] {
            return engine_.zero((*vd)->uuid, (*vd)->vd_bytes - bytes, bytes);
        });
        if (done) {
            events_.emit(EventKind::init_done,
                         fmt::format("The fast initialization of {} is done: its first and last "
                                     "{} read zeros.",
                                     title, format_size(bytes)));
        }
        return done;
    }
    auto next = configuration_;
    find_vd(next, id)->initialized = 0;
    if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(EventKind::init_started,
                 fmt::format("The full initialization of {} was started.", title));
    refresh();
    return {};
}

Result<void> Controller::stop_init(int id) {
    refresh();
    const auto vd = running_vd(id);
    if (!vd) {
        return tl::make_unexpected(vd.error());
    }
    if (!(*vd)->initialized) {
        return fail(Errc::wrong_state, "no initialization of {} is in progress", vd_title(**vd));
    }
    const auto title = vd_title(**vd);
    const auto uuid = (*vd)->uuid;
    auto next = configuration_;
    find_vd(next, id)->initialized.reset();
    auto done = commit(next).and_then([&] { return engine_.stop_task(uuid); });
    if (done) {
        events_.emit(
            EventKind::init_stopped,
            fmt::format("The initialization of {} was stopped by an administrator.", title));
        refresh();
    }
    return done;
}

Result<void> Controller::start_check(int id) {
    refresh();
    const auto vd = running_vd(id);
    if (!vd) {
        return tl::make_unexpected(vd.error());
    }
    if (!is_redundant((*vd)->level)) {
        return fail(Errc::unsupported, "{} is RAID0: there is nothing to compare", vd_title(**vd));
    }
    if (vd_state(**vd) != VdState::optimal) {
        return fail(Errc::wrong_state, "{} is {}; a check needs all members. Rebuild it first",
                    vd_title(**vd), to_string(vd_state(**vd)));
    }
    const auto task = runtime_of(**vd)->status->task;
    if (task != EngineTask::none) {
        return fail(Errc::wrong_state, "another operation runs on {}; wait for its end",
                    vd_title(**vd));
    }
    if ((*vd)->needs_resync) {
        return fail(Errc::wrong_state, "{} is to be resynced first; that is done by itself",
                    vd_title(**vd));
    }
    if (auto done = engine_.start_check((*vd)->uuid); !done) {
        return done;
    }
    runtimes_[(*vd)->uuid].check_seen = true;
    runtimes_[(*vd)->uuid].mismatches.reset();
    events_.emit(EventKind::check_started,
                 fmt::format("The consistency check of {} was started.", vd_title(**vd)));
    refresh();
    return {};
}

Result<void> Controller::stop_check(int id) {
    refresh();
    const auto vd = running_vd(id);
    if (!vd) {
        return tl::make_unexpected(vd.error());
    }
    auto& runtime = runtimes_[(*vd)->uuid];
    if (runtime.status->task != EngineTask::check) {
        return fail(Errc::wrong_state, "no consistency check of {} is in progress", vd_title(**vd));
    }
    if (auto done = engine_.stop_task((*vd)->uuid); !done) {
        return done;
    }
    runtime.check_seen = false;
    events_.emit(EventKind::check_stopped,
                 fmt::format("The consistency check of {} was stopped by an administrator.",
                             vd_title(**vd)));
    refresh();
    return {};
}

}  // namespace perch
