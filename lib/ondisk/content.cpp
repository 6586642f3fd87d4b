// SPDX-License-Identifier: GPL-2.0-or-later
#include "ondisk/content.hpp"

#include <algorithm>
#include <memory>

#include "ondisk/blkid_probe.hpp"
#include "ondisk/file_device.hpp"
#include "util/units.hpp"
#include "util/utf8.hpp"

namespace perch {

namespace {

constexpr std::uint64_t edge_bytes = 16 * MiB;
constexpr std::uint64_t sample_bytes = 4 * KiB;
constexpr std::uint64_t samples = 64;

std::string value_of(blkid_probe probe, const char* name) {
    const char* data = nullptr;
    if (blkid_probe_lookup_value(probe, name, &data, nullptr) != 0 || data == nullptr) {
        return "";
    }
    return printable_utf8(data);
}

/// What blkid recognises, superblocks and partition tables; empty for nothing.
Result<std::string> known_signature(const std::string& path) {
    const BlkidProbe probe(blkid_new_probe_from_filename(path.c_str()));
    if (!probe) {
        return fail(Errc::io, "cannot probe {} for signatures", path);
    }
    blkid_probe_enable_superblocks(probe.get(), 1);
    blkid_probe_set_superblocks_flags(probe.get(),
                                      BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_USAGE);
    blkid_probe_enable_partitions(probe.get(), 1);
    const int rc = blkid_do_safeprobe(probe.get());
    if (rc == 1) {
        return std::string();
    }
    if (rc == -2) {
        return std::string("several signatures that contradict each other");
    }
    if (rc != 0) {
        return fail(Errc::io, "probing {} for signatures failed", path);
    }
    const auto type = value_of(probe.get(), "TYPE");
    const auto label = value_of(probe.get(), "LABEL");
    const auto table = value_of(probe.get(), "PTTYPE");
    if (!type.empty()) {
        const auto usage = value_of(probe.get(), "USAGE");
        return fmt::format("{} {}{}", type, usage == "filesystem" ? "filesystem" : "signature",
                           label.empty() ? "" : fmt::format(" '{}'", label));
    }
    auto* partitions = blkid_probe_get_partitions(probe.get());
    const int count = partitions == nullptr ? 0 : blkid_partlist_numof_partitions(partitions);
    return fmt::format("{} partition table with {} partitions", table, count);
}

bool all_zero(const Bytes& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// The offset of the first block that is not zero among those looked at; the drive's size if none.
/// `margin` bytes at both ends are left out.
Result<std::uint64_t> first_nonzero(FileDevice& drive, std::uint64_t margin) {
    const auto size = round_down(drive.size(), sample_bytes);
    const auto step = MiB;
    const auto look = [&](std::uint64_t from, std::uint64_t to,
                          std::uint64_t block) -> Result<std::uint64_t> {
        for (auto place = from; place < to; place += block) {
            const auto bytes = drive.read(place, std::min(block, to - place));
            if (!bytes) {
                return tl::make_unexpected(bytes.error());
            }
            if (!all_zero(*bytes)) {
                return place;
            }
        }
        return size;
    };
    const auto edge = std::min(edge_bytes, size / 2);
    for (const auto& [from, to] :
         {std::pair{margin, edge}, std::pair{size - edge, size - margin}}) {
        auto found = look(from, to, step);
        if (!found || *found != size) {
            return found;
        }
    }
    for (std::uint64_t i = 1; i <= samples; ++i) {
        const auto place = round_down(size / (samples + 1) * i, sample_bytes);
        auto found = look(place, place + sample_bytes, sample_bytes);
        if (!found || *found != size) {
            return found;
        }
    }
    return size;
}

Result<std::string> unknown_data(const std::string& path, std::uint64_t margin) {
    auto drive = FileDevice::open(path, FileDevice::Mode::read_only);
    if (!drive) {
        return tl::make_unexpected(drive.error());
    }
    const auto place = first_nonzero(*drive, margin);
    if (!place) {
        return tl::make_unexpected(place.error());
    }
    if (*place >= round_down(drive->size(), sample_bytes)) {
        return std::string();
    }
    return fmt::format("data without a known signature at {}", format_size(*place));
}

}  // namespace

Result<std::string> find_content(const std::string& path) {
    auto signature = known_signature(path);
    if (!signature || !signature->empty()) {
        return signature;
    }
    return unknown_data(path, 0);
}

Result<std::string> find_content_beside_table(const std::string& path) {
    return unknown_data(path, MiB);
}

}  // namespace perch
