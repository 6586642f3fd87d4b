// SPDX-License-Identifier: GPL-2.0-or-later
// The configuration: the whole controller as text, on every drive of it. Names, policies, extents
// and identities are decided here and nowhere else; who is in sync is the superblock's to say
// (for dm-raid VDs: dm-raid's).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "layout/drive_layout.hpp"
#include "layout/engine_kind.hpp"
#include "layout/raid_layout.hpp"
#include "util/error.hpp"
#include "util/uuid.hpp"

namespace perch {

/// What the configuration says of a member. lib/operations/controller is the only one to change it.
enum class MemberState {
    online,     ///< in sync as far as the configuration knows
    candidate,  ///< assigned, its content is being rebuilt; not trusted
    offline,    ///< taken out by the administrator, or its rebuild was stopped
    failed,     ///< dropped for errors
    missing,    ///< dropped because it was gone
};

/// What a drive is for beside being a member.
enum class DriveRole {
    none,             ///< a member, or free
    global_spare,     ///< stands in for a member of any drive group
    dedicated_spare,  ///< stands in for members of the drive groups in `spare_for`
};

struct ConfigDrive {
    Uuid uuid;
    std::string serial;
    std::string model;
    std::string identity;
    int enclosure = 0;
    int slot = -1;  ///< where it was last seen
    std::uint64_t device_bytes = 0;
    std::uint64_t partition_bytes = 0;
    std::uint32_t block_bytes = 512;
    DriveRole role = DriveRole::none;
    std::vector<int> spare_for;  ///< drive groups, of a dedicated spare
    bool failed = false;         ///< dropped for errors: not used again until it is cleared
    /// The state that this drive is known to hold, and those that were tried on it since: whatever
    /// it shows later, one of these is a state of our own past, anything else is another history.
    Uuid acknowledged;
    std::vector<Uuid> attempted;
    std::string unknown = "{}";  ///< fields of a newer version, kept (JSON text of one object)
    bool operator==(const ConfigDrive&) const = default;
};

struct ConfigMember {
    Uuid drive;     ///< nil: nobody is in this place (state missing)
    Uuid instance;  ///< fresh at each assignment, so that a returned drive is not mistaken
    MemberState state = MemberState::online;
    std::vector<Extent> extents;  ///< in the partition, by place
    std::string unknown = "{}";   ///< fields of a newer version, kept
    bool operator==(const ConfigMember&) const = default;
};

struct ConfigVd {
    int id = 0;
    int group = 0;
    Uuid uuid;
    std::string name;
    RaidLevel level = RaidLevel::raid5;
    int per_span = 0;  ///< members of one span
    EngineKind engine = EngineKind::dm_raid;
    std::uint64_t region_bytes = 0;  ///< of the dirty map; 0: dm-raid, which has its own
    std::uint64_t strip_bytes = 0;
    std::uint32_t block_bytes = 512;
    std::uint64_t vd_bytes = 0;
    std::int64_t created = 0;  ///< seconds since 1970, UTC
    bool started = false;      ///< has run once: from then on its members' own records count
    bool needs_resync = true;  ///< parity is not known to match everywhere
    bool deleting = false;     ///< its areas are being wiped; never started again
    /// Bytes from the start that a full initialization has zeroed; absent: none is under way.
    std::optional<std::uint64_t> initialized;
    std::vector<ConfigMember> members;  ///< by row
    std::string unknown = "{}";         ///< fields of a newer version, kept
    bool operator==(const ConfigVd&) const = default;
};

struct ConfigSettings {
    Coercion coercion = Coercion::gib_1;  ///< for drives taken from now on
    std::string unknown = "{}";           ///< fields of a newer version, kept
    bool operator==(const ConfigSettings&) const = default;
};

struct Configuration {
    Uuid controller;
    std::uint64_t sequence = 0;
    Uuid id;
    Uuid parent;
    ConfigSettings settings;
    std::vector<ConfigDrive> drives;
    std::vector<ConfigVd> vds;
    std::vector<std::string> jbods;  ///< identities of blank drives that must not be used
    std::vector<Uuid> tombstones;  ///< VDs deleted, newest last, bounded; their UUIDs never return
    /// Fields of a newer version, kept as they were found (JSON text of one object).
    std::string unknown = "{}";
    bool operator==(const Configuration&) const = default;
};

/// A VD's name: 1 to 15 letters, digits, '.', '_' and '-', beginning with a letter or digit. It
/// becomes part of device names and paths, so what is read from a drive is held to it as well.
bool valid_vd_name(const std::string& name);
inline constexpr std::size_t max_vd_name = 15;
inline constexpr std::size_t max_vds = 240;  ///< of a controller
inline constexpr std::size_t max_vds_per_group = 16;
inline constexpr int max_groups = 64;
inline constexpr std::size_t max_drives = 256;

std::string to_string(MemberState state);
RaidShape shape_of(const ConfigVd& vd);
/// The member's extent of that type, or nullptr.
const Extent* find_extent(const ConfigMember& member, ExtentType type);
/// The VDs of a drive group, by number.
std::vector<const ConfigVd*> vds_of_group(const Configuration& configuration, int group);
/// The drive group that a drive is a member of.
std::optional<int> group_of_drive(const Configuration& configuration, const Uuid& drive);
/// What is free on every drive of a group.
std::vector<Range> free_in_group(const Configuration& configuration, int group);
const ConfigVd* find_vd(const Configuration& configuration, int id);
ConfigVd* find_vd(Configuration& configuration, int id);
const ConfigVd* find_vd(const Configuration& configuration, const Uuid& vd);
const ConfigDrive* find_drive(const Configuration& configuration, const Uuid& drive);
/// Records or refreshes what is known of a drive.
void upsert_drive(Configuration& configuration, const ConfigDrive& drive);
/// Drops drives that no VD names any more, except those in `present`.
void forget_absent_drives(Configuration& configuration, const std::vector<Uuid>& present);

/// The next state of a configuration: sequence + 1, fresh id, parent set.
Configuration successor(const Configuration& configuration);

/// JSON text. parse answers Errc::corrupt for anything that does not hold together (extents that
/// overlap or leave the partition, duplicate ids, unknown levels or states).
std::string configuration_to_text(const Configuration& configuration);
Result<Configuration> configuration_from_text(const std::string& text);

}  // namespace perch
