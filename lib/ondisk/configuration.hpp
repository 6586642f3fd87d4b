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

struct ConfigDrive {
    Uuid uuid;
    std::string serial;
    std::string model;
    std::string identity;
    int enclosure = 0;
    int slot = -1;  ///< where it was last seen
    std::uint64_t device_bytes = 0;
    std::string unknown = "{}";  ///< fields of a newer version, kept (JSON text of one object)
    bool operator==(const ConfigDrive&) const = default;
};

struct ConfigMember {
    Uuid drive;
    Uuid instance;  ///< fresh at each assignment, so that a returned drive is not mistaken
    MemberState state = MemberState::online;
    std::uint64_t metadata_offset = 0;  ///< bytes in the partition
    std::uint64_t metadata_bytes = 0;
    std::uint64_t data_offset = 0;
    std::uint64_t data_bytes = 0;
    bool operator==(const ConfigMember&) const = default;
};

struct ConfigVd {
    int id = 0;
    int group = 0;
    Uuid uuid;
    std::string name;
    std::string level = "raid5";
    std::string engine = "dm-raid";
    std::uint64_t strip_bytes = 0;
    std::uint32_t block_bytes = 512;
    std::uint64_t vd_bytes = 0;
    std::int64_t created = 0;  ///< seconds since 1970, UTC
    bool started = false;      ///< has run once: from then on its members' own records count
    bool needs_resync = true;  ///< parity is not known to match everywhere
    bool deleting = false;     ///< its areas are being wiped; never started again
    std::vector<ConfigMember> members;  ///< by row
    std::string unknown = "{}";         ///< fields of a newer version, kept
    bool operator==(const ConfigVd&) const = default;
};

struct Configuration {
    Uuid controller;
    std::uint64_t sequence = 0;
    Uuid id;
    Uuid parent;
    std::vector<ConfigDrive> drives;
    std::vector<ConfigVd> vds;
    std::vector<Uuid> tombstones;  ///< VDs deleted, newest last, bounded; their UUIDs never return
    /// Fields of a newer version, kept as they were found (JSON text of one object).
    std::string unknown = "{}";
    bool operator==(const Configuration&) const = default;
};

/// A VD's name: 1 to 15 letters, digits, '.', '_' and '-', beginning with a letter or digit. It
/// becomes part of device names and paths, so what is read from a drive is held to it as well.
bool valid_vd_name(const std::string& name);
inline constexpr std::size_t max_vd_name = 15;

std::string to_string(MemberState state);
const ConfigVd* find_vd(const Configuration& configuration, int id);
ConfigVd* find_vd(Configuration& configuration, int id);
const ConfigDrive* find_drive(const Configuration& configuration, const Uuid& drive);
/// Records or refreshes what is known of a drive.
void upsert_drive(Configuration& configuration, const ConfigDrive& drive);
/// The member, in any VD, that a drive is now; nullptr when it is none.
const ConfigMember* find_member(const Configuration& configuration, const Uuid& drive);
/// Drops drives that no VD names any more, except those in `present`.
void forget_absent_drives(Configuration& configuration, const std::vector<Uuid>& present);

/// The next state of a configuration: sequence + 1, fresh id, parent set.
Configuration successor(const Configuration& configuration);

/// JSON text. parse answers Errc::corrupt for anything that does not hold together (extents that
/// overlap or leave the partition, duplicate ids, unknown levels or states).
std::string configuration_to_text(const Configuration& configuration);
Result<Configuration> configuration_from_text(const std::string& text);

}  // namespace perch
