// SPDX-License-Identifier: GPL-2.0-or-later
// Which configuration counts, and which do not: from what the drives hold to one configuration of
// ours, and to the histories that it does not contain. Pure functions.
//
// Every configuration records, per drive, the state that the drive was known to hold (acknowledged)
// and those that were tried on it since (attempted). So whatever a drive shows when it comes back,
// after one change or a thousand, either is one of these, and then the drive is only behind; or it
// is not, and then somebody else has written on it meanwhile: another history. Histories are judged
// per drive group, on the group's own members, and never merged by themselves.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "drives/drive_access.hpp"
#include "ondisk/configuration.hpp"

namespace perch {

/// A configuration that is not ours to follow: of another controller, or of another history of
/// ours.
struct OtherHistory {
    Configuration configuration;
    std::vector<Uuid> drives;  ///< that follow it and are there
    /// What each of them holds: that configuration, or an older state of its past.
    std::map<Uuid, Uuid> held;
};

struct History {
    /// What we follow; a nil controller when no drive has any.
    Configuration configuration;
    std::vector<OtherHistory> others;
    /// Drive groups of ours that must not start by themselves: VDs of theirs went another way on
    /// some of the drives that are there.
    std::set<int> diverged;
    /// Drives of ours that hold an older state of our own past, or none yet.
    std::vector<Uuid> behind;
    /// Set when nothing is safe: nothing is started, nothing changed.
    std::optional<std::string> refusal;
};

/// `current` is what the caller follows already, if it is the only one that writes; then it stays.
/// Else only its controller counts, as long as one of that controller's drives is there. Without
/// either the controller with the most drives is ours (ties: the lower UUID), and of its states the
/// one that contains the others; if none does, the one that most drives hold.
History choose_history(const std::vector<FoundDrive>& drives, const Configuration& current,
                       bool only_writer);

/// Whether everything that `drive`, holding `held`, has done is known to `ours`.
bool accounts_for(const Configuration& ours, const Configuration& held, const Uuid& drive);

/// Takes the label from what must not count although its label says so: copies of a drive (the one
/// that the configuration knows by identity stays; none, if that cannot be told). Marks, as
/// content, the drives that follow another history.
void settle_identities(std::vector<FoundDrive>& drives, const History& history);

/// True if the drive belongs to the controller: by its label, or because the configuration lists it
/// (an import that has not relabelled it yet), and it follows our history.
bool is_ours(const FoundDrive& drive, const Configuration& configuration);

/// `ours` with a drive group of `other` taken in: in place of our own version of the same VDs, else
/// as a new group, with numbers and names that are free. What its drives held counts as our past
/// from then on. Errc::wrong_state when a VD of it exists in another group of ours, or was deleted.
Result<Configuration> with_group(const Configuration& ours, const OtherHistory& other, int group);

}  // namespace perch
