// SPDX-License-Identifier: GPL-2.0-or-later
// What an administrator asks for. Each request checks everything first, then follows the steps that
// the crash argument in controller.hpp lists.
#include <algorithm>
#include <set>

#include "operations/controller.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

constexpr int max_vds = 240;
/// What is zeroed of each member's data at create and delete: no old signature shows through.
constexpr std::uint64_t wiped_bytes = MiB;

std::string bay(const FoundDrive& drive) {
    return fmt::format("s{} (SN {})", drive.identity.slot, drive.identity.serial);
}

template <typename Used>
int first_free(int from, Used used) {
    while (used(from)) {
        ++from;
    }
    return from;
}

Result<void> check_name(const std::string& name) {
    if (!valid_vd_name(name)) {
        return fail(Errc::invalid_argument,
                    "'{}' is not a VD name: 1 to {} letters, digits, '.', '_' and '-', beginning "
                    "with a letter or digit",
                    name, max_vd_name);
    }
    return {};
}

}  // namespace

Result<void> Controller::check_healthy_configuration() const {
    if (refusal_) {
        return fail(Errc::wrong_state, "nothing can be changed: {}", *refusal_);
    }
    return {};
}

Result<const FoundDrive*> Controller::found_drive(const std::string& id) const {
    const FoundDrive* found = nullptr;
    for (const auto& drive : drives_) {
        if (drive.identity.id() == id) {
            if (found != nullptr) {
                return fail(Errc::wrong_state, "two drives claim slot {}; remove one", id);
            }
            found = &drive;
        }
    }
    if (found == nullptr) {
        return fail(Errc::not_found, "no drive in {}; 'perchcli /c0/eall/sall show' lists them",
                    id);
    }
    const auto twin = std::count_if(drives_.begin(), drives_.end(), [&](const auto& other) {
        return other.identity.identity == found->identity.identity;
    });
    if (twin > 1) {
        return fail(Errc::wrong_state, "{} has the same identity ({}) as another drive",
                    bay(*found), found->identity.identity);
    }
    if (!found->answered) {
        return fail(Errc::timeout, "{} does not answer", bay(*found));
    }
    return found;
}

Result<Controller::MemberPlace> Controller::member_place(const std::string& drive) const {
    // A missing member is named by the slot it was in.
    const auto shown = snapshot();
    const auto* row = find_drive(shown, drive);
    if (row == nullptr) {
        return fail(Errc::not_found, "no drive in {}; 'perchcli /c0/eall/sall show' lists them",
                    drive);
    }
    for (const auto& vd : configuration_.vds) {
        for (std::size_t i = 0; i < vd.members.size(); ++i) {
            if (vd.members[i].drive.str() == row->uuid && !vd.deleting) {
                return MemberPlace{vd.id, static_cast<int>(i)};
            }
        }
    }
    return fail(Errc::wrong_state, "s{} (SN {}) is not a member of a VD", row->slot, row->serial);
}

ConfigDrive Controller::config_drive(const FoundDrive& drive, const Uuid& uuid) const {
    return {uuid,
            drive.identity.serial,
            drive.identity.model,
            drive.identity.identity,
            drive.identity.enclosure,
            drive.identity.slot,
            drive.identity.size_bytes,
            "{}"};
}

Result<void> Controller::check_takeable(const FoundDrive& drive, bool force) const {
    if (!drive.users.empty()) {
        return fail(Errc::in_use, "{} is in use ({}); it is refused even with force", bay(drive),
                    drive.users.front());
    }
    if (drive.label) {
        if (drive.label->controller != configuration_.controller &&
            !configuration_.controller.is_nil() && !force) {
            return fail(Errc::data_found,
                        "{} belongs to another controller (a foreign configuration); force erases "
                        "what it holds",
                        bay(drive));
        }
        if (const auto* member = find_member(configuration_, drive.label->drive);
            member != nullptr) {
            return fail(Errc::wrong_state, "{} is already a member of a VD (state {})", bay(drive),
                        to_string(member->state));
        }
        if (!drive.content.empty() && !force) {
            return fail(Errc::data_found, "{} is {}; force erases it", bay(drive), drive.content);
        }
        return {};
    }
    if (drive.trouble && drive.trouble->code == Errc::incompatible) {
        return fail(Errc::incompatible, "{}: {}", bay(drive), drive.trouble->message);
    }
    if (!force && (drive.trouble || !drive.content.empty())) {
        return fail(Errc::data_found,
                    "{} is not blank: {}. Nothing was written. If what it holds is not needed, "
                    "repeat the command with force",
                    bay(drive), drive.trouble ? drive.trouble->message : drive.content);
    }
    return {};
}

/// The label of a drive that may be used: its own if it is already ours, a fresh one otherwise.
Result<Label> Controller::ready_label(const FoundDrive& drive, bool force) {
    if (drive.label && drive.label->controller == configuration_.controller &&
        drive.content.empty()) {
        return *drive.label;
    }
    if (auto ok = check_takeable(drive, force); !ok) {
        return tl::make_unexpected(ok.error());
    }
    return access_.take(drive.identity, configuration_.controller);
}

Result<ConfigVd> Controller::plan_create(const CreateRequest& request) const {
    ConfigVd vd;
    if (std::set(request.drives.begin(), request.drives.end()).size() != request.drives.size()) {
        return fail(Errc::invalid_argument, "a drive is named twice");
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
        const auto partition =
            (*drive)->label && (*drive)->label->controller == configuration_.controller
                ? Result<PartitionLayout>((*drive)->label->partition)
                : partition_layout((*drive)->identity.size_bytes);
        if (!partition) {
            return fail_with(bay(**drive), partition.error());
        }
        smallest = std::min(smallest, partition->length);
    }
    vd.block_bytes = first == nullptr ? 512 : first->identity.logical_block_bytes;
    const auto layout = raid5_layout(static_cast<int>(request.drives.size()), smallest,
                                     request.strip_bytes, vd.block_bytes);
    if (!layout) {
        return tl::make_unexpected(layout.error());
    }
    const auto used = [&](auto field) {
        return [this, field](int number) {
            return std::any_of(configuration_.vds.begin(), configuration_.vds.end(),
                               [&](const auto& other) { return other.*field == number; });
        };
    };
    vd.id = first_free(1, used(&ConfigVd::id));
    vd.group = first_free(0, used(&ConfigVd::group));
    if (configuration_.vds.size() >= max_vds) {
        return fail(Errc::limit, "a controller has at most {} VDs", max_vds);
    }
    vd.uuid = Uuid::random();
    vd.name = request.name.empty() ? fmt::format("v{}", vd.id) : request.name;
    if (auto ok = check_name(vd.name); !ok) {
        return tl::make_unexpected(ok.error());
    }
    for (const auto& other : configuration_.vds) {
        if (other.name == vd.name) {
            return fail(Errc::invalid_argument, "the name '{}' is taken by v{}", vd.name, other.id);
        }
    }
    vd.strip_bytes = request.strip_bytes;
    vd.vd_bytes = layout->vd_bytes;
    vd.created = clock_.wall_seconds();
    for (std::size_t i = 0; i < request.drives.size(); ++i) {
        ConfigMember member;
        member.instance = Uuid::random();
        member.metadata_offset = layout->metadata_offset;
        member.metadata_bytes = layout->metadata_bytes;
        member.data_offset = layout->data_offset;
        member.data_bytes = layout->data_bytes;
        vd.members.push_back(member);
    }
    return vd;
}

/// The VD that the request describes, if it exists already: a script that runs twice, or whose
/// answer was lost, must not fail (and surely not delete anything).
const ConfigVd* Controller::find_same(const CreateRequest& request) const {
    for (const auto& vd : configuration_.vds) {
        bool same = !request.name.empty() && vd.name == request.name && !vd.deleting &&
                    vd.strip_bytes == request.strip_bytes &&
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
    if (const auto* existing = find_same(request); existing != nullptr) {
        return existing->id;
    }
    auto plan = plan_create(request);
    if (!plan) {
        return tl::make_unexpected(plan.error());
    }
    auto vd = std::move(*plan);
    if (configuration_.controller.is_nil()) {
        configuration_.controller = Uuid::random();
    }
    std::vector<Label> labels;
    for (const auto& id : request.drives) {
        const auto drive = found_drive(id);
        const auto label = drive.and_then(
            [&](const FoundDrive* found) { return ready_label(*found, request.force); });
        if (!label) {
            return tl::make_unexpected(label.error());
        }
        labels.push_back(*label);
    }
    look();  // the labels just written
    auto next = configuration_;
    for (std::size_t row = 0; row < labels.size(); ++row) {
        vd.members[row].drive = labels[row].drive;
        const auto drive = found_drive(request.drives[row]);
        if (!drive || !(*drive)->label || (*drive)->label->drive != labels[row].drive) {
            return fail(Errc::io, "the drive in {} changed while it was prepared; try again",
                        request.drives[row]);
        }
        upsert_drive(next, config_drive(**drive, labels[row].drive));
    }
    if (auto zeroed = wipe(vd); !zeroed) {
        return tl::make_unexpected(zeroed.error());
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
    events_.emit(
        EventKind::vd_created,
        fmt::format("{} was created: RAID5 of {} drives, {}, strip {}.", vd_title(vd),
                    vd.members.size(), format_size(vd.vd_bytes), format_block(vd.strip_bytes)));
    refresh();
    return vd.id;
}

/// Zeroes the metadata and both ends of the data on the members that are there.
Result<void> Controller::wipe(const ConfigVd& vd) {
    std::vector<DriveRange> ranges;
    for (const auto& member : vd.members) {
        const auto* drive = find_by_uuid(drives_, member.drive);
        if (drive == nullptr) {
            continue;
        }
        const auto base = drive->label->partition.offset;
        ranges.push_back(
            {drive->identity, member.drive, base + member.metadata_offset, member.metadata_bytes});
        ranges.push_back({drive->identity, member.drive, base + member.data_offset, wiped_bytes});
        ranges.push_back({drive->identity, member.drive,
                          base + member.data_offset + member.data_bytes - wiped_bytes,
                          wiped_bytes});
    }
    return access_.zero(ranges);
}

Result<void> Controller::zero_metadata(const ConfigMember& member) {
    const auto* drive = find_by_uuid(drives_, member.drive);
    if (drive == nullptr) {
        return fail(Errc::not_found, "{} is not there", drive_title(member.drive));
    }
    return access_.zero(
        {{drive->identity, member.drive, drive->label->partition.offset + member.metadata_offset,
          member.metadata_bytes}});
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
    const auto shown = snapshot();
    if (const auto* row = find_vd(shown, id); row != nullptr && !row->users.empty()) {
        return fail(Errc::in_use,
                    "{} is in use ({}); it is refused even with force. Nothing changed",
                    vd_title(*vd), fmt::join(row->users, ", "));
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

/// Writes a member's new state, makes the engine follow, and takes it back when that fails.
Result<void> Controller::change_member(const MemberPlace& place, MemberState state,
                                       bool fresh_instance) {
    const auto before = *find_vd(configuration_, place.vd_id);
    const auto row = static_cast<std::size_t>(place.row);
    auto next = configuration_;
    auto& member = find_vd(next, place.vd_id)->members[row];
    member.state = state;
    if (fresh_instance) {
        member.instance = Uuid::random();
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    auto& runtime = runtimes_[before.uuid];
    auto records = read_records(*find_vd(configuration_, place.vd_id));
    if (records) {
        runtime.records = *records;
    }
    const auto done = records ? apply(place.vd_id) : tl::make_unexpected(records.error());
    if (!done) {
        auto undo = configuration_;
        *find_vd(undo, place.vd_id) = before;
        const auto undone = commit(undo);
        return fail(done.error().code, "{}{}", done.error().message,
                    undone ? ". Nothing changed" : ". It could not be undone either");
    }
    return {};
}

Result<void> Controller::set_offline(const std::string& drive) {
    refresh();
    const auto place = check_healthy_configuration().and_then([&] { return member_place(drive); });
    if (!place) {
        return tl::make_unexpected(place.error());
    }
    const auto vd = *find_vd(configuration_, place->vd_id);
    const auto& member = vd.members[static_cast<std::size_t>(place->row)];
    if (member.state == MemberState::candidate) {
        return stop_rebuild(drive);
    }
    if (member.state != MemberState::online) {
        return fail(Errc::wrong_state, "{} is {} already", drive_title(member.drive),
                    to_string(member.state));
    }
    if (survives(vd) < 1) {
        return fail(Errc::redundancy,
                    "{} survives 0 more drive failures now; taking {} offline would lose data. "
                    "Wait for its rebuild or resync, or rebuild it first",
                    vd_title(vd), drive_title(member.drive));
    }
    if (auto done = change_member(*place, MemberState::offline, false); !done) {
        return done;
    }
    events_.emit(EventKind::drive_offline,
                 fmt::format("{} was set offline by an administrator. {} survives 0 more drive "
                             "failures.",
                             drive_title(member.drive), vd_title(vd)));
    refresh();
    return {};
}

Result<void> Controller::set_online(const std::string& drive) {
    return start_rebuild(drive);
}

Result<void> Controller::begin_rebuild(const MemberPlace& place) {
    const auto vd = *find_vd(configuration_, place.vd_id);
    const auto& member = vd.members[static_cast<std::size_t>(place.row)];
    if (vd_state(vd) != VdState::degraded) {
        return fail(Errc::wrong_state, "{} is {}; a rebuild needs a running, degraded VD",
                    vd_title(vd), to_string(vd_state(vd)));
    }
    if (auto zeroed = zero_metadata(member); !zeroed) {
        return zeroed;
    }
    if (auto done = change_member(place, MemberState::candidate, true); !done) {
        return done;
    }
    events_.emit(EventKind::rebuild_started, fmt::format("The rebuild of {} onto {} was started.",
                                                         vd_title(vd), drive_title(member.drive)));
    refresh();
    return {};
}

Result<void> Controller::start_rebuild(const std::string& drive) {
    refresh();
    const auto place = check_healthy_configuration().and_then([&] { return member_place(drive); });
    if (!place) {
        return tl::make_unexpected(place.error());
    }
    const auto& vd = *find_vd(configuration_, place->vd_id);
    const auto& member = vd.members[static_cast<std::size_t>(place->row)];
    if (takes_part(member.state)) {
        return fail(Errc::wrong_state, "{} is {}; there is nothing to rebuild",
                    drive_title(member.drive),
                    member.state == MemberState::online ? "online" : "being rebuilt already");
    }
    if (find_by_uuid(drives_, member.drive) == nullptr) {
        return fail(Errc::wrong_state,
                    "{} is missing. Put it back, or put another drive in its place: 'perchcli "
                    "/c0/e0/s<slot> insert dg={} array=0 row={}'",
                    drive_title(member.drive), vd.group, place->row);
    }
    return begin_rebuild(*place);
}

Result<void> Controller::stop_rebuild(const std::string& drive) {
    refresh();
    const auto place = check_healthy_configuration().and_then([&] { return member_place(drive); });
    if (!place) {
        return tl::make_unexpected(place.error());
    }
    const auto vd = *find_vd(configuration_, place->vd_id);
    const auto& member = vd.members[static_cast<std::size_t>(place->row)];
    if (member.state != MemberState::candidate) {
        return fail(Errc::wrong_state, "no rebuild is in progress on {}",
                    drive_title(member.drive));
    }
    if (auto done = change_member(*place, MemberState::offline, false); !done) {
        return done;
    }
    events_.emit(EventKind::rebuild_stopped,
                 fmt::format("The rebuild of {} onto {} was stopped by an administrator.",
                             vd_title(vd), drive_title(member.drive)));
    refresh();
    return {};
}

Result<void> Controller::insert_member(const InsertRequest& request) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    const auto vd = std::find_if(configuration_.vds.begin(), configuration_.vds.end(),
                                 [&](const auto& row) { return row.group == request.group; });
    if (vd == configuration_.vds.end() || request.array != 0 || request.row < 0 ||
        request.row >= static_cast<int>(vd->members.size())) {
        return fail(Errc::not_found, "no row {} in array {} of drive group {}", request.row,
                    request.array, request.group);
    }
    const MemberPlace place{vd->id, request.row};
    const auto old = vd->members[static_cast<std::size_t>(request.row)];
    if (takes_part(old.state)) {
        return fail(Errc::wrong_state, "row {} of {} is held by {}, which is {}", request.row,
                    vd_title(*vd), drive_title(old.drive), to_string(old.state));
    }
    if (vd_state(*vd) != VdState::degraded) {
        return fail(Errc::wrong_state,
                    "{} is {}; a member can be inserted into a running, "
                    "degraded VD only",
                    vd_title(*vd), to_string(vd_state(*vd)));
    }
    const auto drive = found_drive(request.drive);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    if (auto ok = check_takeable(**drive, request.force); !ok) {
        return ok;
    }
    if ((*drive)->identity.logical_block_bytes != vd->block_bytes) {
        return fail(Errc::sector_size,
                    "{} has sectors of {} bytes, {} needs {}; nothing was written", bay(**drive),
                    (*drive)->identity.logical_block_bytes, vd_title(*vd), vd->block_bytes);
    }
    const auto partition = (*drive)->label ? Result<PartitionLayout>((*drive)->label->partition)
                                           : partition_layout((*drive)->identity.size_bytes);
    const auto needed = old.data_offset + old.data_bytes + PERCH_EDGE_BYTES;
    if (!partition || partition->length < needed) {
        return fail(Errc::too_small, "{} offers {} for Perch, {} needs {}; nothing was written",
                    bay(**drive), format_size(partition ? partition->length : 0), vd_title(*vd),
                    format_size(needed));
    }
    const auto label = ready_label(**drive, request.force);
    if (!label) {
        return tl::make_unexpected(label.error());
    }
    look();
    const auto fresh = found_drive(request.drive);
    if (!fresh || !(*fresh)->label || (*fresh)->label->drive != label->drive) {
        return fail(Errc::io, "the drive in {} changed while it was prepared; try again",
                    request.drive);
    }
    // First the place, still offline; then begin_rebuild() makes it a candidate, as for any member.
    auto next = configuration_;
    upsert_drive(next, config_drive(**fresh, label->drive));
    auto& member = find_vd(next, place.vd_id)->members[static_cast<std::size_t>(request.row)];
    member.drive = label->drive;
    member.instance = Uuid::random();
    member.state = MemberState::offline;
    if (auto done = commit(next); !done) {
        return done;
    }
    return begin_rebuild(place);
}

}  // namespace perch
