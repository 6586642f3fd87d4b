// SPDX-License-Identifier: GPL-2.0-or-later
// Simulated drives: DriveAccess without any hardware. They can be pulled and inserted, made slow,
// made to fail or to hang, and carry what is not Perch's. Labels, configurations and superblocks
// are the real ones, read and written by lib/ondisk; only the partition table is a stand-in.
//
// With a directory, each drive is also a sparse file there, so that a later process finds its
// drives as they were. Faults are not kept.
//
// One thread. What is done to several drives at once is one step (sim_device.hpp).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drives/drive_access.hpp"
#include "engine/sim/sim_device.hpp"

namespace perch {

inline constexpr std::uint64_t default_sim_speed = 2'000'000'000;  ///< bytes per second

/// What is true of a drive beside its blocks.
struct SimDriveState {
    DriveIdentity identity;
    bool present = true;
    bool answers = true;  ///< to looks and edits; device->hung stops its I/O as well
    std::vector<std::string> users;
    std::uint64_t bytes_per_second = default_sim_speed;
    DriveHealth health{35, 0, 100, 0, 0};

    /// Grows with each insertion: what was opened before belongs to a device that is gone.
    unsigned attachment = 0;
    int holders = 0;  ///< devices of the engine over its partition
};

struct SimDrive : SimDriveState {
    std::unique_ptr<SimDevice> device;
    [[nodiscard]] bool hangs() const { return !answers || device->hung; }
};

class SimDrives final : public DriveAccess {
  public:
    explicit SimDrives(StepCounter& steps) : steps_(steps) {}

    /// Keeps drives in that directory from now on, and takes those that are there already. Call it
    /// before anything is added. Errc::io, Errc::corrupt.
    Result<void> keep_in(const std::string& directory);

    /// A blank drive in that slot. Size in bytes, rounded down to 4 KiB. Throws when the slot is
    /// taken or the directory cannot hold it.
    SimDrive& add(int slot, std::uint64_t size, std::uint32_t block_bytes = 512);
    /// The drive in that slot; else the one that was there last; else nullptr.
    SimDrive* find(int slot);
    /// find, for tests: throws std::out_of_range when there never was one.
    SimDrive& in_slot(int slot);
    /// The drive behind "/dev/nvme3n1p1"; nullptr when it is gone.
    SimDrive* by_partition(const std::string& partition);
    [[nodiscard]] const std::vector<std::unique_ptr<SimDrive>>& all() const { return drives_; }

    /// Surprise removal. Throws std::out_of_range when the slot is empty.
    void pull(int slot);
    /// Puts the drive that was pulled last from that slot back. Throws when there is none.
    SimDrive& insert(int slot);
    /// Puts a blank drive of the same size there instead.
    SimDrive& insert_blank(int slot);
    /// Puts something that is not Perch's on the drive; empty: blanks it.
    static void set_content(SimDrive& drive, const std::string& text);
    /// Damages a copy of its partition table.
    static void damage_table(SimDrive& drive, bool primary, bool backup);

    /// All drives as they are, faults of their devices excepted.
    struct Saved {
        std::vector<std::pair<SimDriveState, SimDevice::Pages>> drives;
    };
    [[nodiscard]] Saved save() const;
    /// As they were. Drives added since are gone.
    void restore(const Saved& saved);

    std::vector<FoundDrive> look() override;
    Result<Label> take(const DriveIdentity& drive, const Uuid& controller,
                       Coercion coercion) override;
    Result<void> release(const DriveIdentity& drive) override;
    Result<void> repair_table(const DriveIdentity& drive) override;
    std::vector<Result<void>> write_configuration(const std::vector<FoundDrive>& drives,
                                                  const Configuration& configuration) override;
    Result<Bytes> read(const DriveIdentity& drive, std::uint64_t offset,
                       std::uint64_t length) override;
    Result<void> adopt(const DriveIdentity& drive, const Uuid& owner,
                       const Uuid& controller) override;
    Result<std::optional<Superblock>> read_superblock(const DriveIdentity& drive,
                                                      std::uint64_t offset) override;
    Result<void> write_superblocks(const std::vector<SuperblockWrite>& writes) override;
    Result<void> write(const DriveIdentity& drive, const Uuid& owner, std::uint64_t offset,
                       const Bytes& bytes) override;
    Result<void> zero(const std::vector<DriveRange>& ranges) override;

  private:
    using PageKey = std::vector<std::shared_ptr<const SimPage>>;
    struct Probe {
        PageKey key;
        FoundDrive found;
    };
    using Job = std::function<Result<void>(StagedDevice&)>;

    Result<SimDrive*> reachable(const DriveIdentity& drive);
    Result<SimDrive*> owned(const DriveIdentity& drive, const Uuid& owner);
    FoundDrive probe(SimDrive& drive);
    FoundDrive probe_device(SimDrive& drive);
    Result<std::optional<Configuration>> configuration_of(SimDevice& device,
                                                          const PartitionLayout& partition);
    SimDrive& make(int slot, std::uint64_t size, std::uint32_t block_bytes,
                   const std::string& serial);
    void name(SimDrive& drive);
    void remember();

    StepCounter& steps_;
    std::shared_ptr<PagePool> pool_ = std::make_shared<PagePool>();
    std::vector<std::unique_ptr<SimDrive>> drives_;  ///< pulled ones too, in order of arrival
    std::map<const SimDrive*, Probe> probes_;        ///< while the pages read do not change
    /// Configurations by the pages of their slots: the drives of a controller carry the same.
    std::map<PageKey, Result<std::optional<Configuration>>> configurations_;
    std::size_t configuration_pages_ = 0;  ///< in the keys
    std::string directory_;
};

}  // namespace perch
