// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/gpt.hpp"

#include <fcntl.h>
#include <libfdisk/libfdisk.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <limits>
#include <memory>

#include "ondisk/blkid_probe.hpp"
#include "uapi/perch_format.h"
#include "util/bytes.hpp"
#include "util/unique_fd.hpp"
#include "util/units.hpp"
#include "util/uuid.hpp"

namespace perch {

namespace {

struct ContextDeleter {
    void operator()(fdisk_context* context) const { fdisk_unref_context(context); }
};
struct PartitionDeleter {
    void operator()(fdisk_partition* partition) const { fdisk_unref_partition(partition); }
};
struct TypeDeleter {
    void operator()(fdisk_parttype* type) const { fdisk_unref_parttype(type); }
};
using ContextPtr = std::unique_ptr<fdisk_context, ContextDeleter>;
using PartitionPtr = std::unique_ptr<fdisk_partition, PartitionDeleter>;
using TypePtr = std::unique_ptr<fdisk_parttype, TypeDeleter>;

// libfdisk answers with negative errno values.
tl::unexpected<Error> fdisk_failure(const std::string& path, std::string_view doing, int rc) {
    return fail(Errc::io, "{}: {} failed: {}", path, doing, errno_text(-rc));
}

/// `fd` below 0: opens the path for reading.
Result<ContextPtr> open_context(int fd, const std::string& path,
                                std::uint32_t logical_block_bytes) {
    ContextPtr context(fdisk_new_context());
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
        fdisk_save_user_sector_size(context.get(), logical_block_bytes, logical_block_bytes);
    }
    fdisk_disable_dialogs(context.get(), 1);
    const int rc = fd < 0 ? fdisk_assign_device(context.get(), path.c_str(), 1)
                          : fdisk_assign_device_by_fd(context.get(), fd, path.c_str(), 0);
    if (rc != 0) {
        return fdisk_failure(path, "opening for its partition table", rc);
    }
    return context;
}

/// A new GPT in memory with Perch's partition alone.
Result<void> make_gpt(fdisk_context* context, const std::string& path,
                      const PartitionLayout& layout) {
    if (const int rc = fdisk_create_disklabel(context, "gpt"); rc != 0) {
        return fdisk_failure(path, "creating a GPT", rc);
    }
    const PartitionPtr partition(fdisk_new_partition());
    const TypePtr type(
        fdisk_label_parse_parttype(fdisk_get_label(context, nullptr), PERCH_GPT_TYPE_GUID));
    const auto sector = fdisk_get_sector_size(context);
    int rc = type ? 0 : -EINVAL;
    rc = rc != 0 ? rc : fdisk_partition_set_type(partition.get(), type.get());
    rc = rc != 0 ? rc : fdisk_partition_set_partno(partition.get(), 0);
    rc = rc != 0 ? rc : fdisk_partition_set_name(partition.get(), PERCH_GPT_PARTITION_NAME);
    rc = rc != 0 ? rc : fdisk_partition_set_start(partition.get(), layout.offset / sector);
    rc = rc != 0 ? rc : fdisk_partition_set_size(partition.get(), layout.length / sector);
    rc = rc != 0 ? rc : fdisk_partition_size_explicit(partition.get(), 1);
    rc = rc != 0 ? rc : fdisk_add_partition(context, partition.get(), nullptr);
    return rc == 0 ? Result<void>() : fdisk_failure(path, "making a GPT", rc);
}

/// Whether the kernel is made to take the table up.
enum class Reread {
    no,
    if_idle,  ///< partitions in use are those of the table already
    must,
};

/// Writes the table that the context holds.
Result<void> commit_gpt(fdisk_context* context, const std::string& path, Reread reread) {
    int rc = fdisk_write_disklabel(context);
    if (rc != 0) {
        return fdisk_failure(path, "writing the GPT", rc);
    }
    rc = reread == Reread::no ? 0 : fdisk_reread_partition_table(context);
    rc = reread == Reread::if_idle && rc == -EBUSY ? 0 : rc;
    // A regular file has no kernel partitions to re-read, and says so.
    if (rc != 0 && rc != -ENOTTY && rc != -EINVAL && rc != -ENOSYS) {
        return fdisk_failure(path, "making the kernel re-read the partition table", rc);
    }
    rc = fdisk_deassign_device(context, 0);
    return rc == 0 ? Result<void>() : fdisk_failure(path, "flushing the GPT", rc);
}

/// Where the context's table has Perch's partition; as find_partition.
Result<std::optional<PartitionLayout>> perch_partition(fdisk_context* context) {
    if (fdisk_is_labeltype(context, FDISK_DISKLABEL_GPT) == 0) {
        return std::optional<PartitionLayout>();
    }
    const auto sector = fdisk_get_sector_size(context);
    for (std::size_t number = 0; number < fdisk_get_npartitions(context); ++number) {
        fdisk_partition* raw = nullptr;
        if (fdisk_get_partition(context, number, &raw) != 0) {
            continue;
        }
        const PartitionPtr partition(raw);
        auto* type = fdisk_partition_get_type(raw);
        const char* guid = type == nullptr ? nullptr : fdisk_parttype_get_string(type);
        if (guid != nullptr && strcasecmp(guid, PERCH_GPT_TYPE_GUID) == 0) {
            if (fdisk_partition_get_partno(raw) != 0) {
                return fail(Errc::corrupt,
                            "its partition table was edited: Perch's partition is number {} and "
                            "must be number 1",
                            fdisk_partition_get_partno(raw) + 1);
            }
            return std::optional(PartitionLayout{fdisk_partition_get_start(raw) * sector,
                                                 fdisk_partition_get_size(raw) * sector});
        }
    }
    return std::optional<PartitionLayout>();
}

// libfdisk reads the backup when the primary copy is damaged, but does not say so, and sees no GPT
// at all without the protective MBR. So what is whole is checked here, by the UEFI specification
// 2.10, section 5: offsets and sizes in bytes.
constexpr std::size_t mbr_bytes = 512;
constexpr std::size_t mbr_entries = 446;
constexpr std::size_t mbr_entry_bytes = 16;
constexpr std::uint32_t min_header_bytes = 92;
constexpr std::uint32_t min_entry_bytes = 128;
constexpr std::uint64_t max_entries_bytes = MiB;

struct GptHeader {
    std::array<char, 8> signature;
    std::uint32_t revision;
    std::uint32_t header_bytes;
    std::uint32_t header_crc32;
    std::uint32_t reserved;
    std::uint64_t my_lba;
    std::uint64_t alternate_lba;
    std::uint64_t first_usable_lba;
    std::uint64_t last_usable_lba;
    std::array<std::uint8_t, 16> disk_guid;
    std::uint64_t entries_lba;
    std::uint32_t entries;
    std::uint32_t entry_bytes;
    std::uint32_t entries_crc32;
};

struct GptEntry {
    std::array<std::uint8_t, 16> type;
    std::array<std::uint8_t, 16> guid;
    std::uint64_t first_lba;
    std::uint64_t last_lba;
};

std::uint32_t crc32(std::span<const std::byte> bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return crc.checksum();
}

/// nullopt: not that many bytes are there, or they cannot be read.
std::optional<Bytes> read_exactly(int fd, std::uint64_t offset, std::size_t length) {
    Bytes bytes(length);
    std::size_t done = 0;
    while (done < length) {
        const auto got = pread(fd, &bytes[done], length - done, static_cast<off_t>(offset + done));
        if (got <= 0) {
            return std::nullopt;
        }
        done += static_cast<std::size_t>(got);
    }
    return bytes;
}

/// The type GUID as it stands in an entry: its first three fields are little-endian there.
std::array<std::uint8_t, 16> perch_type() {
    constexpr std::array<std::size_t, 16> order{3, 2, 1,  0,  5,  4,  7,  6,
                                                8, 9, 10, 11, 12, 13, 14, 15};
    const auto uuid = Uuid::parse(PERCH_GPT_TYPE_GUID).value();
    std::array<std::uint8_t, 16> type{};
    std::transform(order.begin(), order.end(), type.begin(),
                   [&](std::size_t place) { return uuid.bytes.at(place); });
    return type;
}

/// One copy of the table whose checksums hold.
struct GptCopy {
    std::optional<PartitionLayout> partition;  ///< if the first entry is Perch's
};

std::optional<GptCopy> read_copy(int fd, std::uint64_t lba, std::uint64_t last_lba,
                                 std::uint32_t block) {
    auto bytes = read_exactly(fd, lba * block, block);
    if (!bytes) {
        return std::nullopt;
    }
    const auto header = load<GptHeader>(*bytes);
    const auto header_bytes = le32toh(header.header_bytes);
    if (std::string_view(header.signature.data(), header.signature.size()) != "EFI PART" ||
        header_bytes < min_header_bytes || header_bytes > block || le64toh(header.my_lba) != lba) {
        return std::nullopt;
    }
    std::fill_n(bytes->begin() + offsetof(GptHeader, header_crc32), sizeof(header.header_crc32),
                std::byte{0});
    if (crc32(std::span(*bytes).first(header_bytes)) != le32toh(header.header_crc32)) {
        return std::nullopt;
    }
    const auto entry_bytes = le32toh(header.entry_bytes);
    const auto all_bytes = std::uint64_t{le32toh(header.entries)} * entry_bytes;
    if (entry_bytes < min_entry_bytes || all_bytes < entry_bytes || all_bytes > max_entries_bytes ||
        le64toh(header.entries_lba) > last_lba) {
        return std::nullopt;
    }
    const auto entries = read_exactly(fd, le64toh(header.entries_lba) * block, all_bytes);
    if (!entries || crc32(*entries) != le32toh(header.entries_crc32)) {
        return std::nullopt;
    }
    const auto entry = load<GptEntry>(*entries);
    const auto first = le64toh(entry.first_lba);
    const auto last = le64toh(entry.last_lba);
    if (entry.type != perch_type() || last < first || last > last_lba) {
        return GptCopy{};
    }
    return GptCopy{PartitionLayout{first * block, (last - first + 1) * block}};
}

bool has_protective_mbr(int fd) {
    const auto mbr = read_exactly(fd, 0, mbr_bytes);
    if (!mbr || mbr->at(510) != std::byte{0x55} || mbr->at(511) != std::byte{0xaa}) {
        return false;
    }
    // Both the kernel and libfdisk want one such entry that begins at block 1.
    for (auto entry = mbr_entries; entry < 510; entry += mbr_entry_bytes) {
        if (mbr->at(entry + 4) == std::byte{0xee} &&
            le32toh(load<std::uint32_t>(std::span(*mbr).subspan(entry + 8))) == 1) {
            return true;
        }
    }
    return false;
}

Result<std::uint64_t> last_block(int fd, const std::string& path, std::uint32_t block) {
    // Of a block device, too, this is the size.
    const auto size = lseek(fd, 0, SEEK_END);
    if (size < 0) {
        return fail(Errc::io, "{}: cannot read its size: {}", path, errno_text(errno));
    }
    const auto blocks = static_cast<std::uint64_t>(size) / block;
    if (blocks < 3) {
        return fail(Errc::too_small, "{} is too small for a partition table", path);
    }
    return blocks - 1;
}

/// What is left of a drive's table.
struct Table {
    std::uint64_t last_lba = 0;
    bool protective_mbr = false;
    std::optional<GptCopy> primary;
    std::optional<GptCopy> backup;
    [[nodiscard]] GptCopies copies() const {
        return {protective_mbr && primary.has_value(), backup.has_value()};
    }
};

Result<Table> read_table(int fd, const std::string& path, std::uint32_t block) {
    return last_block(fd, path, block).map([&](std::uint64_t last) {
        return Table{last, has_protective_mbr(fd), read_copy(fd, 1, last, block),
                     read_copy(fd, last, last, block)};
    });
}

Result<UniqueFd> open_reading(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) {
        return fail(Errc::io, "cannot open {}: {}", path, errno_text(errno));
    }
    return fd;
}

/// Without it libfdisk and the kernel see no GPT, whatever else is there.
Result<void> write_protective_mbr(int fd, const std::string& path, std::uint64_t last_lba) {
    const auto old = read_exactly(fd, 0, mbr_bytes);
    if (!old) {
        return fail(Errc::io, "{}: cannot read its first block: {}", path, errno_text(errno));
    }
    auto mbr = *old;
    std::fill(mbr.begin() + mbr_entries, mbr.end(), std::byte{0});
    // One entry over everything, from 0/0/2 to as far as cylinder, head and sector go.
    constexpr std::array<unsigned char, 8> head{0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff};
    const auto first = htole32(1U);
    const auto blocks = htole32(static_cast<std::uint32_t>(
        std::min<std::uint64_t>(last_lba, std::numeric_limits<std::uint32_t>::max())));
    std::memcpy(&mbr[mbr_entries], head.data(), head.size());
    std::memcpy(&mbr[mbr_entries + 8], &first, sizeof(first));
    std::memcpy(&mbr[mbr_entries + 12], &blocks, sizeof(blocks));
    mbr[510] = std::byte{0x55};
    mbr[511] = std::byte{0xaa};
    if (pwrite(fd, mbr.data(), mbr.size(), 0) != static_cast<ssize_t>(mbr.size()) ||
        fdatasync(fd) != 0) {
        return fail(Errc::io, "{}: writing its first block failed: {}", path, errno_text(errno));
    }
    return {};
}

/// Errc::data_found when blkid sees anything on the whole drive that is not a GPT or what is left
/// of one: somebody has begun to use it for something else, on purpose or not.
Result<void> check_nothing_foreign(int fd, const std::string& path) {
    const BlkidProbe probe(blkid_new_probe());
    if (!probe || blkid_probe_set_device(probe.get(), fd, 0, 0) != 0) {
        return fail(Errc::io, "cannot probe {} for signatures", path);
    }
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE);
    blkid_probe_enable_partitions(probe.get(), 1);
    const int rc = blkid_do_safeprobe(probe.get());
    if (rc == 1) {
        return {};
    }
    if (rc != 0 && rc != -2) {
        return fail(Errc::io, "probing {} for signatures failed", path);
    }
    std::string found = rc == -2 ? "several signatures" : "";
    for (const char* name : {"TYPE", "PTTYPE"}) {
        const char* value = nullptr;
        if (rc == 0 && blkid_probe_lookup_value(probe.get(), name, &value, nullptr) == 0 &&
            std::string_view(value) != "gpt" && std::string_view(value) != "PMBR") {
            found += found.empty() ? value : fmt::format(" and {}", value);
        }
    }
    if (!found.empty()) {
        return fail(Errc::data_found, "something else was written over it since ({})", found);
    }
    return {};
}

/// A place that Perch's writer can have chosen.
bool plausible(const PartitionLayout& partition, std::uint64_t last_lba, std::uint32_t block) {
    return partition.offset == PERCH_FRONT_RESERVE_BYTES &&
           partition.length % PERCH_EXTENT_ALIGN == 0 && extent_space(partition.length) > 0 &&
           partition.length < last_lba * block - partition.offset;
}

/// The table, if repair_gpt may put it right.
Result<Table> repairable_table(int fd, const std::string& path, const PartitionLayout& partition,
                               std::uint32_t block) {
    auto table = read_table(fd, path, block);
    if (!table) {
        return table;
    }
    if (!plausible(partition, table->last_lba, block)) {
        return fail(Errc::corrupt, "its label describes a partition that Perch never made");
    }
    // The one that libfdisk will read.
    if (const auto& source = table->primary ? table->primary : table->backup;
        source && source->partition != partition) {
        return fail(Errc::corrupt,
                    "the copy of its partition table that is left does not have Perch's partition "
                    "where the label says that it is");
    }
    return check_nothing_foreign(fd, path).map([&] { return *table; });
}

}  // namespace

Result<void> write_gpt(int fd, const std::string& path, const PartitionLayout& layout,
                       std::uint32_t logical_block_bytes) {
    return open_context(fd, path, logical_block_bytes).and_then([&](const ContextPtr& context) {
        // Stale signatures anywhere in the first sectors would make blkid ambivalent.
        fdisk_enable_wipe(context.get(), 1);
        return make_gpt(context.get(), path, layout).and_then([&] {
            return commit_gpt(context.get(), path, Reread::must);
        });
    });
}

Result<std::optional<PartitionLayout>> find_partition(const std::string& path,
                                                      std::uint32_t logical_block_bytes) {
    return open_context(-1, path, logical_block_bytes).and_then([](const ContextPtr& context) {
        return perch_partition(context.get());
    });
}

Result<GptCopies> check_gpt(const std::string& path, std::uint32_t logical_block_bytes) {
    return open_reading(path).and_then([&](const UniqueFd& fd) {
        return read_table(fd.get(), path, logical_block_bytes).map([](const Table& table) {
            return table.copies();
        });
    });
}

Result<void> can_repair_gpt(const std::string& path, const PartitionLayout& partition,
                            std::uint32_t logical_block_bytes) {
    return open_reading(path).and_then([&](const UniqueFd& fd) {
        return repairable_table(fd.get(), path, partition, logical_block_bytes)
            .map([](const Table&) {});
    });
}

Result<void> repair_gpt(int fd, const std::string& path, const PartitionLayout& partition,
                        std::uint32_t logical_block_bytes) {
    const auto table = repairable_table(fd, path, partition, logical_block_bytes);
    if (!table) {
        return tl::make_unexpected(table.error());
    }
    if (table->copies().whole()) {
        return {};
    }
    if (!table->protective_mbr) {
        if (auto done = write_protective_mbr(fd, path, table->last_lba); !done) {
            return done;
        }
    }
    const bool anew = !table->primary && !table->backup;
    return open_context(fd, path, logical_block_bytes).and_then([&](const ContextPtr& context) {
        const auto made = anew ? make_gpt(context.get(), path, partition) : Result<void>();
        return made.and_then([&]() -> Result<void> {
            // libfdisk has decided by itself which copy it reads.
            const auto place = perch_partition(context.get());
            if (!place || *place != partition) {
                return fail(Errc::corrupt, "{}: its partition table could not be read back", path);
            }
            // While the primary copy was whole, the kernel had the partitions.
            return commit_gpt(context.get(), path,
                              table->copies().primary ? Reread::no : Reread::if_idle);
        });
    });
}

}  // namespace perch
