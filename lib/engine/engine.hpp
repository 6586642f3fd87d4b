// SPDX-License-Identifier: GPL-2.0-or-later
// What runs virtual drives. One interface for the kernel (engine/dm) and the simulation
// (engine/sim).
//
// An engine is told the whole of what should run and makes it so; it decides nothing. All calls may
// wait for the kernel and for drives: they belong on perchd's dm worker, never on its loop.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "layout/engine_kind.hpp"
#include "layout/extent.hpp"
#include "layout/raid_level.hpp"
#include "util/bytes.hpp"
#include "util/error.hpp"
#include "util/uuid.hpp"

namespace perch {

/// How a member takes part.
enum class MemberRole {
    absent,            ///< a hole: degraded
    in_sync,           ///< trusted
    rebuild_fresh,     ///< empty metadata: rebuild from the start
    rebuild_continue,  ///< its metadata says how far the rebuild came
};

struct EngineMember {
    MemberRole role = MemberRole::absent;
    Uuid instance;
    std::string partition;        ///< "/dev/nvme3n1p1"; unused when absent
    std::vector<Extent> extents;  ///< in the partition
    /// The extent of that type; every member has the ones its engine needs.
    [[nodiscard]] const Extent& extent(ExtentType type) const;
};

/// A VD as it should run.
struct EngineVd {
    Uuid uuid;
    std::string name;
    EngineKind kind = EngineKind::dm_raid;
    RaidShape shape;
    std::uint64_t strip_bytes = 0;
    std::uint32_t block_bytes = 512;
    std::uint64_t region_bytes = 0;  ///< of the dirty map; 0: dm-raid
    std::uint64_t vd_bytes = 0;
    std::vector<EngineMember> members;  ///< by row
};

/// How the engine sees one member of a running VD.
enum class MemberHealth { in_sync, rebuilding, failed, absent };
enum class EngineTask { none, resync, rebuild, check, init, other };

/// A full initialization, while it runs and after it ended, until stop_task().
struct EngineInit {
    std::uint64_t done_bytes = 0;  ///< ended short of the VD's size: it failed
    bool running = false;
};

struct EngineStatus {
    std::string kernel_device;  ///< "/dev/dm-8"
    std::string kernel_name;    ///< "dm-8"
    bool suspended = false;
    int open_count = 0;
    std::vector<MemberHealth> members;  ///< by row
    EngineTask task = EngineTask::none;
    std::uint64_t task_done_sectors = 0;
    std::uint64_t task_total_sectors = 0;
    std::optional<EngineInit> init;
    /// Sectors that the last check found not to match; 0 after any other task.
    std::uint64_t mismatches = 0;
    /// Whether parity, or mirrors, are known to match everywhere; nullopt: the engine does not keep
    /// count of that, and does not resync by itself what a crash left (dm-raid).
    std::optional<bool> synced;
    std::string trouble;  ///< why it is there, and all of its I/O is an error; empty: it runs
};

/// What a member's own metadata proves. The spans of a VD are arrays of their own: events compare
/// within a span, and failed_rows count from its first row. RAID0 keeps no records.
struct MemberRecord {
    std::uint64_t events = 0;           ///< grows with each change of the array's state
    bool rebuilt = false;               ///< its content is complete
    std::uint64_t rebuilt_sectors = 0;  ///< how far a rebuild came
    std::vector<int> failed_rows;       ///< members that this record says have failed
    bool resync_pending = false;        ///< parity was never made consistent everywhere
    bool dirty = false;                 ///< regions were being written when this was recorded
    bool operator==(const MemberRecord&) const = default;
};

inline const Extent& EngineMember::extent(ExtentType type) const {
    for (const auto& row : extents) {
        if (row.type == type) {
            return row;
        }
    }
    throw std::logic_error("a member without an extent of type " + to_string(type));
}

class Engine {
  public:
    Engine() = default;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    virtual ~Engine() = default;

    /// Whether VDs of that kind can run here. Errc::unsupported says what is missing and what to
    /// do.
    virtual Result<void> supports(EngineKind kind) = 0;
    /// What new VDs get where nobody asks for a kind.
    [[nodiscard]] virtual EngineKind preferred() const = 0;
    /// Makes the VD run with exactly these members: creates it, or changes the running one. Doing
    /// it again changes nothing. Errc::io with the kernel's reason when it refuses.
    virtual Result<void> apply(const EngineVd& vd) = 0;
    /// Stops the VD and removes what lies below it. Not running is no error. Errc::in_use: open.
    virtual Result<void> stop(const Uuid& vd) = 0;
    /// nullopt: it does not run.
    virtual Result<std::optional<EngineStatus>> status(const Uuid& vd) = 0;
    /// Makes the engine recompute parity everywhere, beside host I/O; returns at once. Not for one
    /// whose status says `synced`.
    virtual Result<void> request_resync(const Uuid& vd) = 0;
    /// Makes the engine compare mirrors or parity everywhere, beside host I/O, and count what does
    /// not match; returns at once.
    virtual Result<void> start_check(const Uuid& vd) = 0;
    /// Makes the engine zero the VD's data from that byte on; returns at once.
    virtual Result<void> start_init(const Uuid& vd, std::uint64_t from_bytes) = 0;
    /// Ends a check or an initialization. None running is no error.
    virtual Result<void> stop_task(const Uuid& vd) = 0;
    /// Zeroes a piece of the VD's data; waits for it.
    virtual Result<void> zero(const Uuid& vd, std::uint64_t offset, std::uint64_t bytes) = 0;
    /// The VDs of ours that run, also those that no configuration knows.
    virtual Result<std::vector<Uuid>> running() = 0;
    /// Resumes every device of ours that is suspended: what a killed perchd may have left. Returns
    /// how many there were.
    virtual Result<int> resume_suspended() = 0;

    /// How much of the metadata extent decode_record needs, in bytes.
    [[nodiscard]] virtual std::uint64_t record_bytes() const = 0;
    /// Reads a member's metadata, given the beginning of its metadata extent. nullopt: none.
    [[nodiscard]] virtual Result<std::optional<MemberRecord>> decode_record(
        std::span<const std::byte> metadata) const = 0;
    /// The record in `metadata` as it would be had only these rows of its span failed, and had its
    /// array had that many events: for starting again from the last set that was in sync.
    [[nodiscard]] virtual Result<Bytes> rewrite_record(
        std::span<const std::byte> metadata, std::uint64_t events,
        const std::vector<int>& failed_rows) const = 0;
};

}  // namespace perch
