// SPDX-License-Identifier: GPL-2.0-or-later
// From what a VD's members say to what should run: which of them may be trusted. Pure functions;
// perchd and perch-assemble both decide by these. Which configuration counts is assemble/history.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assemble/membership.hpp"
#include "drives/drive_access.hpp"
#include "engine/engine.hpp"
#include "ondisk/configuration.hpp"
#include "ondisk/superblock.hpp"

namespace perch {

/// The found drive with that label, or nullptr. Drives that did not answer have none.
const FoundDrive* find_by_uuid(const std::vector<FoundDrive>& drives, const Uuid& uuid);

/// What was read of one member's metadata.
struct MemberEvidence {
    std::optional<MemberRecord> record;    ///< the engine's; nullopt: none written yet
    std::optional<Superblock> superblock;  ///< Perch's; nullopt: none
    SuperblockCopies copies;               ///< the same, raw; of VDs on Perch's own target
    bool operator==(const MemberEvidence&) const = default;
};
/// By row.
using MemberRecords = std::vector<MemberEvidence>;

enum class Readiness {
    complete,    ///< every member that the configuration counts on is there
    degraded,    ///< enough members, but one that was in sync is absent or stale
    impossible,  ///< more members gone than the level survives
};

/// A member that must be recorded as dropped before the VD starts without it.
struct Drop {
    int row = 0;
    MemberState state = MemberState::missing;
    std::string reason;
};

/// A record that must be rewritten before the start (Engine::rewrite_record).
struct RecordRewrite {
    int row = 0;
    std::uint64_t events = 0;
    std::vector<int> failed_rows;  ///< of its span
};

struct AssemblyPlan {
    Readiness readiness = Readiness::impossible;
    EngineVd vd;
    std::vector<Drop> drops;
    bool dirty = false;           ///< it was not stopped cleanly: parity is unknown in places
    bool reset_metadata = false;  ///< zero all members' metadata first: it never ran
    std::vector<RecordRewrite> rewrites;  ///< start again from the last set that was in sync
    std::string reason;                   ///< for a person, when not complete
};

/// Decides how a VD that does not run may start.
///
/// On Perch's own target the epochs of the superblocks decide (assemble/membership), as they do in
/// the kernel. On dm-raid:
///
/// Not trusted is a member that the newest record of the others in its span calls failed; one whose
/// own record is more than one event behind; one whose record says that its rebuild was not
/// finished; one whose superblock is not that of its assignment. A superblock with another owner,
/// or a tombstone, forbids the start.
///
/// A VD that never ran (created, then a crash in the middle of the engine's first records) starts
/// from zeroed metadata, with all members: no host write can have come before the engine's records
/// were complete on all of them.
///
/// A VD that lost more members than it survives starts again from the last set that was in sync:
/// the members that no record calls failed, and those that were lost last. Lost last are the ones
/// with the newest record among the failed, if without them nothing could have been acknowledged
/// any more, whoever of those still absent had stayed on.
AssemblyPlan plan_assembly(const Configuration& configuration, const ConfigVd& vd,
                           const std::vector<FoundDrive>& drives, const MemberRecords& records);

/// The VD as a configuration says it should run, for one that runs: roles follow from the states,
/// absent where the drive is not there.
EngineVd engine_vd(const ConfigVd& vd, const std::vector<FoundDrive>& drives,
                   const MemberRecords& records);

/// "s3 (SN PERCH00000003)".
std::string describe_drive(const ConfigDrive& drive);
/// The same of a drive that is there.
std::string bay(const FoundDrive& drive);

/// Whether a member in that state takes part (online or candidate).
bool takes_part(MemberState state);

}  // namespace perch
