// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_drives.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "ondisk/config_slot.hpp"
#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

/// Where what is not Perch's lies. Taking a drive clears it, as a new partition table clears what
/// was in front.
constexpr std::uint64_t content_offset = 64 * KiB;
constexpr std::uint64_t table_area = MiB;

/// Stands in for a GPT: one copy in the first page, one in the last.
struct RawTable {
    std::array<char, 16> magic;
    std::uint64_t offset;
    std::uint64_t length;
};
constexpr std::array<char, 16> table_magic{"SIMULATED TABLE"};
constexpr std::array<char, 16> content_magic{"NOT OF PERCH: "};

struct TableCopies {
    std::optional<PartitionLayout> primary;
    std::optional<PartitionLayout> backup;
};

std::uint64_t backup_table_offset(const BlockDevice& device) {
    return round_down(device.size(), sim_page_bytes) - sim_page_bytes;
}

Result<std::optional<PartitionLayout>> read_table(BlockDevice& device, std::uint64_t offset) {
    return device.read(offset, sim_page_bytes).map([](const Bytes& bytes) {
        const auto raw = load<RawTable>(bytes);
        return raw.magic == table_magic ? std::optional(PartitionLayout{raw.offset, raw.length})
                                        : std::nullopt;
    });
}

Result<TableCopies> read_tables(BlockDevice& device) {
    return read_table(device, 0).and_then([&](const std::optional<PartitionLayout>& primary) {
        return read_table(device, backup_table_offset(device))
            .map([&](const std::optional<PartitionLayout>& backup) {
                return TableCopies{primary, backup};
            });
    });
}

Bytes encode_table(const PartitionLayout& partition) {
    const RawTable raw{table_magic, partition.offset, partition.length};
    Bytes bytes(sim_page_bytes);
    std::memcpy(bytes.data(), &raw, sizeof(raw));
    return bytes;
}

/// Both copies, over whatever was there, as one step of the drive's.
Result<void> write_tables(SimDevice& device, const PartitionLayout& partition) {
    std::vector<std::unique_ptr<StagedDevice>> jobs;
    auto& staged = *jobs.emplace_back(std::make_unique<StagedDevice>(device));
    const auto table = encode_table(partition);
    return staged.zero(0, table_area)
        .and_then([&] { return staged.write(backup_table_offset(device), table); })
        .and_then([&] { return staged.write(0, table); })
        .map([&] { commit_staged(device.steps(), jobs); });
}

std::string read_content(SimDevice& device) {
    const auto bytes = device.read(content_offset, sim_page_bytes);
    if (!bytes || std::memcmp(bytes->data(), content_magic.data(), content_magic.size()) != 0) {
        return "";
    }
    const auto* text = reinterpret_cast<const char*>(bytes->data()) + content_magic.size();
    return {text, strnlen(text, sim_page_bytes - content_magic.size())};
}

/// Whether a configuration says that data of a VD is on the drive.
bool is_member(const Configuration& configuration, const Uuid& drive) {
    return std::any_of(configuration.vds.begin(), configuration.vds.end(), [&](const auto& vd) {
        return std::any_of(vd.members.begin(), vd.members.end(),
                           [&](const auto& member) { return member.drive == drive; });
    });
}

/// The pages that a probe of the drive reads: tables, content, labels and configuration slots.
void add_pages(const SimDevice& device, std::uint64_t offset, std::uint64_t length,
               std::vector<std::shared_ptr<const SimPage>>& key) {
    const auto& pages = device.pages();
    const auto end = pages.lower_bound((offset + length) / sim_page_bytes);
    for (auto page = pages.lower_bound(offset / sim_page_bytes); page != end; ++page) {
        key.push_back(page->second);
    }
    key.push_back(nullptr);  // what lies in one piece must not pass for the other's
}

std::vector<std::shared_ptr<const SimPage>> slot_pages(const SimDevice& device,
                                                       const PartitionLayout& partition) {
    std::vector<std::shared_ptr<const SimPage>> key;
    for (unsigned slot = 0; slot < PERCH_CONFIG_SLOTS; ++slot) {
        add_pages(device, partition.offset + PERCH_EDGE_BYTES + slot * PERCH_CONFIG_SLOT_BYTES,
                  PERCH_CONFIG_SLOT_BYTES, key);
    }
    return key;
}

}  // namespace

Result<void> SimDrives::keep_in(const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        return fail(Errc::io, "cannot make {}: {}", directory, error.message());
    }
    directory_ = directory;
    const auto path = directory + "/drives";
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        std::istringstream words(line);
        std::string serial;
        std::string place;
        int slot = 0;
        std::uint64_t size = 0;
        std::uint32_t block = 0;
        if (!(words >> serial >> slot >> size >> block >> place) || size < 4 * MiB ||
            (block != 512 && block != 4096)) {
            return fail(Errc::corrupt, "{}:{}: this is not a simulated drive: '{}'", path, number,
                        line);
        }
        auto& drive = make(slot, size, block, serial);
        drive.present = place == "present";
        if (drive.present) {
            name(drive);
        }
        if (auto kept = drive.device->keep_in(fmt::format("{}/{}.drive", directory, serial));
            !kept) {
            return kept;
        }
    }
    return {};
}

/// The list of drives, replaced as a whole.
void SimDrives::remember() {
    if (directory_.empty()) {
        return;
    }
    const auto path = directory_ + "/drives";
    {
        std::ofstream file(path + ".new");
        for (const auto& drive : drives_) {
            const auto& identity = drive->identity;
            file << identity.serial << ' ' << identity.slot << ' ' << identity.size_bytes << ' '
                 << identity.logical_block_bytes << (drive->present ? " present\n" : " pulled\n");
        }
    }
    std::error_code ignored;
    std::filesystem::rename(path + ".new", path, ignored);
}

/// The kernel gives the lowest free number, whoever had it before.
void SimDrives::name(SimDrive& drive) {
    std::set<std::string> taken;
    for (const auto& other : drives_) {
        if (other->present && other.get() != &drive) {
            taken.insert(other->identity.name);
        }
    }
    for (int number = 0;; ++number) {
        drive.identity.name = fmt::format("nvme{}n1", number);
        drive.identity.controller = fmt::format("nvme{}", number);
        if (!taken.contains(drive.identity.name)) {
            return;
        }
    }
}

SimDrive& SimDrives::make(int slot, std::uint64_t size, std::uint32_t block_bytes,
                          const std::string& serial) {
    auto& drive = *drives_.emplace_back(std::make_unique<SimDrive>());
    auto& identity = drive.identity;
    identity.slot = slot;
    identity.pci_address = fmt::format("{:04x}:{:02x}:00.0", slot / 256, slot % 256);
    identity.serial = serial;
    identity.model = "Simulated drive";
    identity.firmware = "1.0";
    identity.identity = "sim." + serial;
    identity.size_bytes = size;
    identity.logical_block_bytes = block_bytes;
    identity.physical_block_bytes = 4096;
    identity.link_speed = "32.0 GT/s PCIe";
    identity.link_width = 4;
    drive.device = std::make_unique<SimDevice>(size, steps_, pool_);
    return drive;
}

SimDrive& SimDrives::add(int slot, std::uint64_t size, std::uint32_t block_bytes) {
    if (const auto* there = find(slot); there != nullptr && there->present) {
        throw std::invalid_argument(fmt::format("slot {} is taken", slot));
    }
    auto& drive = make(slot, round_down(size, sim_page_bytes), block_bytes,
                       fmt::format("SIM{:04}", drives_.size()));
    name(drive);
    if (!directory_.empty()) {
        const auto path = fmt::format("{}/{}.drive", directory_, drive.identity.serial);
        if (auto kept = drive.device->keep_in(path); !kept) {
            drives_.pop_back();
            throw std::runtime_error(kept.error().message);
        }
    }
    remember();
    return drive;
}

SimDrive* SimDrives::find(int slot) {
    SimDrive* last = nullptr;
    for (const auto& drive : drives_) {
        if (drive->identity.slot == slot) {
            if (drive->present) {
                return drive.get();
            }
            if (last == nullptr || drive->attachment >= last->attachment) {
                last = drive.get();
            }
        }
    }
    return last;
}

SimDrive& SimDrives::in_slot(int slot) {
    auto* drive = find(slot);
    if (drive == nullptr) {
        throw std::out_of_range(fmt::format("there is no drive in slot {}", slot));
    }
    return *drive;
}

SimDrive* SimDrives::by_partition(const std::string& partition) {
    for (const auto& drive : drives_) {
        if (drive->present && drive->identity.partition_path() == partition) {
            return drive.get();
        }
    }
    return nullptr;
}

void SimDrives::pull(int slot) {
    auto& drive = in_slot(slot);
    if (!drive.present) {
        throw std::out_of_range(fmt::format("there is no drive in slot {}", slot));
    }
    drive.present = false;
    drive.holders = 0;
    probes_.erase(&drive);
    remember();
}

SimDrive& SimDrives::insert(int slot) {
    auto& drive = in_slot(slot);
    if (drive.present) {
        throw std::invalid_argument(fmt::format("slot {} is taken", slot));
    }
    drive.present = true;
    // Above all others, so that find() knows which one was there last.
    for (const auto& other : drives_) {
        drive.attachment = std::max(drive.attachment, other->attachment + 1);
    }
    name(drive);
    remember();
    return drive;
}

SimDrive& SimDrives::insert_blank(int slot) {
    const auto& before = in_slot(slot).identity;
    auto& drive = add(slot, before.size_bytes, before.logical_block_bytes);
    for (const auto& other : drives_) {
        drive.attachment = std::max(drive.attachment, other->attachment + 1);
    }
    return drive;
}

void SimDrives::set_content(SimDrive& drive, const std::string& text) {
    Bytes bytes(sim_page_bytes);
    if (!text.empty()) {
        std::memcpy(bytes.data(), content_magic.data(), content_magic.size());
        std::memcpy(bytes.data() + content_magic.size(), text.data(),
                    std::min(text.size(), sim_page_bytes - content_magic.size()));
    }
    drive.device->store(content_offset, bytes);
}

void SimDrives::damage_table(SimDrive& drive, bool primary, bool backup) {
    if (primary) {
        drive.device->erase(0, sim_page_bytes);
    }
    if (backup) {
        drive.device->erase(backup_table_offset(*drive.device), sim_page_bytes);
    }
}

SimDrives::Saved SimDrives::save() const {
    Saved saved;
    for (const auto& drive : drives_) {
        saved.drives.emplace_back(*drive, drive->device->pages());
    }
    return saved;
}

void SimDrives::restore(const Saved& saved) {
    probes_.clear();
    drives_.resize(saved.drives.size());
    for (std::size_t i = 0; i < drives_.size(); ++i) {
        static_cast<SimDriveState&>(*drives_[i]) = saved.drives[i].first;
        drives_[i]->device->set_pages(saved.drives[i].second);
    }
    remember();
}

Result<std::optional<Configuration>> SimDrives::configuration_of(SimDevice& device,
                                                                 const PartitionLayout& partition) {
    constexpr std::size_t most_pages = 1024;
    if (auto good = device.check_read(partition.offset, sim_page_bytes); !good) {
        return tl::make_unexpected(good.error());
    }
    auto key = slot_pages(device, partition);
    const auto found = configurations_.find(key);
    if (found != configurations_.end()) {
        return found->second;
    }
    // Some hundred small ones, or a few large ones.
    configuration_pages_ += key.size();
    if (configuration_pages_ > most_pages) {
        configurations_.clear();
        configuration_pages_ = key.size();
    }
    return configurations_.emplace(std::move(key), read_configuration(device, partition))
        .first->second;
}

/// As drives/nvme_access judges a real drive.
FoundDrive SimDrives::probe_device(SimDrive& drive) {
    FoundDrive found;
    auto& device = *drive.device;
    const auto tables = read_tables(device);
    if (!tables) {
        found.trouble = tables.error();
        return found;
    }
    const auto fixed = partition_layout(device.size());
    if (!tables->primary && !fixed) {
        found.content = read_content(device);
        return found;
    }
    const auto label =
        tables->primary ? read_label(device, *tables->primary) : find_label(device, device.size());
    if (!label) {
        found.trouble = label.error();
        return found;
    }
    const auto partition = *label ? (*label)->partition : tables->primary.value_or(*fixed);
    const auto configuration = configuration_of(device, partition);
    if (*label) {
        if (!tables->primary || !tables->backup) {
            found.table_damaged =
                tables->primary || tables->backup ||
                (configuration && *configuration && is_member(**configuration, (*label)->drive));
        }
        if (!tables->primary) {
            found.trouble =
                found.table_damaged
                    ? Error{Errc::corrupt, "its partition table is damaged; Perch restores it"}
                    : Error{Errc::corrupt,
                            "it carries Perch's label, but its partition table is damaged and "
                            "Perch does not restore it: no copy of it is left, and no virtual "
                            "drive is on it"};
            return found;
        }
        found.label = *label;
        if (configuration) {
            found.configuration = *configuration;
        } else {
            found.trouble = configuration.error();
        }
        return found;
    }
    if (!configuration) {
        found.trouble = configuration.error();
    } else if (*configuration) {
        found.trouble =
            Error{Errc::corrupt,
                  fmt::format("both copies of its label are destroyed; it carries a configuration "
                              "of controller {}",
                              (*configuration)->controller.str())};
    } else {
        found.content = read_content(device);
    }
    return found;
}

/// probe_device, remembered for a healthy drive of Perch's until a page of its table or labels
/// changes; the configuration, which changes more often, is remembered by itself.
FoundDrive SimDrives::probe(SimDrive& drive) {
    auto& device = *drive.device;
    const auto key_of = [&](const PartitionLayout& partition) {
        PageKey key;
        add_pages(device, 0, table_area, key);
        add_pages(device, partition.offset, PERCH_EDGE_BYTES, key);
        add_pages(device, partition.offset + partition.length - PERCH_EDGE_BYTES, PERCH_EDGE_BYTES,
                  key);
        add_pages(device, backup_table_offset(device), sim_page_bytes, key);
        return key;
    };
    if (const auto known = probes_.find(&drive); known != probes_.end()) {
        auto found = known->second.found;
        const auto& partition = found.label->partition;
        const auto configuration = configuration_of(device, partition);
        if (configuration && known->second.key == key_of(partition)) {
            found.configuration = *configuration;
            return found;
        }
    }
    auto found = probe_device(drive);
    probes_.erase(&drive);
    if (found.label && !found.trouble && !found.table_damaged) {
        auto& known = probes_[&drive];
        known = {key_of(found.label->partition), found};
        known.found.configuration.reset();
    }
    return found;
}

std::vector<FoundDrive> SimDrives::look() {
    std::vector<FoundDrive> drives;
    for (const auto& drive : drives_) {
        if (!drive->present) {
            continue;
        }
        FoundDrive found;
        if (!drive->hangs()) {
            found = probe(*drive);
            found.answered = true;
            found.health = drive->health;
        }
        found.identity = drive->identity;
        found.users = drive->users;
        drives.push_back(std::move(found));
    }
    std::stable_sort(drives.begin(), drives.end(), [](const auto& a, const auto& b) {
        return a.identity.slot < b.identity.slot;
    });
    return drives;
}

/// The same kernel name may be another drive by now.
Result<SimDrive*> SimDrives::reachable(const DriveIdentity& drive) {
    for (const auto& row : drives_) {
        if (row->present && row->identity.name == drive.name &&
            row->identity.identity == drive.identity) {
            if (row->hangs()) {
                return fail(Errc::timeout, "{} does not answer", drive.path());
            }
            return row.get();
        }
    }
    return fail(Errc::not_found, "{} is gone", drive.name);
}

Result<SimDrive*> SimDrives::owned(const DriveIdentity& drive, const Uuid& owner) {
    return reachable(drive).and_then([&](SimDrive* row) -> Result<SimDrive*> {
        const auto table = read_table(*row->device, 0);
        if (!table) {
            return tl::make_unexpected(table.error());
        }
        if (!*table) {
            return fail(Errc::not_found, "cannot open {}: no such device", drive.partition_path());
        }
        const auto label = read_label(*row->device, **table);
        if (!label || !*label || (*label)->drive != owner) {
            return fail(Errc::not_found, "{} is another drive by now; nothing was written on it",
                        drive.path());
        }
        return row;
    });
}

Result<Label> SimDrives::take(const DriveIdentity& drive, const Uuid& controller,
                              Coercion coercion) {
    return reachable(drive).and_then([&](SimDrive* row) -> Result<Label> {
        const auto partition = partition_layout(row->identity.size_bytes, coercion);
        if (!partition) {
            return tl::make_unexpected(partition.error());
        }
        if (!row->users.empty() || row->holders > 0) {
            return fail(Errc::in_use, "cannot take {}: it is in use", drive.path());
        }
        const Label label{controller, Uuid::random(), row->identity.size_bytes, *partition,
                          row->identity.logical_block_bytes};
        return write_tables(*row->device, *partition)
            .and_then([&] { return write_label(*row->device, label); })
            .map([&] { return label; });
    });
}

Result<void> SimDrives::release(const DriveIdentity& drive) {
    return reachable(drive).and_then([&](SimDrive* row) -> Result<void> {
        if (!row->users.empty() || row->holders > 0) {
            return fail(Errc::in_use, "cannot release {}: it is in use", drive.path());
        }
        auto& device = *row->device;
        const auto tables = read_tables(device);
        if (!tables) {
            return tl::make_unexpected(tables.error());
        }
        // The back label first: without the front one it would count.
        const auto label = find_label(device, device.size());
        auto partition = tables->primary;
        if (label && *label) {
            partition = (*label)->partition;
        }
        if (partition) {
            auto done =
                device
                    .zero(partition->offset + partition->length - PERCH_EDGE_BYTES,
                          PERCH_EDGE_BYTES)
                    .and_then([&] { return device.zero(partition->offset, PERCH_EXTENTS_OFFSET); });
            if (!done) {
                return done;
            }
        }
        return device.zero(backup_table_offset(device), sim_page_bytes).and_then([&] {
            return device.zero(0, table_area);
        });
    });
}

Result<void> SimDrives::repair_table(const DriveIdentity& drive) {
    return reachable(drive).and_then([&](SimDrive* row) -> Result<void> {
        const auto found = probe_device(*row);
        if (!found.table_damaged) {
            // Somebody has mended it meanwhile, or it is no longer what it was.
            return found.label ? Result<void>()
                               : tl::make_unexpected(found.trouble.value_or(
                                     Error{Errc::corrupt, "it has no label any more"}));
        }
        const auto label = find_label(*row->device, row->device->size());
        if (!label || !*label) {
            return fail(Errc::corrupt, "{} has no label any more", drive.path());
        }
        return write_tables(*row->device, (*label)->partition);
    });
}

std::vector<Result<void>> SimDrives::write_configuration(const std::vector<FoundDrive>& drives,
                                                         const Configuration& configuration) {
    std::vector<Result<void>> results;
    std::vector<std::unique_ptr<StagedDevice>> jobs;
    // What is written follows from what the slots hold: drives that hold the same get the same.
    std::map<PageKey, const StagedDevice*> written;
    for (const auto& drive : drives) {
        const auto& partition = drive.label->partition;
        results.push_back(
            owned(drive.identity, drive.label->drive).and_then([&](SimDrive* row) -> Result<void> {
                auto& staged = *jobs.emplace_back(std::make_unique<StagedDevice>(*row->device));
                const auto key = slot_pages(*row->device, partition);
                if (const auto same = written.find(key); same != written.end()) {
                    return staged.repeat(*same->second);
                }
                return perch::write_configuration(staged, partition, configuration).map([&] {
                    written.emplace(key, &staged);
                });
            }));
    }
    commit_staged(steps_, jobs);
    return results;
}

Result<Bytes> SimDrives::read(const DriveIdentity& drive, std::uint64_t offset,
                              std::uint64_t length) {
    return reachable(drive).and_then(
        [&](SimDrive* row) { return row->device->read(offset, length); });
}

Result<void> SimDrives::adopt(const DriveIdentity& drive, const Uuid& owner,
                              const Uuid& controller) {
    return owned(drive, owner).and_then([&](SimDrive* row) {
        auto& device = *row->device;
        return read_table(device, 0)
            .and_then([&](const std::optional<PartitionLayout>& partition) {
                return read_label(device, *partition);
            })
            .and_then([&](std::optional<Label> label) {
                label->controller = controller;
                const auto bytes = encode_label(*label);
                const auto& partition = label->partition;
                // The front copy, which counts while it is whole, is written last.
                return device
                    .write(
                        partition.offset + partition.length - PERCH_EDGE_BYTES + PERCH_LABEL_OFFSET,
                        bytes)
                    .and_then(
                        [&] { return device.write(partition.offset + PERCH_LABEL_OFFSET, bytes); });
            });
    });
}

Result<std::optional<Superblock>> SimDrives::read_superblock(const DriveIdentity& drive,
                                                             std::uint64_t offset) {
    return reachable(drive).and_then(
        [&](SimDrive* row) { return perch::read_superblock(*row->device, offset); });
}

namespace {

/// One staged device per drive, whatever the number of its writes.
class Jobs {
  public:
    StagedDevice& of(SimDrive& drive) {
        const auto [found, fresh] = index_.try_emplace(&drive, devices.size());
        if (fresh) {
            devices.push_back(std::make_unique<StagedDevice>(*drive.device));
        }
        return *devices[found->second];
    }
    std::vector<std::unique_ptr<StagedDevice>> devices;

  private:
    std::map<const SimDrive*, std::size_t> index_;
};

void keep_first(Result<void>& first, const Result<void>& next) {
    if (first && !next) {
        first = next;
    }
}

}  // namespace

Result<void> SimDrives::write_superblocks(const std::vector<SuperblockWrite>& writes) {
    Jobs jobs;
    Result<void> first;
    for (const auto& write : writes) {
        keep_first(first, owned(write.drive, write.owner).and_then([&](SimDrive* row) {
            return write_superblock(jobs.of(*row), write.offset, write.superblock);
        }));
    }
    commit_staged(steps_, jobs.devices);
    return first;
}

Result<void> SimDrives::write(const DriveIdentity& drive, const Uuid& owner, std::uint64_t offset,
                              const Bytes& bytes) {
    return owned(drive, owner).and_then([&](SimDrive* row) {
        return row->device->write(offset, bytes);
    });
}

Result<void> SimDrives::zero(const std::vector<DriveRange>& ranges) {
    Jobs jobs;
    Result<void> first;
    for (const auto& range : ranges) {
        keep_first(first, owned(range.drive, range.owner).and_then([&](SimDrive* row) {
            return jobs.of(*row).zero(range.offset, range.length);
        }));
    }
    commit_staged(steps_, jobs.devices);
    return first;
}

}  // namespace perch
