// SPDX-License-Identifier: GPL-2.0-or-later
// The two configuration slots of a drive (kmod/uapi/perch_format.h, struct perch_config_header).
//
// Crash argument: a writer overwrites only the slot that is not the newest valid one, and a slot
// counts only if both its checksums hold. So at every moment, also in the middle of a write torn
// anywhere, the drive holds the previous state or the new one.
#pragma once

#include <optional>

#include "layout/drive_layout.hpp"
#include "ondisk/block_device.hpp"
#include "ondisk/configuration.hpp"

namespace perch {

/// Header and payload, padded to 4 KiB. Errc::limit when it does not fit a slot.
Result<Bytes> encode_config_slot(const Configuration& configuration);
/// Errc::not_found: an empty slot. Errc::corrupt: torn or damaged. Errc::incompatible: newer.
Result<Configuration> decode_config_slot(std::span<const std::byte> bytes);

/// The newest valid configuration on a drive; nullopt when both slots are empty or torn.
/// An incompatible slot is an error: an older program must not fall back to an older truth.
Result<std::optional<Configuration>> read_configuration(BlockDevice& drive,
                                                        const PartitionLayout& partition);
/// Writes to the slot that does not hold the newest. Returns when it is durable. Errc::wrong_state
/// when the drive holds this or a later sequence already: somebody else has written since we
/// looked.
Result<void> write_configuration(BlockDevice& drive, const PartitionLayout& partition,
                                 const Configuration& configuration);

}  // namespace perch
