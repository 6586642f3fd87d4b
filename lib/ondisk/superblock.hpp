// SPDX-License-Identifier: GPL-2.0-or-later
// The superblock: who is a member of a VD and who is in sync, per member
// (kmod/uapi/perch_format.h, struct perch_superblock).
//
// Crash argument: a writer overwrites only the copy that is not the newest valid one, one copy at a
// time, and a copy counts only if its checksum holds. So at every moment, also in the middle of a
// write torn anywhere, the extent holds the previous state or the new one. The first write fills
// both copies, copy 0 first, and returns after both: so a copy 0 that does not check next to an
// empty copy 1 is a first write that was cut off, and no damage to a single copy later loses the
// state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "layout/engine_kind.hpp"
#include "layout/raid_level.hpp"
#include "ondisk/block_device.hpp"
#include "uapi/perch_format.h"
#include "util/uuid.hpp"

namespace perch {

enum class SyncState : std::uint8_t {
    absent = PERCH_MEMBER_ABSENT,          ///< gone when the epoch was written
    in_sync = PERCH_MEMBER_IN_SYNC,        ///< all of its data counts
    rebuilding = PERCH_MEMBER_REBUILDING,  ///< what lies below recovered_bytes counts
    failed = PERCH_MEMBER_FAILED,          ///< dropped for errors
};

/// What a superblock says of one member.
struct SuperblockMember {
    Uuid instance;  ///< fresh at each assignment; nil: nobody is in this place (state absent)
    std::uint32_t row = 0;
    SyncState state = SyncState::absent;
    bool log_ignored = false;
    std::uint64_t recovered_bytes = 0;  ///< of its data extent, while rebuilding; else 0
    bool operator==(const SuperblockMember&) const = default;
};

enum class TaskKind : std::uint32_t {
    rebuild = PERCH_TASK_REBUILD,
    resync = PERCH_TASK_RESYNC,
    check = PERCH_TASK_CHECK,
    patrol = PERCH_TASK_PATROL,
    reshape = PERCH_TASK_RESHAPE,
};

/// How far a task has come; it goes on from there after a stop.
struct TaskCursor {
    TaskKind kind = TaskKind::resync;
    std::optional<std::uint32_t> row;  ///< of the member it works on; nullopt: all
    std::uint64_t bytes = 0;           ///< done, within the data extents
    bool operator==(const TaskCursor&) const = default;
};

/// A set of members, and where it comes from. The nonces tell two histories apart that have come
/// to the same number.
struct Epoch {
    std::uint64_t number = 0;
    Uuid nonce;   ///< random
    Uuid parent;  ///< the nonce of the epoch it follows; nil: the first
    bool operator==(const Epoch&) const = default;
};

struct Superblock {
    Uuid vd;
    Uuid instance;  ///< of the member whose extent this is
    Uuid controller;
    std::uint64_t update_counter = 0;  ///< set by write_superblock
    Epoch epoch;
    std::uint64_t log_generation = 0;  ///< 0: no log
    std::uint32_t row = 0;             ///< of the member whose extent this is
    RaidShape shape;
    EngineKind owner = EngineKind::dm_raid;
    bool clean = false;      ///< stopped in order
    bool tombstone = false;  ///< the VD was deleted and must never start again
    std::uint32_t strip_bytes = 0;
    std::uint32_t block_bytes = 512;
    std::uint64_t data_bytes = 0;    ///< of each member
    std::uint64_t vd_bytes = 0;      ///< of the VD
    std::uint64_t region_bytes = 0;  ///< of the dirty map; 0: no map
    std::uint64_t data_offset = 0;   ///< of this member's data extent, in the partition
    std::uint64_t reshape_position = 0;
    std::vector<TaskCursor> tasks;          ///< at most PERCH_SUPERBLOCK_TASKS
    std::vector<SuperblockMember> members;  ///< at most PERCH_MAX_MEMBERS
    bool operator==(const Superblock&) const = default;
};

/// The 16 KiB of one copy. Errc::invalid_argument for what decode_superblock would refuse.
Result<Bytes> encode_superblock(const Superblock& superblock);
/// Errc::not_found: zeros. Errc::corrupt: torn, damaged or nonsense. Errc::incompatible: a newer
/// version's.
Result<Superblock> decode_superblock(std::span<const std::byte> bytes);

/// The newest valid copy in the superblock extent at that offset on the drive. nullopt: none was
/// ever written, or the first write was cut off. Errc::incompatible if either copy is a newer
/// version's, because the other may be an older truth; Errc::corrupt if neither counts and what is
/// there is more than a first write cut off; Errc::io.
Result<std::optional<Superblock>> read_superblock(BlockDevice& drive, std::uint64_t extent_offset);
/// Overwrites the copy that is not the newest valid one; on an empty extent fills both. Sets the
/// update counter. Returns when it is durable. Errc::wrong_state when the extent holds the record
/// of another VD or member (extents are zeroed when they are assigned), or a tombstone of this VD
/// and the new state is none; otherwise as read_superblock and encode_superblock. Two damaged
/// copies are not an error here: writing is how they are mended.
Result<void> write_superblock(BlockDevice& drive, std::uint64_t extent_offset,
                              Superblock superblock);

}  // namespace perch
