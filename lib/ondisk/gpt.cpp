// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/gpt.hpp"

#include <fcntl.h>
#include <libfdisk/libfdisk.h>
#include <strings.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "uapi/perch_format.h"
#include "util/unique_fd.hpp"

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

}  // namespace

Result<void> write_gpt(int fd, const std::string& path, const PartitionLayout& layout,
                       std::uint32_t logical_block_bytes) {
    auto opened = open_context(fd, path, logical_block_bytes);
    if (!opened) {
        return tl::make_unexpected(opened.error());
    }
    auto* context = opened->get();
    // Stale signatures anywhere in the first sectors would make blkid ambivalent.
    fdisk_enable_wipe(context, 1);
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
    rc = rc != 0 ? rc : fdisk_write_disklabel(context);
    if (rc != 0) {
        return fdisk_failure(path, "writing the GPT", rc);
    }
    // A regular file has no kernel partitions to re-read, and says so.
    rc = fdisk_reread_partition_table(context);
    if (rc != 0 && rc != -ENOTTY && rc != -EINVAL && rc != -ENOSYS) {
        return fdisk_failure(path, "making the kernel re-read the partition table", rc);
    }
    rc = fdisk_deassign_device(context, 0);
    return rc == 0 ? Result<void>() : fdisk_failure(path, "flushing the GPT", rc);
}

Result<std::optional<PartitionLayout>> find_partition(const std::string& path,
                                                      std::uint32_t logical_block_bytes) {
    auto opened = open_context(-1, path, logical_block_bytes);
    if (!opened) {
        return tl::make_unexpected(opened.error());
    }
    auto* context = opened->get();
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

}  // namespace perch
