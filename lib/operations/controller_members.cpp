// SPDX-License-Identifier: GPL-2.0-or-later
// What an administrator asks for drives: as members of VDs, as spares, as drives of nobody. Each
// request checks everything first, then follows the steps that the crash argument in controller.hpp
// lists. A drive is a member of all VDs of its drive group, so what is asked for it is done for all
// of them, in one configuration.
#include <algorithm>

#include "operations/controller.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

ConfigMember& member_at(Configuration& configuration, int vd_id, int row) {
    return find_vd(configuration, vd_id)->members[static_cast<std::size_t>(row)];
}

}  // namespace

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

/// The places of a drive, in every VD of its drive group.
Result<std::vector<Controller::MemberPlace>> Controller::member_places(
    const std::string& drive) const {
    // A missing member is named by the slot it was in.
    const auto shown = snapshot();
    const auto* row = find_drive(shown, drive);
    if (row == nullptr) {
        return fail(Errc::not_found, "no drive in {}; 'perchcli /c0/eall/sall show' lists them",
                    drive);
    }
    std::vector<MemberPlace> places;
    for (const auto& vd : configuration_.vds) {
        for (std::size_t i = 0; i < vd.members.size(); ++i) {
            if (!vd.members[i].drive.is_nil() && vd.members[i].drive.str() == row->uuid &&
                !vd.deleting) {
                places.push_back({vd.id, static_cast<int>(i)});
            }
        }
    }
    if (places.empty()) {
        return fail(Errc::wrong_state, "s{} (SN {}) is not a member of a VD", row->slot,
                    row->serial);
    }
    return places;
}

Result<const FoundDrive*> Controller::ready_drive(const std::string& id) {
    refresh();
    return check_healthy_configuration().and_then([&] { return found_drive(id); });
}

Result<std::vector<Controller::MemberPlace>> Controller::ready_places(const std::string& drive) {
    refresh();
    return check_healthy_configuration().and_then([&] { return member_places(drive); });
}

ConfigDrive Controller::config_drive(const FoundDrive& drive, const Label& label) const {
    ConfigDrive row;
    if (const auto* known = find_drive(configuration_, label.drive); known != nullptr) {
        row = *known;
    }
    row.uuid = label.drive;
    row.serial = drive.identity.serial;
    row.model = drive.identity.model;
    row.identity = drive.identity.identity;
    row.enclosure = drive.identity.enclosure;
    row.slot = drive.identity.slot;
    row.device_bytes = drive.identity.size_bytes;
    row.partition_bytes = label.partition.length;
    row.block_bytes = drive.identity.logical_block_bytes;
    return row;
}

/// Whether a drive may become a member or a spare.
Result<void> Controller::check_takeable(const FoundDrive& drive, bool force) const {
    if (!drive.users.empty()) {
        return fail(Errc::in_use, "{} is in use ({}); it is refused even with force", bay(drive),
                    drive.users.front());
    }
    const auto& jbods = configuration_.jbods;
    if (std::find(jbods.begin(), jbods.end(), drive.identity.identity) != jbods.end()) {
        return fail(Errc::wrong_state,
                    "{} was set aside as a JBOD; 'perchcli /c0/e{}/s{} set uconf' makes it usable",
                    bay(drive), drive.identity.enclosure, drive.identity.slot);
    }
    if (drive.label) {
        const auto* known = find_drive(configuration_, drive.label->drive);
        if (known == nullptr && drive.label->controller != configuration_.controller &&
            !configuration_.controller.is_nil() && !force) {
            return fail(Errc::data_found,
                        "{} belongs to another controller (a foreign configuration); force erases "
                        "what it holds",
                        bay(drive));
        }
        if (const auto group = group_of_drive(configuration_, drive.label->drive)) {
            return fail(Errc::wrong_state, "{} is already a member of drive group {}", bay(drive),
                        *group);
        }
        if (known != nullptr && known->role != DriveRole::none) {
            return fail(Errc::wrong_state,
                        "{} is a hot spare; 'perchcli /c0/e{}/s{} delete hotsparedrive' frees it",
                        bay(drive), drive.identity.enclosure, drive.identity.slot);
        }
        if (known != nullptr && known->failed) {
            return fail(Errc::wrong_state,
                        "{} has failed before and is not used again until that is cleared: "
                        "'perchcli /c0/e{}/s{} set uconf'",
                        bay(drive), drive.identity.enclosure, drive.identity.slot);
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

Result<ConfigDrive> Controller::take_drive(const std::string& id, bool force) {
    const auto drive = found_drive(id);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    if (is_ours(**drive, configuration_) &&
        (*drive)->label->controller == configuration_.controller) {
        return config_drive(**drive, *(*drive)->label);
    }
    if (auto ok = check_takeable(**drive, force); !ok) {
        return tl::make_unexpected(ok.error());
    }
    const auto label = access_.take((*drive)->identity, configuration_.controller,
                                    configuration_.settings.coercion);
    if (!label) {
        return tl::make_unexpected(label.error());
    }
    look();  // the label just written
    const auto fresh = found_drive(id);
    if (!fresh || !(*fresh)->label || (*fresh)->label->drive != label->drive) {
        return fail(Errc::io, "the drive in {} changed while it was prepared; try again", id);
    }
    return config_drive(**fresh, *label);
}

/// Writes the members' new state, makes the engine follow, and takes it back when that fails. A
/// candidate gets a fresh instance, which its superblock names before the configuration does.
Result<void> Controller::change_members(const std::vector<MemberPlace>& places, MemberState state) {
    const auto before = configuration_;
    auto next = configuration_;
    for (const auto& place : places) {
        auto& member = member_at(next, place.vd_id, place.row);
        member.state = state;
        if (state == MemberState::candidate) {
            // Whoever asks for this trusts the drive once more.
            for (auto& drive : next.drives) {
                drive.failed = drive.failed && drive.uuid != member.drive;
            }
            member.instance = Uuid::random();
            auto written = write_superblocks(*find_vd(next, place.vd_id),
                                             {static_cast<std::size_t>(place.row)}, false);
            if (!written) {
                return written;
            }
        }
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    for (const auto& place : places) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        auto records = read_records(vd);
        if (records) {
            runtimes_[vd.uuid].records = *records;
        }
        const auto done = records ? apply(place.vd_id) : tl::make_unexpected(records.error());
        if (!done) {
            auto undo = configuration_;
            for (const auto& other : places) {
                *find_vd(undo, other.vd_id) = *find_vd(before, other.vd_id);
            }
            const auto undone = commit(undo);
            return fail(done.error().code, "{}{}", done.error().message,
                        undone ? ". Nothing changed" : ". It could not be undone either");
        }
    }
    return {};
}

Result<void> Controller::set_offline(const std::string& drive) {
    const auto places = ready_places(drive);
    if (!places) {
        return tl::make_unexpected(places.error());
    }
    const auto& first = *find_vd(configuration_, places->front().vd_id);
    const auto uuid = first.members[static_cast<std::size_t>(places->front().row)].drive;
    std::vector<MemberPlace> changing;
    for (const auto& place : *places) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        const auto row = static_cast<std::size_t>(place.row);
        if (!takes_part(vd.members[row].state)) {
            continue;
        }
        changing.push_back(place);
        if (vd.members[row].state == MemberState::candidate) {
            continue;
        }
        if (vd_state(vd) == VdState::offline || (has_parity(vd.level) && out_of_sync(vd)) ||
            !survives_loss_of(shape_of(vd), lost_rows(vd), row)) {
            return fail(Errc::redundancy,
                        "{} survives {} more drive failures now; taking {} offline would lose "
                        "data. Wait for its rebuild or resync, or rebuild it first",
                        vd_title(vd), survives(vd), drive_title(uuid));
        }
    }
    if (changing.empty()) {
        return fail(Errc::wrong_state, "{} is {} already", drive_title(uuid),
                    to_string(first.members[static_cast<std::size_t>(places->front().row)].state));
    }
    if (auto done = change_members(changing, MemberState::offline); !done) {
        return done;
    }
    for (const auto& place : changing) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        events_.emit(
            EventKind::drive_offline,
            fmt::format("{} was set offline by an administrator. {} survives {} more drive "
                        "failures.",
                        drive_title(uuid), vd_title(vd), survives(vd)));
    }
    refresh();
    return {};
}

Result<void> Controller::set_online(const std::string& drive) {
    return start_rebuild(drive);
}

Result<void> Controller::begin_rebuild(const std::vector<MemberPlace>& places) {
    for (const auto& place : places) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        const auto state = vd_state(vd);
        if (state != VdState::degraded && state != VdState::partially_degraded) {
            return fail(Errc::wrong_state, "{} is {}; a rebuild needs a running, degraded VD",
                        vd_title(vd), to_string(state));
        }
    }
    for (const auto& place : places) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        const auto types = vd.engine == EngineKind::perch
                               ? std::vector{ExtentType::dirty_map, ExtentType::bad_ranges}
                               : std::vector{ExtentType::dm_raid};
        if (auto zeroed = zero_extents(vd.members[static_cast<std::size_t>(place.row)], types);
            !zeroed) {
            return zeroed;
        }
    }
    if (auto done = change_members(places, MemberState::candidate); !done) {
        return done;
    }
    for (const auto& place : places) {
        const auto& vd = *find_vd(configuration_, place.vd_id);
        events_.emit(
            EventKind::rebuild_started,
            fmt::format("The rebuild of {} onto {} was started.", vd_title(vd),
                        drive_title(vd.members[static_cast<std::size_t>(place.row)].drive)));
    }
    refresh();
    return {};
}

Result<void> Controller::start_rebuild(const std::string& drive) {
    const auto places = ready_places(drive);
    if (!places) {
        return tl::make_unexpected(places.error());
    }
    const auto& first = *find_vd(configuration_, places->front().vd_id);
    const auto& member = first.members[static_cast<std::size_t>(places->front().row)];
    std::vector<MemberPlace> out;
    for (const auto& place : *places) {
        if (!takes_part(member_at(configuration_, place.vd_id, place.row).state)) {
            out.push_back(place);
        }
    }
    if (out.empty()) {
        return fail(Errc::wrong_state, "{} is {}; there is nothing to rebuild",
                    drive_title(member.drive),
                    member.state == MemberState::online ? "online" : "being rebuilt already");
    }
    if (find_by_uuid(drives_, member.drive) == nullptr) {
        return fail(Errc::wrong_state,
                    "{} is missing. Put it back, or put another drive in its place: 'perchcli "
                    "/c0/e0/s<slot> insert dg={} array={} row={}'",
                    drive_title(member.drive), first.group, places->front().row / first.per_span,
                    places->front().row % first.per_span);
    }
    return begin_rebuild(out);
}

Result<void> Controller::stop_rebuild(const std::string& drive) {
    const auto places = ready_places(drive);
    if (!places) {
        return tl::make_unexpected(places.error());
    }
    std::vector<MemberPlace> rebuilding;
    for (const auto& place : *places) {
        if (member_at(configuration_, place.vd_id, place.row).state == MemberState::candidate) {
            rebuilding.push_back(place);
        }
    }
    const auto uuid = member_at(configuration_, places->front().vd_id, places->front().row).drive;
    if (rebuilding.empty()) {
        return fail(Errc::wrong_state, "no rebuild is in progress on {}", drive_title(uuid));
    }
    if (auto done = change_members(rebuilding, MemberState::offline); !done) {
        return done;
    }
    for (const auto& place : rebuilding) {
        events_.emit(
            EventKind::rebuild_stopped,
            fmt::format("The rebuild of {} onto {} was stopped by an administrator.",
                        vd_title(*find_vd(configuration_, place.vd_id)), drive_title(uuid)));
    }
    refresh();
    return {};
}

Result<void> Controller::insert_member(const InsertRequest& request) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    const auto vds = vds_of_group(configuration_, request.group);
    const auto* first = vds.empty() ? nullptr : vds.front();
    if (first == nullptr || request.array < 0 || request.row < 0 ||
        request.row >= first->per_span || request.array >= shape_of(*first).spans()) {
        return fail(Errc::not_found, "no row {} in array {} of drive group {}", request.row,
                    request.array, request.group);
    }
    const int row = request.array * first->per_span + request.row;
    const auto old = first->members[static_cast<std::size_t>(row)];
    std::vector<MemberPlace> places;
    for (const auto* vd : vds) {
        const auto& member = vd->members[static_cast<std::size_t>(row)];
        if (takes_part(member.state)) {
            return fail(Errc::wrong_state, "row {} of {} is held by {}, which is {}", request.row,
                        vd_title(*vd), drive_title(member.drive), to_string(member.state));
        }
        if (const auto state = vd_state(*vd);
            state != VdState::degraded && state != VdState::partially_degraded) {
            return fail(Errc::wrong_state,
                        "{} is {}; a member can be inserted into a running, degraded VD only",
                        vd_title(*vd), to_string(state));
        }
        places.push_back({vd->id, row});
    }
    const auto drive = found_drive(request.drive);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    if (auto ok = check_takeable(**drive, request.force); !ok) {
        return ok;
    }
    if (auto ok = check_spare(**drive, {request.group}); !ok) {
        return ok;
    }
    const auto taken = take_drive(request.drive, request.force);
    if (!taken) {
        return tl::make_unexpected(taken.error());
    }
    // First the place, still offline; then begin_rebuild() makes it a candidate, as for any member.
    auto next = configuration_;
    upsert_drive(next, *taken);
    for (const auto& place : places) {
        auto& member = member_at(next, place.vd_id, place.row);
        member.drive = taken->uuid;
        member.instance = Uuid::random();
        member.state = MemberState::offline;
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    return begin_rebuild(places);
}

Result<void> Controller::set_missing(const std::string& drive) {
    const auto places = ready_places(drive);
    if (!places) {
        return tl::make_unexpected(places.error());
    }
    auto next = configuration_;
    Uuid uuid;
    for (const auto& place : *places) {
        auto& member = member_at(next, place.vd_id, place.row);
        uuid = member.drive;
        if (takes_part(member.state)) {
            return fail(Errc::wrong_state, "{} is {}; set it offline first", drive_title(uuid),
                        member.state == MemberState::online ? "online" : "being rebuilt");
        }
        member.drive = Uuid{};
        member.state = MemberState::missing;
        member.instance = Uuid::random();
    }
    const auto title = drive_title(uuid);
    if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(EventKind::drive_offline,
                 fmt::format("{} was taken out of its drive group by an administrator.", title));
    refresh();
    return {};
}

Result<void> Controller::set_unconfigured(const std::string& id, bool force) {
    const auto drive = ready_drive(id);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    const auto title = bay(**drive);
    const auto identity = (*drive)->identity.identity;
    if (!(*drive)->users.empty()) {
        return fail(Errc::in_use, "{} is in use ({}); it is refused even with force", title,
                    (*drive)->users.front());
    }
    auto next = configuration_;
    std::erase(next.jbods, identity);
    if ((*drive)->label) {
        if (const auto group = group_of_drive(configuration_, (*drive)->label->drive)) {
            return fail(Errc::wrong_state,
                        "{} is a member of drive group {}; set it offline and missing first", title,
                        *group);
        }
        for (auto& known : next.drives) {
            if (known.uuid == (*drive)->label->drive) {
                known.failed = false;
            }
        }
    }
    const bool foreign = (*drive)->label && !is_ours(**drive, configuration_);
    if ((foreign || !(*drive)->content.empty() || (*drive)->trouble) && !force) {
        return fail(Errc::data_found, "{} is not blank: {}. Nothing was written; force erases it",
                    title,
                    !(*drive)->content.empty() ? (*drive)->content
                    : (*drive)->trouble        ? (*drive)->trouble->message
                                               : "a configuration of another controller");
    }
    const bool changed = !(next == configuration_);
    if (changed && !configuration_.id.is_nil()) {
        if (auto done = commit(next); !done) {
            return done;
        }
    } else {
        configuration_.jbods = next.jbods;
    }
    const bool erase = foreign || !(*drive)->content.empty() || (*drive)->trouble;
    if (erase) {
        if (configuration_.controller.is_nil()) {
            // Nobody to belong to yet: it only has to be blank.
            if (auto done = access_.release((*drive)->identity); !done) {
                return done;
            }
        } else if (auto taken = access_.take((*drive)->identity, configuration_.controller,
                                             configuration_.settings.coercion);
                   !taken) {
            return tl::make_unexpected(taken.error());
        }
    }
    if (changed || erase) {
        events_.emit(EventKind::drive_cleared,
                     fmt::format("{} was made usable by an administrator{}.", title,
                                 erase ? "; what it held is erased" : ""));
    }
    refresh();
    return {};
}

Result<void> Controller::set_jbod(const std::string& id, bool force) {
    const auto drive = ready_drive(id);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    const auto identity = (*drive)->identity;
    const auto title = bay(**drive);
    if (std::find(configuration_.jbods.begin(), configuration_.jbods.end(), identity.identity) !=
            configuration_.jbods.end() ||
        (!(*drive)->label && !(*drive)->content.empty())) {
        return {};  // it is one
    }
    if (auto ok = check_takeable(**drive, force); !ok) {
        return ok;
    }
    if (configuration_.id.is_nil()) {
        return fail(Errc::wrong_state,
                    "{} is blank, and no drive carries a configuration that could say that it is "
                    "not to be used. Put something on it (a partition table is enough), and it is "
                    "a JBOD by itself",
                    title);
    }
    auto next = configuration_;
    next.jbods.push_back(identity.identity);
    if ((*drive)->label) {
        std::erase_if(next.drives,
                      [&](const auto& known) { return known.uuid == (*drive)->label->drive; });
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    if ((*drive)->label) {
        if (auto done = access_.release(identity); !done) {
            return done;
        }
    }
    events_.emit(
        EventKind::drive_jbod,
        fmt::format("{} was made a JBOD by an administrator; Perch does not use it.", title));
    refresh();
    return {};
}

/// Whether a drive could stand in for a member of those groups; none: of any.
Result<void> Controller::check_spare(const FoundDrive& drive,
                                     const std::vector<int>& groups) const {
    const auto partition = partition_of(drive);
    if (!partition) {
        return fail(partition.error().code, "{}; nothing was written", partition.error().message);
    }
    std::string misfit;
    bool any = configuration_.vds.empty();
    for (const auto& vd : configuration_.vds) {
        const bool named =
            groups.empty() || std::find(groups.begin(), groups.end(), vd.group) != groups.end();
        if (!named || vd.deleting) {
            continue;
        }
        std::uint64_t needed = PERCH_EDGE_BYTES;
        for (const auto& extent : vd.members.front().extents) {
            needed = std::max<std::uint64_t>(needed, extent.end() + PERCH_EDGE_BYTES);
        }
        if (drive.identity.logical_block_bytes != vd.block_bytes) {
            misfit = fmt::format("{} has sectors of {} bytes, {} needs {}; nothing was written",
                                 bay(drive), drive.identity.logical_block_bytes, vd_title(vd),
                                 vd.block_bytes);
            if (!groups.empty()) {
                return fail(Errc::sector_size, "{}", misfit);
            }
        } else if (partition->length < needed) {
            misfit =
                fmt::format("{} offers {} for Perch, {} needs {}; nothing was written", bay(drive),
                            format_size(partition->length), vd_title(vd), format_size(needed));
            if (!groups.empty()) {
                return fail(Errc::too_small, "{}", misfit);
            }
        } else {
            any = true;
        }
    }
    return any ? Result<void>() : fail(Errc::too_small, "{}", misfit);
}

Result<void> Controller::add_spare(const std::string& id, const std::vector<int>& groups) {
    const auto drive = ready_drive(id);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    if (configuration_.vds.empty()) {
        return fail(Errc::wrong_state, "there is no VD that a spare could stand in for");
    }
    for (const int group : groups) {
        const auto vds = vds_of_group(configuration_, group);
        if (vds.empty()) {
            return fail(Errc::not_found, "no drive group {}", group);
        }
        if (!is_redundant(vds.front()->level)) {
            return fail(Errc::unsupported, "drive group {} is RAID0: a spare cannot help it",
                        group);
        }
    }
    if (auto ok = check_takeable(**drive, false); !ok) {
        return ok;
    }
    if (auto ok = check_spare(**drive, groups); !ok) {
        return ok;
    }
    auto taken = take_drive(id, false);
    if (!taken) {
        return tl::make_unexpected(taken.error());
    }
    taken->role = groups.empty() ? DriveRole::global_spare : DriveRole::dedicated_spare;
    taken->spare_for = groups;
    auto next = configuration_;
    upsert_drive(next, *taken);
    if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(
        EventKind::spare_added,
        fmt::format("{} is a hot spare now, {}.", drive_title(taken->uuid),
                    groups.empty() ? std::string("for all drive groups")
                                   : fmt::format("for drive group {}", fmt::join(groups, ", "))));
    refresh();
    return {};
}

Result<void> Controller::delete_spare(const std::string& id) {
    const auto drive = ready_drive(id);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    auto next = configuration_;
    bool any = false;
    for (auto& known : next.drives) {
        if ((*drive)->label && known.uuid == (*drive)->label->drive &&
            known.role != DriveRole::none) {
            known.role = DriveRole::none;
            known.spare_for.clear();
            any = true;
        }
    }
    if (!any) {
        return fail(Errc::wrong_state, "{} is not a hot spare", bay(**drive));
    }
    if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(EventKind::spare_removed,
                 fmt::format("{} is no hot spare any more.", bay(**drive)));
    refresh();
    return {};
}

Result<void> Controller::set_coercion(Coercion coercion) {
    refresh();
    if (auto ok = check_healthy_configuration(); !ok) {
        return ok;
    }
    auto next = configuration_;
    next.settings.coercion = coercion;
    if (configuration_.id.is_nil()) {
        configuration_ = std::move(next);  // kept until the first VD writes it down
    } else if (auto done = commit(next); !done) {
        return done;
    }
    events_.emit(EventKind::setting_changed,
                 fmt::format("Coercion of drives taken from now on: {}.", to_string(coercion)));
    return {};
}

}  // namespace perch
