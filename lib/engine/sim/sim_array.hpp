// SPDX-License-Identifier: GPL-2.0-or-later
// One dm-raid device as Linux 6.1 runs it: which tables it takes, what it records when, what it
// believes at a start. It moves no data. Where dm-raid is careless, so is this: what Perch must
// make up for has to happen here too. The rules are those of raid_ctr, super_validate and
// raid_preresume (drivers/md/dm-raid.c) and of md_update_sb, md_check_recovery and the
// personalities (drivers/md/md.c, raid1.c, raid10.c, raid5.c):
//
//   - The record says "in sync" also while the host writes; only the bitmap tells an unclean stop,
//     and a start with all members forgets the bitmap without resyncing anything.
//   - Events grow by one with each record, except that the change from busy to idle takes the one
//     back that idle to busy added: two members may carry one count and different truths.
//   - A failed member is recorded when an access to it fails: a host write, a record, a running
//     task. A table without it records nothing by itself; the next record does.
//   - At a start the first member with the highest count decides who had failed. A member that
//     it does not call failed is believed, however old its own record is.
//   - A member that was called failed comes back as one to be rebuilt where the bitmap is marked.
//   - A table that rebuilds a member forgets a resync that was not done.
//   - The last copy of a mirror is never called failed; a parity array that has lost too many
//     records all of them.
//
// RAID0 (a striped device) keeps no records and only knows members that gave I/O errors.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.hpp"
#include "engine/sim/sim_drives.hpp"
#include "engine/sim/sim_record.hpp"

namespace perch {

/// A table line. Offsets are bytes from the start of the drive.
struct SimTable {
    struct Row {
        bool present = false;
        bool rebuild = false;
        Uuid instance;
        SimDrive* drive = nullptr;
        unsigned attachment = 0;  ///< the drive's when the table was made
        std::uint64_t metadata_offset = 0;
        std::uint64_t data_offset = 0;
    };
    Uuid vd;
    RaidLevel level = RaidLevel::raid5;  ///< of the array: 0, 1, 10, 5 or 6
    std::uint64_t strip_bytes = 0;
    std::uint64_t member_bytes = 0;
    std::uint64_t array_bytes = 0;
    std::vector<Row> rows;
};

class SimArray {
  public:
    /// Reads the records and decides, changing nothing. Errc::io with the kernel's reason when it
    /// refuses, Errc::timeout when a drive hangs.
    static Result<SimArray> load(SimTable table, StepCounter& steps);

    /// Starts it, or goes on after suspend(): then members that failed and can be read again are
    /// rebuilt.
    void resume();
    /// Ends tasks and records a clean stop.
    void suspend();

    /// Host writes everywhere. Stamps the members with `generation`. False: not acknowledged.
    bool write(std::uint64_t generation);
    /// The host has been quiet for a while.
    void idle();
    /// An access to a member fails.
    void fail(std::size_t row);
    /// Errc::in_use while another task runs.
    Result<void> request(EngineTask task);
    /// Ends a check.
    void stop_check();

    /// Whether a task could go on now.
    [[nodiscard]] bool active() const;
    /// Looks for members that a running task cannot use, and for what waited for a drive that hung.
    void look_after();
    [[nodiscard]] std::uint64_t remaining_sectors() const;
    /// The running task does that many sectors of each member; at its end the members' states
    /// change, and record_result() is due a moment later.
    void advance(std::uint64_t sectors);
    [[nodiscard]] bool result_unrecorded() const { return unrecorded_; }
    void record_result();

    [[nodiscard]] EngineStatus status() const;
    [[nodiscard]] const SimTable& table() const { return table_; }
    /// Whether that member is on a drive that has gone since, although it may be back.
    [[nodiscard]] bool is_stale(std::size_t row) const;
    [[nodiscard]] bool hangs() const;
    [[nodiscard]] EngineTask task() const { return task_; }

    /// Members that are believed to be in sync and lack that generation.
    [[nodiscard]] std::vector<std::size_t> wrongly_trusted(std::uint64_t generation) const;
    /// Sectors whose mirrors or parity do not match. dm-raid does not know; the simulation keeps it
    /// over starts.
    std::uint64_t wrong_sectors = 0;
    /// Whether host writes are under way.
    [[nodiscard]] bool busy() const { return busy_; }

  private:
    struct Leg {
        bool in_sync = true;
        bool faulty = false;
        bool out = false;  ///< its record could not be read at the start
        bool first_use = false;
        bool partial = false;  ///< to be rebuilt where the bitmap is marked
        std::uint64_t recovery_offset = max_sector;
        std::bitset<256> failed;  ///< as its record says
    };

    SimArray(SimTable table, StepCounter& steps) : table_(std::move(table)), steps_(&steps) {}
    Result<void> read_records();
    Result<void> validate();
    Result<void> validate_counts();
    [[nodiscard]] bool enough_redundancy() const;
    Result<void> run();

    [[nodiscard]] bool takes_part(std::size_t row) const;
    [[nodiscard]] bool works(std::size_t row) const;
    [[nodiscard]] std::size_t degraded() const;
    [[nodiscard]] std::vector<bool> lost_in_sync() const;
    [[nodiscard]] bool has_parity() const;
    [[nodiscard]] bool copies_without(std::size_t row) const;
    [[nodiscard]] bool readable_now() const;
    [[nodiscard]] std::uint64_t total_sectors() const;

    bool mark_failed(std::size_t row);
    void mark_all_failed(const std::vector<std::size_t>& rows);
    void update_records(bool only_clean);
    void write_bitmap();
    [[nodiscard]] SimRecord record_of(std::size_t row) const;
    std::vector<std::size_t> write_pages(std::uint64_t from, std::uint64_t length);
    void load_bitmap();
    void clear_bits();
    void interrupt();
    void check_recovery();
    void finish();
    void stamp(std::size_t row, std::uint64_t generation) const;
    [[nodiscard]] std::uint64_t stamp_of(std::size_t row) const;

    SimTable table_;
    StepCounter* steps_;
    std::vector<Leg> legs_;
    std::uint64_t events_ = 0;
    std::uint64_t resync_offset_ = max_sector;
    bool can_decrease_ = false;
    bool clean_ = false;        ///< no host write since the last record
    bool new_records_ = false;  ///< records are written before the start
    bool first_start_ = false;  ///< there were none
    bool resumed_ = false;
    bool frozen_ = true;
    bool broken_ = false;
    bool busy_ = false;        ///< the host has written, and was not quiet since
    bool dirty_ = false;       ///< the bitmap is marked
    bool needed_ = false;      ///< and stays so until a rebuild or resync
    bool waiting_ = false;     ///< a record waits for a drive that hangs
    bool unrecorded_ = false;  ///< a task has ended, or was stopped, since the last record
    EngineTask task_ = EngineTask::none;
    bool requested_ = false;
    std::uint64_t position_ = 0;
    std::uint64_t mismatches_ = 0;
};

}  // namespace perch
