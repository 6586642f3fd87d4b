// SPDX-License-Identifier: GPL-2.0-or-later
// The model that everything shows: one immutable picture of the controller, made by perchd (or by
// perchcli itself when perchd is away) and read by perchcli, Redfish and later the web page.
//
// Invariants: rows refer to each other by id (drive id, VD id), never by position. A member that is
// missing still has a row: what is not there is what an administrator must see.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "util/error.hpp"

namespace perch {

/// What a drive is for (the v8 "State" column).
enum class DriveState {
    unconfigured,
    configured,
    jbod,
    foreign,
    unusable,
    global_spare,
    dedicated_spare
};
/// How a drive does (the v8 "Status" column).
enum class DriveStatus { good, online, offline, failed, missing, rebuild };
/// A virtual drive's state, worst last.
/// partially_degraded: a member is lost, but any other one may still be lost as well.
enum class VdState { optimal, partially_degraded, degraded, offline };
/// A long operation on a VD or a drive.
enum class OperationKind { resync, rebuild, check, init };
enum class Severity { info, warning, critical, fatal };

struct Operation {
    OperationKind kind = OperationKind::rebuild;
    double percent = 0;                         ///< 0..100
    std::optional<std::uint64_t> seconds_left;  ///< absent until a speed is known
    std::uint64_t speed_bytes_per_second = 0;   ///< 0 until known
    bool operator==(const Operation&) const = default;
};

struct DriveHealth {
    int temperature_celsius = 0;
    int percentage_used = 0;   ///< NVMe endurance estimate, 0..255
    int available_spare = 0;   ///< percent
    int critical_warning = 0;  ///< NVMe SMART bit field, 0 is well
    std::uint64_t media_errors = 0;
    bool operator==(const DriveHealth&) const = default;
};

struct Drive {
    std::string id;  ///< "e0s3"; for a missing member whose slot is taken, "missing-<serial>"
    int enclosure = 0;
    int slot = -1;       ///< -1 when the platform gives none
    int pid = 0;         ///< persistent id, unique in this snapshot
    std::string device;  ///< "/dev/nvme3n1"; empty when missing
    std::string serial;
    std::string model;
    std::string firmware;
    std::string identity;  ///< NGUID, EUI64 or model+serial+namespace
    std::string uuid;      ///< from Perch's label; empty without one
    std::uint64_t size_bytes = 0;
    std::uint64_t usable_bytes = 0;  ///< after coercion: what a VD may use of it
    std::uint32_t logical_block_bytes = 512;
    std::uint32_t physical_block_bytes = 512;
    DriveState state = DriveState::unconfigured;
    DriveStatus status = DriveStatus::good;
    std::optional<int> group;    ///< drive group
    std::optional<int> row;      ///< position in the group
    std::vector<int> spare_for;  ///< drive groups of a dedicated spare
    std::string content;         ///< what was found on it, for JBOD and unusable drives
    bool safe_to_pull = true;
    std::string pull_reason;  ///< why it is or is not safe
    std::string link_speed;   ///< "32.0 GT/s PCIe"; empty when unknown
    int link_width = 0;
    std::optional<DriveHealth> health;  ///< absent when the drive did not answer
    std::optional<Operation> operation;
    bool operator==(const Drive&) const = default;
};

struct Member {
    int row = 0;
    int span = 0;
    std::string drive;  ///< Drive::id; empty when the place is empty
    DriveStatus status = DriveStatus::online;
    bool operator==(const Member&) const = default;
};

struct VirtualDrive {
    int id = 0;
    int group = 0;
    std::string uuid;
    std::string name;
    std::string level = "RAID5";
    int per_span = 0;  ///< members of one span
    VdState state = VdState::offline;
    std::string state_reason;  ///< for a VD that is not optimal: cause and way out
    std::uint64_t size_bytes = 0;
    std::uint64_t strip_bytes = 0;
    std::uint32_t block_bytes = 512;
    std::string engine = "dm-raid";
    bool consistent = false;  ///< mirrors or parity known to match
    bool redundant = true;    ///< the level keeps data when a drive is lost
    /// Sectors that the last check found not to match; absent when none ended since the start.
    std::optional<std::uint64_t> mismatches;
    int survives = 0;                ///< further drive failures survived now
    std::string device;              ///< "/dev/perch/v1"; empty while it does not run
    std::string kernel_device;       ///< "/dev/dm-8"; empty while it does not run
    std::string created;             ///< "2026/11/30 15:05:16", local time
    std::vector<std::string> users;  ///< "mounted on /srv"
    std::vector<Member> members;
    std::optional<Operation> operation;
    bool operator==(const VirtualDrive&) const = default;
};

struct DriveGroup {
    int id = 0;
    std::string level;
    int per_span = 0;
    VdState state = VdState::optimal;       ///< of its worst VD
    std::uint64_t size_bytes = 0;           ///< of all its VDs
    std::vector<Member> members;            ///< status: the worst over its VDs
    std::vector<int> vds;                   ///< VD ids
    std::vector<std::uint64_t> free_bytes;  ///< free pieces, as sizes of VDs of its level, by place
    bool operator==(const DriveGroup&) const = default;
};

/// A VD of a foreign configuration.
struct ForeignVd {
    std::string uuid;
    std::string name;
    std::string import_name;  ///< the name it would get: its own, unless that is taken
    std::uint64_t size_bytes = 0;
    std::string state;   ///< it would have after an import: "Optimal", "Degraded", "Offline"
    std::string reason;  ///< why, when not Optimal
    bool operator==(const ForeignVd&) const = default;
};

/// A drive group that belongs to another controller, or to another history of ours.
struct ForeignGroup {
    int id = 0;           ///< /f<id>; may change when drives come and go
    std::string source;   ///< UUID of the controller it comes from
    std::string history;  ///< id of the configuration it is read from
    int original_group = 0;
    std::string level;
    bool complete = false;  ///< an import would make every VD Optimal or Degraded
    std::string note;       ///< why it is foreign and what an import would lose, for a person
    std::vector<ForeignVd> vds;
    std::vector<std::string> drives;   ///< Drive::id of members that are there
    std::vector<std::string> missing;  ///< "s3 (SN …)" of members that are not
    bool operator==(const ForeignGroup&) const = default;
};

/// Something wrong, said so that a person can act on it.
struct Problem {
    Severity severity = Severity::warning;
    std::string what;    ///< "v1 (data) is Degraded: s3 (SN PERCH…3) is missing."
    std::string doing;   ///< what Perch does about it; may be empty
    std::string action;  ///< what the administrator should do
    bool operator==(const Problem&) const = default;
};

struct Event {
    std::uint64_t sequence = 0;
    std::string time;  ///< ISO 8601, UTC
    int code = 0;      ///< the vendor's event code, see events/catalogue
    Severity severity = Severity::info;
    std::string message_id;  ///< Redfish message id, "StorageDevice.1.2.VolumeDegraded"
    std::string text;
    bool operator==(const Event&) const = default;
};

/// What may go on while a user waits: an accepted request and how it ended.
struct TaskInfo {
    std::uint64_t id = 0;
    std::string name;     ///< "Create v1"
    std::string state;    ///< Redfish TaskState: Running, Completed, Exception
    std::string message;  ///< outcome or error
    std::string error;    ///< errc name when state is Exception
    std::string target;   ///< Redfish URI of what it made
    bool operator==(const TaskInfo&) const = default;
};

struct Snapshot {
    std::uint64_t generation = 0;  ///< grows by one with each change
    std::string version;           ///< of the program that made it
    std::string host;
    std::string operating_system;  ///< "Linux6.1.0-49-cloud-amd64"
    std::string controller_uuid;   ///< empty until the first VD is made
    std::string time;              ///< ISO 8601, UTC
    bool daemon = true;            ///< false: made without perchd, read-only
    std::vector<Drive> drives;
    std::vector<DriveGroup> groups;
    std::vector<VirtualDrive> vds;
    std::vector<ForeignGroup> foreign;
    std::string coercion = "1G";    ///< "None", "128M", "1G"
    std::vector<Problem> problems;  ///< worst first
    std::vector<TaskInfo> tasks;    ///< newest last, bounded
    bool operator==(const Snapshot&) const = default;
};

/// Names as Redfish Oem and JSON carry them.
std::string to_string(DriveState state);
std::string to_string(DriveStatus status);
std::string to_string(VdState state);
std::string to_string(OperationKind kind);
std::string to_string(Severity severity);

/// "Optimal", "Degraded", "Failed" or "Needs Attention", from VDs and problems.
std::string controller_status(const Snapshot& snapshot);
/// The drive with that id, or nullptr.
const Drive* find_drive(const Snapshot& snapshot, const std::string& id);
/// The drive in that slot that is there or whose place it is; nullptr for an empty slot.
const Drive* find_slot(const Snapshot& snapshot, int enclosure, int slot);
const VirtualDrive* find_vd(const Snapshot& snapshot, int id);

/// JSON, the body of GET …/Oem/Perch/Snapshot. from_json answers Errc::corrupt for what it cannot
/// read.
nlohmann::json snapshot_to_json(const Snapshot& snapshot);
Result<Snapshot> snapshot_from_json(const nlohmann::json& json);
nlohmann::json event_to_json(const Event& event);
Result<Event> event_from_json(const nlohmann::json& json);

}  // namespace perch
