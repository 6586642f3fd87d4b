// SPDX-License-Identifier: GPL-2.0-or-later
// A VD's own device-mapper device, and the partitions below it, whichever engine runs the VD.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/dm/dm_task.hpp"
#include "engine/engine.hpp"

namespace perch::dm {

/// "259:4" of a block device. Errc::not_found: it is not there.
Result<std::string> device_number(const std::string& path);
/// Does something that needs the partitions of these members, which are held open meanwhile. Just
/// after a partition was made, udev makes the kernel read the table once more: the partition is
/// gone then and comes back under another number, which is waited for (Errc::not_found). When a
/// drive itself is gone there is nothing to wait for. Absent members need none.
Result<void> with_partitions(const std::vector<EngineMember>& members,
                             const std::function<Result<void>()>& action);

/// The device of that UUID with a live table; one that was made but never loaded (a kill in the
/// middle of a create) is removed. nullopt: there is none.
Result<std::optional<Info>> live_device(const std::string& uuid, Visibility visibility);
/// The only target of a table or a status. Errc::io: there are several, or none.
Result<Target> only_target(const Result<std::vector<Target>>& targets, const std::string& name);
/// A renamed VD that runs is renamed in the kernel too.
Result<void> follow_name(const EngineVd& vd);

}  // namespace perch::dm
