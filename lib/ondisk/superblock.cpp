// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/superblock.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <set>
#include <span>

namespace perch {

namespace {

constexpr std::array<std::pair<RaidLevel, std::uint32_t>, 7> level_codes{{
    {RaidLevel::raid0, PERCH_LEVEL_RAID0},
    {RaidLevel::raid1, PERCH_LEVEL_RAID1},
    {RaidLevel::raid5, PERCH_LEVEL_RAID5},
    {RaidLevel::raid6, PERCH_LEVEL_RAID6},
    {RaidLevel::raid10, PERCH_LEVEL_RAID10},
    {RaidLevel::raid50, PERCH_LEVEL_RAID50},
    {RaidLevel::raid60, PERCH_LEVEL_RAID60},
}};

constexpr auto last_counter = std::numeric_limits<std::uint64_t>::max();

// In the raw structure, so that encoding and decoding hold to the same rules. An empty text: fine.

std::string check_tasks(const perch_superblock& raw) {
    for (const auto& task : std::span(raw.tasks)) {
        const auto row = le32toh(task.row);
        if (le32toh(task.kind) > PERCH_TASK_RESHAPE ||
            (row != PERCH_TASK_ALL_ROWS && row >= le32toh(raw.members))) {
            return fmt::format("a task of kind {} on row {}", le32toh(task.kind), row);
        }
    }
    return "";
}

std::string check_members(const perch_superblock& raw) {
    const auto entries = le32toh(raw.entries);
    if (entries > PERCH_MAX_MEMBERS) {
        return fmt::format("{} member entries", entries);
    }
    std::set<std::array<std::uint8_t, sizeof(perch_member::instance)>> seen;
    for (const auto& member : std::span(raw.member).first(entries)) {
        if (le16toh(member.row) >= le32toh(raw.members) || member.state == PERCH_MEMBER_UNUSED ||
            member.state > PERCH_MEMBER_FAILED || (member.flags & ~PERCH_MEMBER_LOG_IGNORED) != 0) {
            return fmt::format("a member in row {} with state {} and flags {:#x}",
                               le16toh(member.row), member.state, member.flags);
        }
        const auto recovered = le64toh(member.recovered_bytes);
        if (recovered > le64toh(raw.data_bytes) ||
            (recovered != 0 && member.state != PERCH_MEMBER_REBUILDING)) {
            return fmt::format("a member in row {} recovered up to {}", le16toh(member.row),
                               recovered);
        }
        const auto instance = std::to_array(member.instance);
        const bool nobody = std::all_of(instance.begin(), instance.end(), std::logical_not());
        if (nobody ? member.state != PERCH_MEMBER_ABSENT : !seen.insert(instance).second) {
            return fmt::format("a member in row {} that is {}", le16toh(member.row),
                               nobody ? "nobody" : "there twice");
        }
    }
    return "";
}

std::string check_geometry(const perch_superblock& raw) {
    const auto members = le32toh(raw.members);
    const auto per_span = le32toh(raw.members_per_span);
    if (members == 0 || members > PERCH_MAX_MEMBERS || per_span == 0 || members % per_span != 0) {
        return fmt::format("{} members in spans of {}", members, per_span);
    }
    if (le32toh(raw.row) >= members) {
        return fmt::format("row {} of {}", le32toh(raw.row), members);
    }
    const auto strip = le32toh(raw.strip_bytes);
    const auto block = le32toh(raw.block_bytes);
    if ((block != 512 && block != PERCH_METADATA_UNIT) || strip < block ||
        !std::has_single_bit(strip)) {
        return fmt::format("strips of {} and blocks of {} bytes", strip, block);
    }
    const auto region = le64toh(raw.region_bytes);
    if (region != 0 && (region < PERCH_METADATA_UNIT || !std::has_single_bit(region))) {
        return fmt::format("regions of {} bytes", region);
    }
    const auto data = le64toh(raw.data_bytes);
    const auto offset = le64toh(raw.data_offset);
    if (offset < PERCH_EXTENTS_OFFSET || offset % PERCH_EXTENT_ALIGN != 0 || data % block != 0 ||
        data > last_counter - offset) {
        return fmt::format("data of {} bytes at {}", data, offset);
    }
    const auto vd = le64toh(raw.vd_bytes);
    if ((vd != 0 && (vd - 1) / members >= data) || vd % block != 0) {
        return fmt::format("a VD of {} bytes on {} members of {}", vd, members, data);
    }
    return "";
}

/// Why no writer of this version writes that.
std::string nonsense(const perch_superblock& raw) {
    const auto level = le32toh(raw.level);
    if (std::none_of(level_codes.begin(), level_codes.end(),
                     [&](const auto& row) { return row.second == level; })) {
        return fmt::format("level {}", level);
    }
    const auto owner = le32toh(raw.owner);
    if (owner != PERCH_OWNER_PERCH && owner != PERCH_OWNER_DM_RAID) {
        return fmt::format("owner {}", owner);
    }
    if ((le32toh(raw.flags) & ~(PERCH_SUPERBLOCK_CLEAN | PERCH_SUPERBLOCK_TOMBSTONE)) != 0) {
        return fmt::format("flags {:#x}", le32toh(raw.flags));
    }
    if (le64toh(raw.update_counter) == last_counter) {
        return "an update counter at its end";  // the next write would begin again below it
    }
    for (auto* check : {check_geometry, check_tasks, check_members}) {
        if (auto text = check(raw); !text.empty()) {
            return text;
        }
    }
    return "";
}

void store(std::uint8_t (&place)[16], const Uuid& uuid) {  // NOLINT(*-avoid-c-arrays)
    std::copy(uuid.bytes.begin(), uuid.bytes.end(), std::begin(place));
}

Uuid uuid_from(const std::uint8_t (&place)[16]) {  // NOLINT(*-avoid-c-arrays)
    return {std::to_array(place)};
}

perch_superblock to_raw(const Superblock& superblock) {
    perch_superblock raw{};
    std::memcpy(raw.magic, PERCH_SUPERBLOCK_MAGIC, sizeof(raw.magic));
    raw.version = htole32(PERCH_SUPERBLOCK_VERSION);
    store(raw.vd_uuid, superblock.vd);
    store(raw.instance, superblock.instance);
    store(raw.controller_uuid, superblock.controller);
    raw.update_counter = htole64(superblock.update_counter);
    raw.epoch_number = htole64(superblock.epoch.number);
    store(raw.epoch_nonce, superblock.epoch.nonce);
    store(raw.epoch_parent_nonce, superblock.epoch.parent);
    raw.log_generation = htole64(superblock.log_generation);
    raw.row = htole32(superblock.row);
    raw.members = htole32(static_cast<std::uint32_t>(superblock.shape.members));
    raw.members_per_span = htole32(static_cast<std::uint32_t>(superblock.shape.per_span));
    const auto* level = std::find_if(level_codes.begin(), level_codes.end(), [&](const auto& row) {
        return row.first == superblock.shape.level;
    });
    raw.level = htole32(level->second);
    raw.owner = htole32(static_cast<std::uint32_t>(superblock.owner));
    raw.flags = htole32((superblock.clean ? PERCH_SUPERBLOCK_CLEAN : 0U) |
                        (superblock.tombstone ? PERCH_SUPERBLOCK_TOMBSTONE : 0U));
    raw.strip_bytes = htole32(superblock.strip_bytes);
    raw.block_bytes = htole32(superblock.block_bytes);
    raw.data_bytes = htole64(superblock.data_bytes);
    raw.vd_bytes = htole64(superblock.vd_bytes);
    raw.region_bytes = htole64(superblock.region_bytes);
    raw.data_offset = htole64(superblock.data_offset);
    raw.reshape_position = htole64(superblock.reshape_position);
    const auto tasks = std::span(raw.tasks);
    for (std::size_t i = 0; i < superblock.tasks.size(); ++i) {
        const auto& task = superblock.tasks[i];
        tasks[i] = {htole32(static_cast<std::uint32_t>(task.kind)),
                    htole32(task.row.value_or(PERCH_TASK_ALL_ROWS)), htole64(task.bytes)};
    }
    raw.entries = htole32(static_cast<std::uint32_t>(superblock.members.size()));
    const auto entries = std::span(raw.member);
    for (std::size_t i = 0; i < superblock.members.size(); ++i) {
        const auto& member = superblock.members[i];
        auto& entry = entries[i];
        store(entry.instance, member.instance);
        entry.recovered_bytes = htole64(member.recovered_bytes);
        entry.row = htole16(static_cast<std::uint16_t>(member.row));
        entry.state = static_cast<std::uint8_t>(member.state);
        entry.flags = member.log_ignored ? PERCH_MEMBER_LOG_IGNORED : 0;
    }
    return raw;
}

Superblock from_raw(const perch_superblock& raw) {
    Superblock superblock;
    superblock.vd = uuid_from(raw.vd_uuid);
    superblock.instance = uuid_from(raw.instance);
    superblock.controller = uuid_from(raw.controller_uuid);
    superblock.update_counter = le64toh(raw.update_counter);
    superblock.epoch = {le64toh(raw.epoch_number), uuid_from(raw.epoch_nonce),
                        uuid_from(raw.epoch_parent_nonce)};
    superblock.log_generation = le64toh(raw.log_generation);
    superblock.row = le32toh(raw.row);
    const auto* level = std::find_if(level_codes.begin(), level_codes.end(), [&](const auto& row) {
        return row.second == le32toh(raw.level);
    });
    superblock.shape = {level->first, static_cast<int>(le32toh(raw.members)),
                        static_cast<int>(le32toh(raw.members_per_span))};
    superblock.owner = static_cast<EngineKind>(le32toh(raw.owner));
    superblock.clean = (le32toh(raw.flags) & PERCH_SUPERBLOCK_CLEAN) != 0;
    superblock.tombstone = (le32toh(raw.flags) & PERCH_SUPERBLOCK_TOMBSTONE) != 0;
    superblock.strip_bytes = le32toh(raw.strip_bytes);
    superblock.block_bytes = le32toh(raw.block_bytes);
    superblock.data_bytes = le64toh(raw.data_bytes);
    superblock.vd_bytes = le64toh(raw.vd_bytes);
    superblock.region_bytes = le64toh(raw.region_bytes);
    superblock.data_offset = le64toh(raw.data_offset);
    superblock.reshape_position = le64toh(raw.reshape_position);
    for (const auto& task : std::span(raw.tasks)) {
        if (le32toh(task.kind) != PERCH_TASK_NONE) {
            const auto row = le32toh(task.row);
            superblock.tasks.push_back(
                {static_cast<TaskKind>(le32toh(task.kind)),
                 row == PERCH_TASK_ALL_ROWS ? std::nullopt : std::optional(row),
                 le64toh(task.cursor_bytes)});
        }
    }
    for (const auto& entry : std::span(raw.member).first(le32toh(raw.entries))) {
        superblock.members.push_back(
            {uuid_from(entry.instance), le16toh(entry.row), static_cast<SyncState>(entry.state),
             (entry.flags & PERCH_MEMBER_LOG_IGNORED) != 0, le64toh(entry.recovered_bytes)});
    }
    return superblock;
}

std::uint64_t copy_offset(std::uint64_t extent_offset, unsigned copy) {
    return extent_offset + copy * PERCH_SUPERBLOCK_COPY_STRIDE;
}

using Copies = std::array<Result<Superblock>, PERCH_SUPERBLOCK_COPIES>;

/// Both copies. An error when one must not be passed over.
Result<Copies> read_copies(BlockDevice& drive, std::uint64_t extent_offset) {
    Copies copies;
    for (unsigned copy = 0; copy < PERCH_SUPERBLOCK_COPIES; ++copy) {
        auto& found = copies.at(copy);
        found = drive.read(copy_offset(extent_offset, copy), PERCH_SUPERBLOCK_BYTES)
                    .and_then([](const Bytes& bytes) { return decode_superblock(bytes); });
        if (!found && found.error().code != Errc::not_found &&
            found.error().code != Errc::corrupt) {
            return tl::make_unexpected(found.error());
        }
    }
    return copies;
}

/// The number of the valid copy with the higher counter.
std::optional<unsigned> newest(const Copies& copies) {
    if (copies[0] && copies[1]) {
        return copies[1]->update_counter > copies[0]->update_counter ? 1U : 0U;
    }
    if (!copies[0] && !copies[1]) {
        return std::nullopt;
    }
    return copies[0] ? 0U : 1U;
}

}  // namespace

Result<Bytes> encode_superblock(const Superblock& superblock) {
    if (superblock.members.size() > PERCH_MAX_MEMBERS ||
        superblock.tasks.size() > PERCH_SUPERBLOCK_TASKS ||
        std::any_of(superblock.members.begin(), superblock.members.end(),
                    [](const auto& member) { return member.row >= PERCH_MAX_MEMBERS; })) {
        return fail(Errc::invalid_argument, "a superblock with {} members and {} tasks",
                    superblock.members.size(), superblock.tasks.size());
    }
    auto raw = to_raw(superblock);
    if (const auto text = nonsense(raw); !text.empty()) {
        return fail(Errc::invalid_argument, "a superblock with {}", text);
    }
    raw.crc32c = htole32(crc32c(bytes_of(raw)));
    const auto bytes = bytes_of(raw);
    return Bytes(bytes.begin(), bytes.end());
}

Result<Superblock> decode_superblock(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof(perch_superblock)) {
        return fail(Errc::corrupt, "superblock cut short at {} bytes", bytes.size());
    }
    auto raw = load<perch_superblock>(bytes);
    if (std::memcmp(raw.magic, PERCH_SUPERBLOCK_MAGIC, sizeof(raw.magic)) != 0) {
        const auto whole = bytes.first(sizeof(raw));
        // A write that was cut off may have left its end and not its beginning.
        if (std::any_of(whole.begin(), whole.end(),
                        [](std::byte b) { return b != std::byte{0}; })) {
            return fail(Errc::corrupt, "something that is no superblock in its place");
        }
        return fail(Errc::not_found, "no superblock");
    }
    const auto stored = le32toh(raw.crc32c);
    raw.crc32c = 0;
    if (crc32c(bytes_of(raw)) != stored) {
        return fail(Errc::corrupt, "the superblock's checksum does not match");
    }
    // This version has no way to use a VD without ever writing its superblock, so a feature that
    // forbids writing forbids all.
    const auto features =
        (le64toh(raw.feature_incompat) & ~PERCH_INCOMPAT_KNOWN) | le64toh(raw.feature_ro_compat);
    if (le32toh(raw.version) > PERCH_SUPERBLOCK_VERSION || features != 0) {
        return fail(Errc::incompatible,
                    "the superblock was written by a newer Perch (version {}, features {:#x}); "
                    "update this one",
                    le32toh(raw.version), features);
    }
    if (const auto text = nonsense(raw); !text.empty()) {
        return fail(Errc::corrupt, "a superblock with {}, which this version never wrote", text);
    }
    return from_raw(raw);
}

Result<std::optional<Superblock>> read_superblock(BlockDevice& drive, std::uint64_t extent_offset) {
    const auto copies = read_copies(drive, extent_offset);
    if (!copies) {
        return tl::make_unexpected(copies.error());
    }
    if (const auto copy = newest(*copies)) {
        return std::optional(*copies->at(*copy));
    }
    // The first write fills copy 0 first: if that one is damaged and the other empty, it was cut
    // off.
    if (const auto& last = copies->back().error(); last.code == Errc::corrupt) {
        return tl::make_unexpected(last);
    }
    return std::optional<Superblock>();
}

Result<void> write_superblock(BlockDevice& drive, std::uint64_t extent_offset,
                              Superblock superblock) {
    const auto copies = read_copies(drive, extent_offset);
    if (!copies) {
        return tl::make_unexpected(copies.error());
    }
    const auto write = [&](unsigned copy, std::uint64_t counter) {
        superblock.update_counter = counter;
        return encode_superblock(superblock).and_then([&](const Bytes& bytes) {
            return drive.write(copy_offset(extent_offset, copy), bytes);
        });
    };
    const auto current = newest(*copies);
    if (!current) {
        return write(0, 1).and_then([&] { return write(1, 2); });
    }
    const auto& now = *copies->at(*current);
    if (now.vd != superblock.vd || now.instance != superblock.instance) {
        return fail(Errc::wrong_state,
                    "the extent holds the superblock of member {} of VD {}, that of member {} of "
                    "VD {} was to be written",
                    now.instance.str(), now.vd.str(), superblock.instance.str(),
                    superblock.vd.str());
    }
    if (now.tombstone && !superblock.tombstone) {
        return fail(Errc::wrong_state, "VD {} was deleted", now.vd.str());
    }
    return write(1 - *current, now.update_counter + 1);
}

}  // namespace perch
