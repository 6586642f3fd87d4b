// SPDX-License-Identifier: GPL-2.0-or-later
// The label: whose drive this is (kmod/uapi/perch_format.h, struct perch_label).
#pragma once

#include <cstdint>
#include <optional>

#include "layout/drive_layout.hpp"
#include "ondisk/block_device.hpp"
#include "util/uuid.hpp"

namespace perch {

struct Label {
    Uuid controller;
    Uuid drive;  ///< fresh each time a drive is taken
    std::uint64_t device_bytes = 0;
    PartitionLayout partition;
    std::uint32_t logical_block_bytes = 512;
    bool operator==(const Label&) const = default;
};

/// The 4096 bytes of a label.
Bytes encode_label(const Label& label);
/// Errc::not_found: no label here. Errc::corrupt: magic but a wrong checksum or nonsense.
/// Errc::incompatible: a newer version's.
Result<Label> decode_label(std::span<const std::byte> bytes);

/// Writes both copies, the edges around them zeroed, and empties the configuration slots. The front
/// copy, which is what discovery looks at first, is written last.
Result<void> write_label(BlockDevice& drive, const Label& label);
/// Rewrites both copies of a drive that is labelled already, the front one last, and nothing else.
Result<void> rewrite_label(BlockDevice& drive, const Label& label);
/// Reads the front copy, else the back copy, for a partition at that place. nullopt: neither is
/// there.
Result<std::optional<Label>> read_label(BlockDevice& drive, const PartitionLayout& partition);

/// The label of a drive of that size whose partition table is not trusted: the front copy is at the
/// same place on every drive, the back copy at one of those where Perch ends its partition. As
/// read_label; Errc::corrupt also when only back copies are left and they differ.
Result<std::optional<Label>> find_label(BlockDevice& drive, std::uint64_t device_bytes);

}  // namespace perch
