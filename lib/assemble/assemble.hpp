// SPDX-License-Identifier: GPL-2.0-or-later
// From what drives say to what should run: which configuration counts, and which members of a VD
// may be trusted. Pure functions; perchd and perch-assemble both decide by these.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "drives/drive_access.hpp"
#include "engine/engine.hpp"
#include "ondisk/configuration.hpp"

namespace perch {

/// Which configuration the drives agree on.
struct ChosenConfiguration {
    /// The newest one of our controller; empty (nil controller) when no drive has any.
    Configuration configuration;
    /// Set when no choice is safe: nothing is started, nothing changed.
    std::optional<std::string> refusal;
};

/// `ours` is our controller as long as one of its drives is there; else (nil, or all gone) the one
/// with the most drives (ties: the lower UUID). The others are foreign and decide nothing. Of ours
/// the highest sequence counts; two different states with the same highest sequence are two
/// histories, and neither is followed. A configuration of ours in a newer format stops everything.
ChosenConfiguration choose_configuration(const std::vector<FoundDrive>& drives,
                                         const Uuid& ours = {});

/// Takes the label from what must not count although its label says so: copies of a drive (the one
/// that the configuration knows by identity stays; none, if that cannot be told). Marks, as
/// content, drives that hold a VD of another history: one that the configuration neither has nor
/// deleted.
void settle_identities(std::vector<FoundDrive>& drives, const Configuration& configuration);

/// The found drive with that label, or nullptr. Drives that did not answer have none.
const FoundDrive* find_by_uuid(const std::vector<FoundDrive>& drives, const Uuid& uuid);

/// One member's metadata as read from its drive; nullopt: none written yet, or not readable.
using MemberRecords = std::vector<std::optional<MemberRecord>>;

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

struct AssemblyPlan {
    Readiness readiness = Readiness::impossible;
    EngineVd vd;
    std::vector<Drop> drops;
    bool dirty = false;           ///< it was not stopped cleanly: parity is unknown in places
    bool reset_metadata = false;  ///< zero all members' metadata first: it never ran
    std::string reason;           ///< for a person, when not complete
};

/// Decides how a VD that does not run may start. A member that the newest record of the others
/// calls failed, or whose own record is more than one event behind, is stale and not trusted; so is
/// one whose record says that its rebuild was not finished. A VD that never ran (created, then a
/// crash in the middle of the engine's first records) starts from zeroed metadata, with all
/// members: no host write can have come before the engine's records were complete on all of them.
AssemblyPlan plan_assembly(const Configuration& configuration, const ConfigVd& vd,
                           const std::vector<FoundDrive>& drives, const MemberRecords& records);

/// The VD as a configuration says it should run, for one that runs: roles follow from the states,
/// absent where the drive is not there.
EngineVd engine_vd(const ConfigVd& vd, const std::vector<FoundDrive>& drives,
                   const MemberRecords& records);

/// "s3 (SN PERCH00000003)".
std::string describe_drive(const ConfigDrive& drive);

/// Whether a member in that state takes part (online or candidate).
bool takes_part(MemberState state);

}  // namespace perch
