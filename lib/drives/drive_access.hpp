// SPDX-License-Identifier: GPL-2.0-or-later
// What the controller needs of drives: to look at them and to edit their metadata. Real drives are
// behind drives/nvme_access; tests have drives in memory that lose power.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "drives/drive_identity.hpp"
#include "model/snapshot.hpp"
#include "ondisk/configuration.hpp"
#include "ondisk/label.hpp"
#include "ondisk/superblock.hpp"

namespace perch {

/// One drive as the last look found it.
struct FoundDrive {
    DriveIdentity identity;
    bool answered = false;  ///< false: it did not answer in time
    std::optional<Label> label;
    std::optional<Configuration> configuration;
    std::string content;             ///< without a label: what is on it; empty means blank
    std::optional<Error> trouble;    ///< label or configuration that cannot be used
    std::vector<std::string> users;  ///< who uses it, other than Perch
    std::optional<DriveHealth> health;
    /// A copy of its partition table is damaged, and repair_table may mend it. While it is the
    /// primary one, the kernel shows no partition: then the drive has no label here, and `trouble`
    /// says why.
    bool table_damaged = false;
};

/// A piece of one drive's partition, for zeroing. `owner` is the drive UUID that its label must
/// show when it is about to be written: a kernel name may have passed to another drive meanwhile.
struct DriveRange {
    DriveIdentity drive;
    Uuid owner;
    std::uint64_t offset = 0;  ///< bytes from the start of the drive
    std::uint64_t length = 0;
};

/// A superblock for one member, at that offset from the start of the drive. `owner` as above.
struct SuperblockWrite {
    DriveIdentity drive;
    Uuid owner;
    std::uint64_t offset = 0;
    Superblock superblock;
};

class DriveAccess {
  public:
    DriveAccess() = default;
    DriveAccess(const DriveAccess&) = delete;
    DriveAccess& operator=(const DriveAccess&) = delete;
    virtual ~DriveAccess() = default;

    /// All drives, by slot. Waits a bounded time for drives that do not answer.
    virtual std::vector<FoundDrive> look() = 0;
    /// Partition table and label, over whatever was there: the caller has decided that this may be.
    /// Errc::in_use when the kernel has the drive open.
    virtual Result<Label> take(const DriveIdentity& drive, const Uuid& controller,
                               Coercion coercion) = 0;
    /// Removes Perch's label and partition table: the drive is blank afterwards. Errc::in_use when
    /// the kernel has it open.
    virtual Result<void> release(const DriveIdentity& drive) = 0;
    /// Makes the partition table of a drive with `table_damaged` whole, from its backup or, where
    /// none is left, from the label; the kernel has the partition on return. Looks at the drive
    /// anew and refuses what does not hold any more. The caller holds the lock under which drives
    /// are changed.
    virtual Result<void> repair_table(const DriveIdentity& drive) {
        return fail(Errc::unsupported, "{} has no partition table", drive.name);
    }
    /// Writes to each drive, in parallel; one answer per drive, in order.
    virtual std::vector<Result<void>> write_configuration(const std::vector<FoundDrive>& drives,
                                                          const Configuration& configuration) = 0;
    virtual Result<Bytes> read(const DriveIdentity& drive, std::uint64_t offset,
                               std::uint64_t length) = 0;
    /// Rewrites both labels of a drive that shows `owner` with another controller, and nothing
    /// else.
    virtual Result<void> adopt(const DriveIdentity& drive, const Uuid& owner,
                               const Uuid& controller) = 0;
    /// As perch::read_superblock, at that offset from the start of the drive.
    virtual Result<std::optional<Superblock>> read_superblock(const DriveIdentity& drive,
                                                              std::uint64_t offset) = 0;
    /// As perch::write_superblock, in parallel over drives. The first error, if any.
    virtual Result<void> write_superblocks(const std::vector<SuperblockWrite>& writes) = 0;
    /// Writes whole 4 KiB units durably. `owner` as in DriveRange.
    virtual Result<void> write(const DriveIdentity& drive, const Uuid& owner, std::uint64_t offset,
                               const Bytes& bytes) = 0;
    /// Zeroes all ranges, in parallel over drives. The first error, if any.
    virtual Result<void> zero(const std::vector<DriveRange>& ranges) = 0;
};

}  // namespace perch
