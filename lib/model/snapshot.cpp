// SPDX-License-Identifier: GPL-2.0-or-later
#include "model/snapshot.hpp"

#include <algorithm>

#include "util/json_optional.hpp"

namespace perch {

NLOHMANN_JSON_SERIALIZE_ENUM(DriveState, {{DriveState::unusable, "Unusable"},
                                          {DriveState::unconfigured, "Unconfigured"},
                                          {DriveState::configured, "Configured"},
                                          {DriveState::jbod, "JBOD"},
                                          {DriveState::foreign, "Foreign"},
                                          {DriveState::global_spare, "GlobalSpare"},
                                          {DriveState::dedicated_spare, "DedicatedSpare"}})
NLOHMANN_JSON_SERIALIZE_ENUM(DriveStatus, {{DriveStatus::failed, "Failed"},
                                           {DriveStatus::good, "Good"},
                                           {DriveStatus::online, "Online"},
                                           {DriveStatus::offline, "Offline"},
                                           {DriveStatus::missing, "Missing"},
                                           {DriveStatus::rebuild, "Rebuild"}})
NLOHMANN_JSON_SERIALIZE_ENUM(VdState, {{VdState::offline, "Offline"},
                                       {VdState::degraded, "Degraded"},
                                       {VdState::partially_degraded, "PartiallyDegraded"},
                                       {VdState::optimal, "Optimal"}})
NLOHMANN_JSON_SERIALIZE_ENUM(OperationKind, {{OperationKind::rebuild, "Rebuild"},
                                             {OperationKind::resync, "Resync"},
                                             {OperationKind::check, "Check"},
                                             {OperationKind::init, "Init"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Severity, {{Severity::info, "Info"},
                                        {Severity::warning, "Warning"},
                                        {Severity::critical, "Critical"},
                                        {Severity::fatal, "Fatal"}})

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Operation, kind, percent, seconds_left,
                                                speed_bytes_per_second)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DriveHealth, temperature_celsius, percentage_used,
                                                available_spare, critical_warning, media_errors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Drive, id, enclosure, slot, pid, device, serial,
                                                model, firmware, identity, uuid, size_bytes,
                                                usable_bytes, logical_block_bytes,
                                                physical_block_bytes, state, status, group, row,
                                                spare_for, content, safe_to_pull, pull_reason,
                                                link_speed, link_width, health, operation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Member, row, span, drive, status)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(VirtualDrive, id, group, uuid, name, level,
                                                per_span, state, state_reason, size_bytes,
                                                strip_bytes, block_bytes, engine, consistent,
                                                redundant, mismatches, survives, device,
                                                kernel_device, created, users, members, operation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DriveGroup, id, level, per_span, state, size_bytes,
                                                members, vds, free_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ForeignVd, uuid, name, import_name, size_bytes,
                                                state, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ForeignGroup, id, source, history, original_group,
                                                level, complete, note, vds, drives, missing)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Problem, severity, what, doing, action)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Event, sequence, time, code, severity, message_id,
                                                text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TaskInfo, id, name, state, message, error, target)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Snapshot, generation, version, host,
                                                operating_system, controller_uuid, time, daemon,
                                                drives, groups, vds, foreign, coercion, problems,
                                                tasks)

namespace {

template <typename T>
std::string enum_name(T value) {
    return nlohmann::json(value).get<std::string>();
}

template <typename T>
Result<T> read(const nlohmann::json& json, std::string_view what) {
    try {
        return json.get<T>();
    } catch (const nlohmann::json::exception& error) {
        return fail(Errc::corrupt, "unreadable {}: {}", what, error.what());
    }
}

}  // namespace

std::string to_string(DriveState state) {
    return enum_name(state);
}
std::string to_string(DriveStatus status) {
    return enum_name(status);
}
std::string to_string(VdState state) {
    return enum_name(state);
}
std::string to_string(OperationKind kind) {
    return enum_name(kind);
}
std::string to_string(Severity severity) {
    return enum_name(severity);
}

std::string controller_status(const Snapshot& snapshot) {
    const auto any_vd = [&](VdState state) {
        return std::any_of(snapshot.vds.begin(), snapshot.vds.end(),
                           [&](const auto& vd) { return vd.state == state; });
    };
    if (any_vd(VdState::offline)) {
        return "Failed";
    }
    if (any_vd(VdState::degraded) || any_vd(VdState::partially_degraded)) {
        return "Degraded";
    }
    return snapshot.problems.empty() ? "Optimal" : "Needs Attention";
}

const Drive* find_drive(const Snapshot& snapshot, const std::string& id) {
    const auto found = std::find_if(snapshot.drives.begin(), snapshot.drives.end(),
                                    [&](const auto& drive) { return drive.id == id; });
    return found == snapshot.drives.end() ? nullptr : &*found;
}

const Drive* find_slot(const Snapshot& snapshot, int enclosure, int slot) {
    return find_drive(snapshot, fmt::format("e{}s{}", enclosure, slot));
}

const VirtualDrive* find_vd(const Snapshot& snapshot, int id) {
    const auto found = std::find_if(snapshot.vds.begin(), snapshot.vds.end(),
                                    [&](const auto& vd) { return vd.id == id; });
    return found == snapshot.vds.end() ? nullptr : &*found;
}

nlohmann::json snapshot_to_json(const Snapshot& snapshot) {
    return snapshot;
}
Result<Snapshot> snapshot_from_json(const nlohmann::json& json) {
    return read<Snapshot>(json, "snapshot");
}
nlohmann::json event_to_json(const Event& event) {
    return event;
}
Result<Event> event_from_json(const nlohmann::json& json) {
    return read<Event>(json, "event");
}

}  // namespace perch
