// SPDX-License-Identifier: GPL-2.0-or-later
// Real NVMe drives: a worker thread per drive and queue, every wait bounded. A drive that answers
// nothing is shown as such and holds up nothing else.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "drives/drive_access.hpp"
#include "util/worker.hpp"

namespace perch {

struct NvmeAccessOptions {
    std::string sysfs = "/sys";
    std::chrono::seconds look_timeout{10};  ///< for all drives together, per look
    std::chrono::seconds edit_timeout{60};  ///< for one edit of one drive
    std::chrono::seconds health_period{60};
    bool find_content = true;  ///< perch-assemble has no use for it
};

class NvmeAccess final : public DriveAccess {
  public:
    explicit NvmeAccess(NvmeAccessOptions options = {}) : options_(std::move(options)) {}

    std::vector<FoundDrive> look() override;
    Result<Label> take(const DriveIdentity& drive, const Uuid& controller,
                       Coercion coercion) override;
    Result<void> release(const DriveIdentity& drive) override;
    Result<void> adopt(const DriveIdentity& drive, const Uuid& owner,
                       const Uuid& controller) override;
    Result<std::optional<Superblock>> read_superblock(const DriveIdentity& drive,
                                                      std::uint64_t offset) override;
    Result<void> write_superblocks(const std::vector<SuperblockWrite>& writes) override;
    Result<void> write(const DriveIdentity& drive, const Uuid& owner, std::uint64_t offset,
                       const Bytes& bytes) override;
    Result<void> repair_table(const DriveIdentity& drive) override;
    std::vector<Result<void>> write_configuration(const std::vector<FoundDrive>& drives,
                                                  const Configuration& configuration) override;
    Result<Bytes> read(const DriveIdentity& drive, std::uint64_t offset,
                       std::uint64_t length) override;
    Result<void> zero(const std::vector<DriveRange>& ranges) override;

    /// The drive may have changed (udev said so): look at it afresh next time. Any thread.
    void invalidate(const std::string& name);

  private:
    struct Entry {
        DriveIdentity identity;
        Worker worker;
        Worker health_worker;  ///< the admin queue may hang where I/O does not
        std::shared_future<FoundDrive> probe;
        std::shared_future<Result<DriveHealth>> health;
        std::chrono::steady_clock::time_point health_asked;
        std::optional<DriveHealth> last_health;
    };

    Entry* entry(const DriveIdentity& drive);
    void start_probe(Entry& entry) const;
    void refresh_health(Entry& entry) const;
    /// A piece of work on Perch's partition of a drive that must still show `owner`.
    struct PartitionEdit {
        DriveIdentity drive;
        Uuid owner;
        std::function<Result<void>(BlockDevice&)> job;
    };
    /// Does them in parallel over drives. The first error, if any.
    Result<void> edit_all(const std::vector<PartitionEdit>& edits);
    template <typename T>
    Result<T> edit(const DriveIdentity& drive, std::function<Result<T>()> job);

    NvmeAccessOptions options_;
    std::map<std::string, std::unique_ptr<Entry>> entries_;  ///< by kernel name
    std::mutex invalid_mutex_;
    std::set<std::string> invalid_;
};

}  // namespace perch
