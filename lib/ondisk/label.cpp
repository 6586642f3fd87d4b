// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/label.hpp"

#include "uapi/perch_format.h"

namespace perch {

namespace {

std::uint64_t front_offset(const PartitionLayout& partition) {
    return partition.offset + PERCH_LABEL_OFFSET;
}
std::uint64_t back_edge(const PartitionLayout& partition) {
    return partition.offset + partition.length - PERCH_EDGE_BYTES;
}
std::uint64_t back_offset(const PartitionLayout& partition) {
    return back_edge(partition) + PERCH_LABEL_OFFSET;
}

/// What a writer can have chosen: within the drive, room for what every partition has.
bool plausible(const Label& label) {
    const auto& [offset, length] = label.partition;
    const auto block = label.logical_block_bytes;
    return (block == 512 || block == PERCH_METADATA_UNIT) && offset % PERCH_EXTENT_ALIGN == 0 &&
           length % PERCH_EXTENT_ALIGN == 0 && extent_space(length) > 0 &&
           offset < label.device_bytes && length <= label.device_bytes - offset;
}

}  // namespace

Bytes encode_label(const Label& label) {
    perch_label raw{};
    std::memcpy(raw.magic, PERCH_LABEL_MAGIC, sizeof(raw.magic));
    raw.version = htole32(PERCH_LABEL_VERSION);
    std::memcpy(raw.controller_uuid, label.controller.bytes.data(), sizeof(raw.controller_uuid));
    std::memcpy(raw.drive_uuid, label.drive.bytes.data(), sizeof(raw.drive_uuid));
    raw.device_bytes = htole64(label.device_bytes);
    raw.partition_offset = htole64(label.partition.offset);
    raw.partition_bytes = htole64(label.partition.length);
    raw.logical_block_bytes = htole32(label.logical_block_bytes);
    raw.config_slots = htole32(PERCH_CONFIG_SLOTS);
    raw.config_slot_bytes = htole64(PERCH_CONFIG_SLOT_BYTES);
    raw.config_offset = htole64(PERCH_EDGE_BYTES);
    raw.extents_offset = htole64(PERCH_EXTENTS_OFFSET);
    raw.crc32c = htole32(crc32c(bytes_of(raw)));
    const auto bytes = bytes_of(raw);
    return {bytes.begin(), bytes.end()};
}

Result<Label> decode_label(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(perch_label)) {
        return fail(Errc::corrupt, "label cut short at {} bytes", bytes.size());
    }
    auto raw = load<perch_label>(bytes);
    if (std::memcmp(raw.magic, PERCH_LABEL_MAGIC, sizeof(raw.magic)) != 0) {
        return fail(Errc::not_found, "no label");
    }
    const auto stored = le32toh(raw.crc32c);
    raw.crc32c = 0;
    if (crc32c(bytes_of(raw)) != stored) {
        return fail(Errc::corrupt, "the label's checksum does not match");
    }
    // This version has no read-only mode, so it refuses what may only be read.
    const auto features =
        (le64toh(raw.feature_incompat) & ~PERCH_INCOMPAT_KNOWN) | le64toh(raw.feature_ro_compat);
    if (le32toh(raw.version) > PERCH_LABEL_VERSION || features != 0) {
        return fail(Errc::incompatible,
                    "the label was written by a newer Perch (version {}, features {:#x}); update "
                    "this one",
                    le32toh(raw.version), features);
    }
    Label label;
    std::memcpy(label.controller.bytes.data(), raw.controller_uuid, sizeof(raw.controller_uuid));
    std::memcpy(label.drive.bytes.data(), raw.drive_uuid, sizeof(raw.drive_uuid));
    label.device_bytes = le64toh(raw.device_bytes);
    label.partition = {le64toh(raw.partition_offset), le64toh(raw.partition_bytes)};
    label.logical_block_bytes = le32toh(raw.logical_block_bytes);
    if (le32toh(raw.config_slots) != PERCH_CONFIG_SLOTS ||
        le64toh(raw.config_slot_bytes) != PERCH_CONFIG_SLOT_BYTES ||
        le64toh(raw.config_offset) != PERCH_EDGE_BYTES ||
        le64toh(raw.extents_offset) != PERCH_EXTENTS_OFFSET || !plausible(label)) {
        return fail(Errc::corrupt, "the label describes a layout that this version never wrote");
    }
    return label;
}

Result<void> write_label(BlockDevice& drive, const Label& label) {
    const auto& partition = label.partition;
    return drive.zero(partition.offset, PERCH_EXTENTS_OFFSET)
        .and_then([&] { return drive.zero(back_edge(partition), PERCH_EDGE_BYTES); })
        .and_then([&] { return rewrite_label(drive, label); });
}

Result<void> rewrite_label(BlockDevice& drive, const Label& label) {
    const auto encoded = encode_label(label);
    return drive.write(back_offset(label.partition), encoded).and_then([&] {
        return drive.write(front_offset(label.partition), encoded);
    });
}

Result<std::optional<Label>> read_label(BlockDevice& drive, const PartitionLayout& partition) {
    std::optional<Error> trouble;
    for (const auto offset : {front_offset(partition), back_offset(partition)}) {
        const auto label = drive.read(offset, PERCH_LABEL_BYTES).and_then([](const Bytes& bytes) {
            return decode_label(bytes);
        });
        if (label) {
            return std::optional(*label);
        }
        if (label.error().code == Errc::incompatible) {
            return tl::make_unexpected(label.error());  // the other copy may be an older truth
        }
        if (label.error().code != Errc::not_found) {
            trouble = label.error();
        }
    }
    if (trouble) {
        return tl::make_unexpected(*trouble);
    }
    return std::optional<Label>();
}

Result<std::optional<Label>> find_label(BlockDevice& drive, std::uint64_t device_bytes) {
    std::optional<Error> trouble;
    std::optional<Label> found;
    for (const auto coercion : {Coercion::gib_1, Coercion::mib_128, Coercion::none}) {
        const auto partition = partition_layout(device_bytes, coercion);
        if (!partition) {
            continue;
        }
        auto label = read_label(drive, *partition);
        if (!label) {
            if (label.error().code == Errc::incompatible) {
                return label;
            }
            trouble = label.error();
            continue;
        }
        if (found && *label && *found != **label) {
            // One is left over from an earlier use, or is content of a virtual drive.
            return fail(Errc::corrupt, "it carries labels that contradict each other");
        }
        found = *label ? *label : found;
    }
    if (!found && trouble) {
        return tl::make_unexpected(*trouble);
    }
    return found;
}

}  // namespace perch
