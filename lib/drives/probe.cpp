// SPDX-License-Identifier: GPL-2.0-or-later
#include "drives/probe.hpp"

#include <algorithm>

#include "ondisk/config_slot.hpp"
#include "ondisk/content.hpp"
#include "ondisk/file_device.hpp"
#include "ondisk/gpt.hpp"
#include "uapi/perch_format.h"

namespace perch {

namespace {

/// What `found.trouble` says of a labelled drive whose table is not whole, and whether it is to be
/// mended. Returns false when the drive cannot be used as it is.
bool judge_table(FoundDrive& found, const std::string& path, FileDevice& device,
                 const Label& label) {
    const auto block = found.identity.logical_block_bytes;
    const auto copies = check_gpt(path, block);
    if (copies && copies->whole()) {
        return true;
    }
    auto repairable =
        copies ? can_repair_gpt(path, label.partition, block) : tl::make_unexpected(copies.error());
    if (repairable && label.device_bytes != found.identity.size_bytes) {
        repairable = fail(Errc::corrupt, "its label is that of a drive of another size");
    }
    if (repairable && !copies->primary && !copies->backup) {
        // Both copies gone is also what wiping a drive on purpose looks like. That is respected
        // unless data of a virtual drive hangs on it.
        const auto configuration = read_configuration(device, label.partition);
        if (!configuration || !*configuration || !group_of_drive(**configuration, label.drive)) {
            repairable =
                fail(Errc::corrupt, "no copy of it is left, and no virtual drive is on it");
        }
    }
    found.table_damaged = repairable.has_value();
    if (copies && copies->primary) {
        return true;  // only the backup is damaged
    }
    found.trouble =
        repairable
            ? Error{Errc::corrupt, "its partition table is damaged; Perch restores it"}
            : Error{repairable.error().code,
                    fmt::format("it carries Perch's label, but its partition table is damaged and "
                                "Perch does not restore it: {}. Restore the table (sgdisk "
                                "--load-backup, or gdisk's 'r' menu), or zero its first 2 GiB to "
                                "use it for something else",
                                repairable.error().message)};
    return false;
}

/// Traces of Perch on a drive without a label: then it is damaged, not blank.
std::optional<Error> find_remains(FileDevice& device, const PartitionLayout& partition,
                                  bool in_table) {
    auto configuration = read_configuration(device, partition);
    if (!configuration) {
        return configuration.error();
    }
    if (*configuration) {
        return Error{
            Errc::corrupt,
            fmt::format("both copies of its label are destroyed; it carries a configuration "
                        "of controller {}",
                        (*configuration)->controller.str())};
    }
    // A drive that was being taken when the program was killed has the table, and zeros behind it.
    const auto front = in_table ? device.read(partition.offset, PERCH_EXTENTS_OFFSET) : Bytes();
    if (!front) {
        return front.error();
    }
    if (std::any_of(front->begin(), front->end(), [](std::byte b) { return b != std::byte{0}; })) {
        return Error{Errc::corrupt,
                     "it has Perch's partition, but no label; what is in it is not known"};
    }
    return std::nullopt;
}

}  // namespace

void probe_content(FoundDrive& found, const std::string& path, bool want_content) {
    auto device = FileDevice::open(path, FileDevice::Mode::read_only);
    if (!device) {
        found.trouble = device.error();
        return;
    }
    const auto by_table = find_partition(path, found.identity.logical_block_bytes);
    const bool in_table = by_table && *by_table;
    // A damaged table makes the partition vanish; the label is still at its fixed place.
    const auto fixed = partition_layout(found.identity.size_bytes);
    if (in_table || fixed) {
        const auto label = in_table ? read_label(*device, **by_table)
                                    : find_label(*device, found.identity.size_bytes);
        if (!label) {
            found.trouble = label.error();
            return;
        }
        if (*label && !by_table) {
            found.trouble = by_table.error();
            return;
        }
        if (*label && !judge_table(found, path, *device, **label)) {
            return;
        }
        if (*label && !in_table) {
            found.trouble = Error{Errc::corrupt,
                                  "it carries Perch's label, but its partition table has no "
                                  "partition of Perch; somebody has edited it"};
            return;
        }
        found.label = *label;
    }
    if (found.label) {
        auto configuration = read_configuration(*device, found.label->partition);
        if (configuration) {
            found.configuration = std::move(*configuration);
        } else {
            found.trouble = configuration.error();
        }
        return;
    }
    if (!want_content) {
        return;
    }
    if (in_table || fixed) {
        found.trouble = find_remains(*device, in_table ? **by_table : *fixed, in_table);
        if (found.trouble) {
            return;
        }
    }
    auto content = in_table ? find_content_beside_table(path) : find_content(path);
    if (content) {
        found.content = std::move(*content);
    } else {
        found.trouble = content.error();
    }
}

}  // namespace perch
