// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/dm/dmraid_format.hpp"

#include <algorithm>
#include <array>

#include "engine/dm/words.hpp"
#include "util/units.hpp"

namespace perch::dm {

namespace {

/// md's own ceiling is 200 MB/s by default, a tenth of what a drive can do; KiB/s per member.
constexpr int max_recovery_rate = 4'000'000;

struct RaidSuperblock {  // struct dm_raid_superblock
    std::uint32_t magic;
    std::uint32_t compat_features;
    std::uint32_t num_devices;
    std::uint32_t array_position;
    std::uint64_t events;
    std::uint64_t failed_devices;
    std::uint64_t disk_recovery_offset;
    std::uint64_t array_resync_offset;
};
constexpr std::uint32_t raid_magic = 0x64526D44;  // "DmRd"
constexpr std::uint64_t recovered = UINT64_MAX;   // MaxSector: nothing left to recover
constexpr int max_recorded_rows = 64;

/// struct bitmap_super_s (drivers/md/md-bitmap.h), its first fields; 256 bytes before the bits.
struct BitmapHeader {
    std::uint32_t magic;
    std::uint32_t version;
    std::array<std::uint8_t, 16> uuid;
    std::uint64_t events;
    std::uint64_t events_cleared;
    std::uint64_t sync_sectors;
    std::uint32_t state;
    std::uint32_t chunk_bytes;
};
constexpr std::uint32_t bitmap_magic = 0x6d746962;
constexpr std::size_t bitmap_offset = 4096;
constexpr std::size_t bitmap_header_bytes = 256;

/// Whether the write-intent bitmap marks any region. A clean stop leaves none: after any other, the
/// parity of marked regions is unknown, and dm-raid (6.1) does nothing about it by itself, because
/// it takes its resync position from the superblock alone.
bool bitmap_dirty(std::span<const std::byte> metadata) {
    if (metadata.size() < bitmap_offset + bitmap_header_bytes) {
        return false;
    }
    const auto bitmap = metadata.subspan(bitmap_offset);
    const auto header = perch::load<BitmapHeader>(bitmap);
    const auto chunk = le32toh(header.chunk_bytes);
    if (le32toh(header.magic) != bitmap_magic || chunk < sector_bytes) {
        return false;
    }
    const auto bits = bitmap.subspan(bitmap_header_bytes);
    const auto chunk_sectors = chunk / sector_bytes;
    // Bits beyond the last region are set when md makes a new bitmap, and mean nothing.
    const auto regions = std::min<std::uint64_t>(
        (le64toh(header.sync_sectors) + chunk_sectors - 1) / chunk_sectors, bits.size() * 8);
    for (std::uint64_t region = 0; region < regions; ++region) {
        if ((std::to_integer<unsigned>(bits[region / 8]) >> (region % 8) & 1U) != 0) {
            return true;
        }
    }
    return false;
}

/// The layouts that DESIGN.md section 3 names, which md, dm-raid and (RAID6) DDF share.
std::string_view raid_type(RaidLevel level) {
    switch (level) {
        case RaidLevel::raid1:
            return "raid1";
        case RaidLevel::raid10:
            return "raid10";
        case RaidLevel::raid6:
        case RaidLevel::raid60:
            return "raid6_nc";
        default:
            return "raid5_ls";
    }
}

EngineTask parse_task(std::string_view action) {
    constexpr std::array<std::pair<std::string_view, EngineTask>, 6> names{
        {{"idle", EngineTask::none},
         {"frozen", EngineTask::none},
         {"resync", EngineTask::resync},
         {"recover", EngineTask::rebuild},
         {"check", EngineTask::check},
         // Rewrites what does not match: also how dm-raid calls a resync that it continues.
         {"repair", EngineTask::resync}}};
    return look_up(names, action, EngineTask::other);
}

/// During a resync dm-raid prints 'a' for every member although all are trusted.
MemberHealth parse_health(char letter, EngineTask task) {
    switch (letter) {
        case 'A':
            return MemberHealth::in_sync;
        case 'a':
            return task == EngineTask::resync ? MemberHealth::in_sync : MemberHealth::rebuilding;
        case '-':
            return MemberHealth::absent;
        default:
            return MemberHealth::failed;
    }
}

}  // namespace

std::string raid_params(RaidLevel level, std::uint64_t strip_bytes,
                        const std::vector<RaidDevices>& devices) {
    // Options in the order in which the kernel prints them.
    std::string options = fmt::format("{}", strip_bytes / sector_bytes);
    int words = 1;
    for (std::size_t row = 0; row < devices.size(); ++row) {
        if (devices[row].rebuild) {
            options += fmt::format(" rebuild {}", row);
            words += 2;
        }
    }
    options += fmt::format(" max_recovery_rate {}", max_recovery_rate);
    words += 2;
    if (level == RaidLevel::raid10) {
        options += " raid10_copies 2 raid10_format near";
        words += 4;
    }
    std::string line = fmt::format("{} {} {} {}", raid_type(level), words, options, devices.size());
    for (const auto& device : devices) {
        line += device.data.empty() ? " - -" : fmt::format(" {} {}", device.metadata, device.data);
    }
    return line;
}

std::string striped_params(std::uint64_t chunk_bytes, const std::vector<std::string>& devices) {
    auto line = fmt::format("{} {}", devices.size(), chunk_bytes / sector_bytes);
    for (const auto& device : devices) {
        line += fmt::format(" {} 0", device);
    }
    return line;
}

Result<std::vector<std::string>> parse_striped_devices(std::string_view params) {
    const auto words = split(params);
    std::size_t count = 0;
    if (words.size() < 2 || !to_number(words[0], count) || words.size() != 2 + 2 * count) {
        return fail(Errc::io, "unexpected striped table '{}'", params);
    }
    std::vector<std::string> devices;
    for (std::size_t i = 2; i < words.size(); i += 2) {
        devices.emplace_back(words[i]);
    }
    return devices;
}

Result<std::vector<RaidDevices>> parse_raid_devices(std::string_view params) {
    const auto words = split(params);
    std::size_t options = 0;
    std::size_t count = 0;
    if (words.size() < 3 || !to_number(words[1], options) || options > words.size() ||
        words.size() < options + 3 || !to_number(words[2 + options], count) ||
        words.size() != 3 + options + 2 * count) {
        return fail(Errc::io, "unexpected dm-raid table '{}'", params);
    }
    std::vector<RaidDevices> devices;
    const auto name = [](std::string_view word) {
        return word == "-" ? std::string() : std::string(word);
    };
    for (std::size_t i = 3 + options; i < words.size(); i += 2) {
        devices.push_back({name(words[i]), name(words[i + 1]), false});
    }
    return devices;
}

Result<EngineStatus> parse_raid_status(std::string_view params) {
    // <type> <#devices> <health> <done>/<total> <action> <mismatches> …
    const auto words = split(params);
    EngineStatus status;
    std::size_t count = 0;
    if (words.size() < 6 || !to_number(words[1], count) || words[2].size() != count ||
        !to_number(words[5], status.mismatches)) {
        return fail(Errc::io, "unexpected dm-raid status '{}'", params);
    }
    if (!to_fraction(words[3], status.task_done_sectors, status.task_total_sectors)) {
        return fail(Errc::io, "unexpected dm-raid progress '{}'", words[3]);
    }
    status.task = parse_task(words[4]);
    // Between two steps of a resync dm-raid may say "idle" while every letter is still 'a'.
    if (status.task == EngineTask::none && words[2].find('a') != std::string_view::npos &&
        words[2].find('A') == std::string_view::npos) {
        status.task = EngineTask::resync;
    }
    for (const char letter : words[2]) {
        status.members.push_back(parse_health(letter, status.task));
    }
    return status;
}

Result<std::optional<MemberRecord>> decode_superblock(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(RaidSuperblock)) {
        return fail(Errc::corrupt, "dm-raid superblock cut short at {} bytes", bytes.size());
    }
    const auto raw = perch::load<RaidSuperblock>(bytes);
    if (raw.magic == 0) {
        return std::optional<MemberRecord>();
    }
    if (le32toh(raw.magic) != raid_magic) {
        return fail(Errc::corrupt, "no dm-raid superblock where one was expected");
    }
    MemberRecord record;
    record.events = le64toh(raw.events);
    const auto offset = le64toh(raw.disk_recovery_offset);
    record.rebuilt = offset == recovered;
    record.resync_pending = le64toh(raw.array_resync_offset) != recovered;
    record.dirty = bitmap_dirty(bytes);
    record.rebuilt_sectors = record.rebuilt ? 0 : offset;
    const auto failed = le64toh(raw.failed_devices);
    for (int row = 0; row < max_recorded_rows; ++row) {
        if ((failed >> row & 1U) != 0) {
            record.failed_rows.push_back(row);
        }
    }
    return std::optional(record);
}

Result<Bytes> rewrite_superblock(std::span<const std::byte> bytes, std::uint64_t events,
                                 const std::vector<int>& failed_rows) {
    const auto record = decode_superblock(bytes);
    if (!record || !*record || bytes.size() < bitmap_offset) {
        return fail(Errc::corrupt, "no dm-raid superblock to rewrite");
    }
    auto raw = perch::load<RaidSuperblock>(bytes);
    raw.events = htole64(events);
    std::uint64_t failed = 0;
    for (const int row : failed_rows) {
        if (row < max_recorded_rows) {
            failed |= 1ULL << row;
        }
    }
    raw.failed_devices = htole64(failed);
    Bytes result(bytes.begin(), bytes.begin() + bitmap_offset);
    std::memcpy(result.data(), &raw, sizeof(raw));
    return result;
}

}  // namespace perch::dm
