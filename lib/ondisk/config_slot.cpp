// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/config_slot.hpp"

#include <array>

#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

std::uint64_t slot_offset(const PartitionLayout& partition, unsigned slot) {
    return partition.offset + PERCH_EDGE_BYTES + slot * PERCH_CONFIG_SLOT_BYTES;
}

struct SlotHeader {
    Uuid controller;
    Uuid id;
    std::uint64_t sequence = 0;
    std::uint64_t payload_bytes = 0;
    std::uint32_t payload_crc = 0;
};

Result<SlotHeader> decode_header(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(perch_config_header)) {
        return fail(Errc::corrupt, "configuration slot cut short at {} bytes", bytes.size());
    }
    auto raw = load<perch_config_header>(bytes);
    if (std::memcmp(raw.magic, PERCH_CONFIG_MAGIC, sizeof(raw.magic)) != 0) {
        return fail(Errc::not_found, "empty configuration slot");
    }
    const auto stored = le32toh(raw.header_crc32c);
    raw.header_crc32c = 0;
    if (crc32c(bytes_of(raw)) != stored) {
        return fail(Errc::corrupt, "the configuration header's checksum does not match");
    }
    if (le32toh(raw.version) > PERCH_CONFIG_VERSION ||
        (le64toh(raw.feature_incompat) & ~PERCH_INCOMPAT_KNOWN) != 0) {
        return fail(Errc::incompatible,
                    "the configuration was written by a newer Perch (version {}, features {:#x}); "
                    "update this one",
                    le32toh(raw.version), le64toh(raw.feature_incompat));
    }
    SlotHeader header;
    std::memcpy(header.controller.bytes.data(), raw.controller_uuid, sizeof(raw.controller_uuid));
    std::memcpy(header.id.bytes.data(), raw.id, sizeof(raw.id));
    header.sequence = le64toh(raw.sequence);
    header.payload_bytes = le64toh(raw.payload_bytes);
    header.payload_crc = le32toh(raw.payload_crc32c);
    if (header.payload_bytes > PERCH_CONFIG_SLOT_BYTES - PERCH_METADATA_UNIT) {
        return fail(Errc::corrupt, "a configuration of {} bytes", header.payload_bytes);
    }
    return header;
}

/// Reads one slot: the header first, then only as much as it announces.
Result<Configuration> read_slot(BlockDevice& drive, std::uint64_t offset) {
    return drive.read(offset, PERCH_METADATA_UNIT).and_then([&](const Bytes& first) {
        return decode_header(first).and_then([&](const SlotHeader& header) {
            const auto length =
                round_up(PERCH_METADATA_UNIT + header.payload_bytes, PERCH_METADATA_UNIT);
            return drive.read(offset, length).and_then([](const Bytes& whole) {
                return decode_config_slot(whole);
            });
        });
    });
}

}  // namespace

Result<Bytes> encode_config_slot(const Configuration& configuration) {
    const auto text = configuration_to_text(configuration);
    if (text.size() > PERCH_CONFIG_SLOT_BYTES - PERCH_METADATA_UNIT) {
        return fail(Errc::limit, "the configuration has {} bytes and a slot holds {}", text.size(),
                    PERCH_CONFIG_SLOT_BYTES - PERCH_METADATA_UNIT);
    }
    const auto payload = std::as_bytes(std::span(text));
    perch_config_header raw{};
    std::memcpy(raw.magic, PERCH_CONFIG_MAGIC, sizeof(raw.magic));
    raw.version = htole32(PERCH_CONFIG_VERSION);
    raw.sequence = htole64(configuration.sequence);
    std::memcpy(raw.id, configuration.id.bytes.data(), sizeof(raw.id));
    std::memcpy(raw.parent_id, configuration.parent.bytes.data(), sizeof(raw.parent_id));
    std::memcpy(raw.controller_uuid, configuration.controller.bytes.data(),
                sizeof(raw.controller_uuid));
    raw.payload_bytes = htole64(payload.size());
    raw.payload_crc32c = htole32(crc32c(payload));
    raw.header_crc32c = htole32(crc32c(bytes_of(raw)));
    const auto header = bytes_of(raw);
    Bytes bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(round_up(bytes.size(), PERCH_METADATA_UNIT));
    return bytes;
}

Result<Configuration> decode_config_slot(std::span<const std::byte> bytes) {
    const auto header = decode_header(bytes);
    if (!header) {
        return tl::make_unexpected(header.error());
    }
    const auto rest = bytes.subspan(PERCH_METADATA_UNIT);
    if (rest.size() < header->payload_bytes) {
        return fail(Errc::corrupt, "configuration slot cut short at {} bytes", bytes.size());
    }
    const auto payload = rest.first(header->payload_bytes);
    if (crc32c(payload) != header->payload_crc) {
        return fail(Errc::corrupt, "the configuration's checksum does not match");
    }
    std::string text(payload.size(), '\0');
    std::memcpy(text.data(), payload.data(), payload.size());
    auto configuration = configuration_from_text(text);
    if (configuration &&
        (configuration->sequence != header->sequence || configuration->id != header->id ||
         configuration->controller != header->controller)) {
        return fail(Errc::corrupt, "configuration header and text disagree");
    }
    return configuration;
}

Result<std::optional<Configuration>> read_configuration(BlockDevice& drive,
                                                        const PartitionLayout& partition) {
    std::optional<Configuration> newest;
    for (unsigned slot = 0; slot < PERCH_CONFIG_SLOTS; ++slot) {
        auto found = read_slot(drive, slot_offset(partition, slot));
        if (found) {
            if (!newest || found->sequence > newest->sequence) {
                newest = std::move(*found);
            }
        } else if (found.error().code == Errc::incompatible || found.error().code == Errc::io) {
            return tl::make_unexpected(found.error());
        }
    }
    return newest;
}

Result<void> write_configuration(BlockDevice& drive, const PartitionLayout& partition,
                                 const Configuration& configuration) {
    const auto bytes = encode_config_slot(configuration);
    if (!bytes) {
        return tl::make_unexpected(bytes.error());
    }
    std::array<std::optional<std::uint64_t>, PERCH_CONFIG_SLOTS> sequences;
    for (unsigned slot = 0; slot < PERCH_CONFIG_SLOTS; ++slot) {
        const auto found = read_slot(drive, slot_offset(partition, slot));
        if (found) {
            if (found->controller == configuration.controller &&
                found->sequence >= configuration.sequence) {
                return fail(Errc::wrong_state,
                            "the drive holds configuration {} already, {} was to be written",
                            found->sequence, configuration.sequence);
            }
            sequences.at(slot) = found->sequence;
        } else if (found.error().code == Errc::incompatible || found.error().code == Errc::io) {
            return tl::make_unexpected(found.error());
        }
    }
    const unsigned target =
        sequences[0] && (!sequences[1] || *sequences[0] > *sequences[1]) ? 1 : 0;
    return drive.write(slot_offset(partition, target), *bytes);
}

}  // namespace perch
