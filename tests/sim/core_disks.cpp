// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_disks.hpp"

#include <span>
#include <stdexcept>

#include "util/bytes.hpp"

namespace perch::test {

namespace {

perch_map_page clean_map() {
    perch_map_page page{};
    std::memcpy(page.magic, PERCH_MAP_MAGIC, sizeof(page.magic));
    std::memcpy(page.vd_uuid, vd_uuid.data(), vd_uuid.size());
    page.crc32c = htole32(crc32c(std::as_bytes(std::span(&page, 1))));
    return page;
}

void set_instance(std::uint8_t* to, std::uint64_t number) {
    std::memcpy(to, &number, sizeof(number));
}

/// As userspace writes it when a drive is assigned: of no epoch yet.
perch_superblock fresh_superblock(const CoreShape& shape, unsigned member, std::uint64_t instance) {
    perch_superblock superblock{};
    std::memcpy(superblock.magic, PERCH_SUPERBLOCK_MAGIC, sizeof(superblock.magic));
    superblock.version = htole32(PERCH_SUPERBLOCK_VERSION);
    std::memcpy(superblock.vd_uuid, vd_uuid.data(), vd_uuid.size());
    set_instance(superblock.instance, instance);
    superblock.update_counter = htole64(1);
    superblock.row = htole32(member);
    superblock.members = htole32(shape.members);
    superblock.members_per_span = htole32(shape.per_span);
    superblock.owner = htole32(PERCH_OWNER_PERCH);
    superblock.entries = htole32(shape.members);
    for (unsigned row = 0; row < shape.members; ++row) {
        superblock.member[row].row = htole16(static_cast<std::uint16_t>(row));
        superblock.member[row].state = PERCH_MEMBER_ABSENT;
    }
    return superblock;
}

void seal(perch_superblock& superblock) {
    superblock.crc32c = 0;
    superblock.crc32c = htole32(crc32c(std::as_bytes(std::span(&superblock, 1))));
}

}  // namespace

geometry make_geometry(const CoreShape& shape) {
    geometry result{};
    if (geometry_init(&result, shape.level, shape.members, shape.per_span, shape.strip,
                      std::uint64_t{shape.strip} * shape.rows) != 0) {
        throw std::invalid_argument("no such geometry");
    }
    return result;
}

std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

void fill_sector(std::uint8_t* to, std::uint64_t id, std::uint64_t sector) {
    std::array<std::uint64_t, SECTOR_BYTES / 8> words{};
    for (std::size_t i = 0; id != 0 && i < words.size(); ++i) {
        words[i] = i == 0 ? id : mixed(id * 1000003 + sector * 64 + i);
    }
    std::memcpy(to, words.data(), SECTOR_BYTES);
}

std::uint64_t get_id(const std::uint8_t* sector) {
    std::uint64_t id;
    std::memcpy(&id, sector, sizeof(id));
    return id;
}

Disk blank_disk(const CoreShape& shape, unsigned member, std::uint64_t instance) {
    Disk disk;
    disk.content.resize(data_offset + std::size_t{shape.strip} * shape.rows * SECTOR_BYTES);
    // Whatever was on it before: nobody may take it for data.
    for (std::size_t i = data_offset; i < disk.content.size(); ++i) {
        disk.content[i] = static_cast<std::uint8_t>(0xb0 + i % 7);
    }
    auto superblock = fresh_superblock(shape, member, instance);
    seal(superblock);
    put(disk.content, 0, superblock);
    return disk;
}

Disk first_disk(const CoreShape& shape, unsigned member) {
    Disk disk;
    disk.content.resize(data_offset + std::size_t{shape.strip} * shape.rows * SECTOR_BYTES);
    auto superblock = fresh_superblock(shape, member, member + 1);
    superblock.epoch_number = htole64(1);
    superblock.epoch_nonce[0] = 1;
    superblock.flags = htole32(PERCH_SUPERBLOCK_CLEAN);
    for (unsigned row = 0; row < shape.members; ++row) {
        set_instance(superblock.member[row].instance, row + 1);
        superblock.member[row].state = PERCH_MEMBER_IN_SYNC;
    }
    seal(superblock);
    put(disk.content, 0, superblock);
    put(disk.content, map_offset, clean_map());
    return disk;
}

std::size_t offset_of(const io& command) {
    const auto bytes = command.sector * SECTOR_BYTES;
    switch (command.area) {
        case IO_SUPERBLOCK:
            return bytes / PERCH_SUPERBLOCK_COPY_STRIDE * superblock_bytes;
        case IO_DIRTY_MAP:
            return map_offset + bytes;
        case IO_BAD_RANGES:
            return bad_offset + bytes / PERCH_BAD_COPY_STRIDE * bad_bytes;
        default:
            return data_offset + bytes;
    }
}

}  // namespace perch::test
