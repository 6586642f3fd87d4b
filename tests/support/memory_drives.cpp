// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/memory_drives.hpp"

#include <algorithm>

#include "ondisk/config_slot.hpp"

namespace perch::test {

namespace {
constexpr std::uint64_t page_bytes = 4096;
}

void StepCounter::step() {
    if (left_ == 0) {
        left_ = -1;
        throw Stopped();
    }
    if (left_ > 0) {
        --left_;
    }
    ++count_;
}

Result<Bytes> MemoryDevice::read(std::uint64_t offset, std::uint64_t length) {
    if (failing || offset + length > size_) {
        return fail(Errc::io, "read of {} bytes at {}", length, offset);
    }
    Bytes result(length);
    for (std::uint64_t done = 0; done < length; done += page_bytes) {
        if (const auto page = pages_.find(offset + done); page != pages_.end()) {
            std::copy(page->second.begin(), page->second.end(),
                      result.begin() + static_cast<std::ptrdiff_t>(done));
        }
    }
    return result;
}

void MemoryDevice::store(std::uint64_t offset, std::span<const std::byte> bytes) {
    for (std::uint64_t done = 0; done < bytes.size(); done += page_bytes) {
        const auto part = bytes.subspan(done, page_bytes);
        pages_[offset + done] = Bytes(part.begin(), part.end());
    }
}

Result<void> MemoryDevice::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (failing || offset + bytes.size() > size_ || offset % page_bytes != 0 ||
        bytes.size() % page_bytes != 0) {
        return fail(Errc::io, "write of {} bytes at {}", bytes.size(), offset);
    }
    try {
        steps_.step();
    } catch (const Stopped&) {
        if (torn && bytes.size() > page_bytes) {
            store(offset, bytes.first(bytes.size() / 2 / page_bytes * page_bytes));
        }
        throw;
    }
    store(offset, bytes);
    return {};
}

Result<void> MemoryDevice::zero(std::uint64_t offset, std::uint64_t length) {
    if (failing || offset + length > size_) {
        return fail(Errc::io, "zeroing {} bytes at {}", length, offset);
    }
    steps_.step();
    pages_.erase(pages_.lower_bound(offset), pages_.lower_bound(offset + length));
    return {};
}

MemoryDrive& MemoryDrives::add(int slot, std::uint64_t size, std::uint32_t block_bytes) {
    auto drive = std::make_unique<MemoryDrive>();
    const auto number = drives_.size();
    drive->identity.name = fmt::format("nvme{}n1", number);
    drive->identity.slot = slot;
    drive->identity.serial = fmt::format("SIM{:04}", number);
    drive->identity.model = "Memory drive";
    drive->identity.identity = "sim." + drive->identity.serial;
    drive->identity.size_bytes = size;
    drive->identity.logical_block_bytes = block_bytes;
    drive->device = std::make_unique<MemoryDevice>(size, steps_);
    drives_.push_back(std::move(drive));
    return *drives_.back();
}

MemoryDrive& MemoryDrives::in_slot(int slot) {
    for (auto& drive : drives_) {
        if (drive->identity.slot == slot) {
            return *drive;
        }
    }
    throw std::out_of_range("no drive in that slot");
}

MemoryDrive* MemoryDrives::by_partition(const std::string& partition) {
    for (auto& drive : drives_) {
        if (drive->present && drive->identity.partition_path() == partition) {
            return drive.get();
        }
    }
    return nullptr;
}

std::vector<FoundDrive> MemoryDrives::look() {
    std::vector<FoundDrive> found;
    for (auto& drive : drives_) {
        if (!drive->present) {
            continue;
        }
        FoundDrive row;
        row.identity = drive->identity;
        row.answered = drive->answers;
        row.users = drive->users;
        if (const auto partition = partition_layout(drive->identity.size_bytes);
            partition && drive->answers) {
            auto label = read_label(*drive->device, *partition);
            if (!label) {
                row.trouble = label.error();
            } else if (*label) {
                row.label = *label;
                auto configuration = read_configuration(*drive->device, *partition);
                if (configuration) {
                    row.configuration = *configuration;
                } else {
                    row.trouble = configuration.error();
                }
            } else {
                row.content = drive->content;
            }
        }
        found.push_back(std::move(row));
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.identity.slot < b.identity.slot; });
    return found;
}

Result<MemoryDrive*> MemoryDrives::present(const DriveIdentity& drive) {
    for (auto& row : drives_) {
        if (row->present && row->identity.identity == drive.identity) {
            return row.get();
        }
    }
    return fail(Errc::not_found, "{} is gone", drive.name);
}

Result<Label> MemoryDrives::take(const DriveIdentity& drive, const Uuid& controller) {
    const auto row = present(drive);
    const auto partition = partition_layout(drive.size_bytes);
    if (!row || !partition) {
        return tl::make_unexpected(row ? partition.error() : row.error());
    }
    const Label label{controller, Uuid::random(), drive.size_bytes, *partition,
                      drive.logical_block_bytes};
    return write_label(*(*row)->device, label).map([&] { return label; });
}

std::vector<Result<void>> MemoryDrives::write_configuration(const std::vector<FoundDrive>& drives,
                                                            const Configuration& configuration) {
    std::vector<Result<void>> results;
    for (const auto& drive : drives) {
        const auto row = present(drive.identity);
        results.push_back(
            row ? perch::write_configuration(*(*row)->device, drive.label->partition, configuration)
                : tl::make_unexpected(row.error()));
    }
    return results;
}

Result<Bytes> MemoryDrives::read(const DriveIdentity& drive, std::uint64_t offset,
                                 std::uint64_t length) {
    return present(drive).and_then(
        [&](MemoryDrive* row) { return row->device->read(offset, length); });
}

Result<void> MemoryDrives::zero(const std::vector<DriveRange>& ranges) {
    for (const auto& range : ranges) {
        const auto row = present(range.drive);
        if (!row) {
            return tl::make_unexpected(row.error());
        }
        if (auto done = (*row)->device->zero(range.offset, range.length); !done) {
            return done;
        }
    }
    return {};
}

}  // namespace perch::test
