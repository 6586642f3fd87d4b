// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_record.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "util/units.hpp"

namespace perch {

namespace {

constexpr std::size_t record_page_bytes = 4096;

/// struct dm_raid_superblock. All its fields lie at their natural places.
struct RawSuperblock {
    std::uint32_t magic;
    std::uint32_t compat_features;
    std::uint32_t num_devices;
    std::uint32_t array_position;
    std::uint64_t events;
    std::uint64_t failed_devices;
    std::uint64_t disk_recovery_offset;
    std::uint64_t array_resync_offset;
    std::uint32_t level;
    std::uint32_t layout;
    std::uint32_t stripe_sectors;
    std::uint32_t flags;
    std::uint64_t reshape_position;
    std::uint32_t new_level;
    std::uint32_t new_layout;
    std::uint32_t new_stripe_sectors;
    std::uint32_t delta_disks;
    std::uint64_t array_sectors;
    std::uint64_t data_offset;
    std::uint64_t new_data_offset;
    std::uint64_t sectors;
    std::array<std::uint64_t, 3> extended_failed_devices;
    std::uint32_t incompat_features;
    std::uint32_t end;
};
constexpr std::uint32_t raid_magic = 0x64526D44;  // "DmRd"
constexpr std::uint32_t supports_v190 = 1;

struct RawBitmap {
    std::uint32_t magic;
    std::uint32_t version;
    std::array<std::uint8_t, 16> uuid;
    std::uint64_t events;
    std::uint64_t events_cleared;
    std::uint64_t sync_sectors;
    std::uint32_t state;
    std::uint32_t chunk_bytes;
    std::uint32_t daemon_sleep;
    std::uint32_t write_behind;
    std::array<std::uint8_t, 192> rest;
};
static_assert(sizeof(RawBitmap) == 256);
constexpr std::uint32_t bitmap_magic = 0x6d746962;

/// Regions so large that their bits fit the one page.
std::uint32_t region_bytes(std::uint64_t member_sectors) {
    constexpr std::uint64_t regions = 1024;
    constexpr std::uint64_t largest = 1ULL << 31U;
    const auto bytes =
        std::bit_ceil(std::max<std::uint64_t>(member_sectors * sector_bytes / regions, 4 * MiB));
    return static_cast<std::uint32_t>(std::min(bytes, largest));
}

std::uint64_t region_count(std::uint64_t member_sectors, std::uint32_t region) {
    const auto sectors = region / sector_bytes;
    return (member_sectors + sectors - 1) / sectors;
}

}  // namespace

Bytes encode_sim_record(const SimRecord& record) {
    Bytes bytes(sim_record_bytes);
    RawSuperblock raw{};
    raw.magic = htole32(raid_magic);
    raw.compat_features = htole32(supports_v190);
    raw.num_devices = htole32(record.devices);
    raw.array_position = htole32(record.position);
    raw.events = htole64(record.events);
    std::array<std::uint64_t, 4> failed{};
    for (std::size_t row = 0; row < record.failed.size(); ++row) {
        failed.at(row / 64) |= record.failed[row] ? 1ULL << (row % 64) : 0;
    }
    raw.failed_devices = htole64(failed[0]);
    for (std::size_t i = 0; i < raw.extended_failed_devices.size(); ++i) {
        raw.extended_failed_devices.at(i) = htole64(failed.at(i + 1));
    }
    raw.disk_recovery_offset = htole64(record.recovery_offset);
    raw.array_resync_offset = htole64(record.resync_offset);
    raw.level = raw.new_level = htole32(record.level);
    raw.layout = raw.new_layout = htole32(record.layout);
    raw.stripe_sectors = raw.new_stripe_sectors = htole32(record.strip_sectors);
    raw.reshape_position = htole64(max_sector);
    raw.array_sectors = htole64(record.array_sectors);
    raw.sectors = htole64(record.member_sectors);
    std::memcpy(bytes.data(), &raw, sizeof(raw));

    RawBitmap bitmap{};
    const auto region = region_bytes(record.member_sectors);
    const auto regions = region_count(record.member_sectors, region);
    bitmap.magic = htole32(bitmap_magic);
    bitmap.version = htole32(4);
    bitmap.events = htole64(record.events);
    bitmap.sync_sectors = htole64(record.member_sectors);
    bitmap.chunk_bytes = htole32(region);
    bitmap.daemon_sleep = htole32(5);
    std::memcpy(bytes.data() + record_page_bytes, &bitmap, sizeof(bitmap));
    const auto bits = std::span(bytes).subspan(record_page_bytes + sizeof(bitmap));
    // md leaves the bits behind the last region set.
    const auto partial = regions / 8;
    if (partial < bits.size()) {
        std::memset(bits.data() + partial, 0xff, bits.size() - partial);
        bits[partial] = std::byte{0xff} << (regions % 8);
    }
    if (record.dirty) {
        bits[0] |= std::byte{1};
    }
    return bytes;
}

Result<std::optional<SimRecord>> decode_sim_record(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(RawSuperblock)) {
        return fail(Errc::corrupt, "dm-raid superblock cut short at {} bytes", bytes.size());
    }
    const auto raw = load<RawSuperblock>(bytes);
    if (raw.magic == 0) {
        return std::optional<SimRecord>();
    }
    if (le32toh(raw.magic) != raid_magic) {
        return fail(Errc::corrupt, "no dm-raid superblock where one was expected");
    }
    SimRecord record;
    record.devices = le32toh(raw.num_devices);
    record.position = le32toh(raw.array_position);
    record.events = le64toh(raw.events);
    for (std::size_t row = 0; row < record.failed.size(); ++row) {
        const auto word =
            row < 64 ? raw.failed_devices : raw.extended_failed_devices.at(row / 64 - 1);
        record.failed[row] = (le64toh(word) >> (row % 64) & 1U) != 0;
    }
    record.recovery_offset = le64toh(raw.disk_recovery_offset);
    record.resync_offset = le64toh(raw.array_resync_offset);
    record.level = le32toh(raw.level);
    record.layout = le32toh(raw.layout);
    record.strip_sectors = le32toh(raw.stripe_sectors);
    record.array_sectors = le64toh(raw.array_sectors);
    record.member_sectors = le64toh(raw.sectors);
    if (bytes.size() < sim_record_bytes) {
        return std::optional(record);
    }
    const auto bitmap = load<RawBitmap>(bytes.subspan(record_page_bytes));
    const auto region = le32toh(bitmap.chunk_bytes);
    if (le32toh(bitmap.magic) == bitmap_magic && region >= sector_bytes) {
        const auto bits = bytes.subspan(record_page_bytes + sizeof(bitmap));
        const auto regions = std::min<std::uint64_t>(
            region_count(le64toh(bitmap.sync_sectors), region), bits.size() * 8);
        for (std::uint64_t bit = 0; bit < regions && !record.dirty; ++bit) {
            record.dirty = (bits[bit / 8] >> (bit % 8) & std::byte{1}) != std::byte{0};
        }
    }
    return std::optional(record);
}

MemberRecord member_record(const SimRecord& record) {
    MemberRecord result;
    result.events = record.events;
    result.rebuilt = record.recovery_offset == max_sector;
    result.rebuilt_sectors = result.rebuilt ? 0 : record.recovery_offset;
    result.resync_pending = record.resync_offset != max_sector;
    result.dirty = record.dirty;
    for (std::size_t row = 0; row < record.failed.size(); ++row) {
        if (record.failed[row]) {
            result.failed_rows.push_back(static_cast<int>(row));
        }
    }
    return result;
}

}  // namespace perch
