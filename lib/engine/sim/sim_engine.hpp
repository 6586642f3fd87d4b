// SPDX-License-Identifier: GPL-2.0-or-later
// Virtual drives on simulated drives: what engine/dm makes of the kernel's devices, with SimArray
// in the place of dm-raid and a clock that may run faster than time. It goes on running, as a
// kernel does, while the programs above it come and go; power_cut() ends it.
//
// Beside what the kernel knows it keeps the truth that nobody in the simulation may look at: which
// host writes were acknowledged, and where mirrors or parity do not match. wrongly_trusted() and
// wrong_sectors() tell a test what a reader of the data would find.
//
// One thread. Steps (sim_device.hpp) are the calls into the kernel and the records that it writes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/sim/sim_array.hpp"
#include "engine/sim/sim_drives.hpp"

namespace perch {

class SimEngine final : public Engine {
  public:
    /// `now`: seconds, never going back; nullptr: time stands still, and tests end tasks.
    SimEngine(SimDrives& drives, StepCounter& steps, std::function<double()> now = nullptr)
        : drives_(drives), steps_(steps), now_(std::move(now)) {}

    Result<void> supports(EngineKind kind) override;
    [[nodiscard]] EngineKind preferred() const override { return EngineKind::dm_raid; }
    Result<void> apply(const EngineVd& vd) override;
    Result<void> stop(const Uuid& vd) override;
    Result<std::optional<EngineStatus>> status(const Uuid& vd) override;
    Result<void> request_resync(const Uuid& vd) override;
    Result<void> start_check(const Uuid& vd) override;
    Result<void> start_init(const Uuid& vd, std::uint64_t from_bytes) override;
    Result<void> stop_task(const Uuid& vd) override;
    Result<void> zero(const Uuid& vd, std::uint64_t offset, std::uint64_t bytes) override;
    Result<std::vector<Uuid>> running() override;
    Result<int> resume_suspended() override;
    [[nodiscard]] std::uint64_t record_bytes() const override { return sim_record_bytes; }
    [[nodiscard]] Result<std::optional<MemberRecord>> decode_record(
        std::span<const std::byte> metadata) const override;
    [[nodiscard]] Result<Bytes> rewrite_record(std::span<const std::byte> metadata,
                                               std::uint64_t events,
                                               const std::vector<int>& failed_rows) const override;

    // --- The machine around it.

    /// The host writes all over the VD: its bitmap is marked until idle() or a clean stop. False:
    /// the write was not acknowledged.
    bool write(const Uuid& vd);
    /// The host stops writing.
    void idle(const Uuid& vd);
    /// Somebody has the VD open.
    void set_open(const Uuid& vd, bool open) { at(vd).open = open; }
    /// The kernel drops a member for errors, and records it on the others.
    void fail_member(const Uuid& vd, std::size_t row);
    /// The running rebuild, resync or check ends well, now; what follows it begins.
    void finish_rebuild(const Uuid& vd) { finish(vd, EngineTask::rebuild); }
    void finish_resync(const Uuid& vd) { finish(vd, EngineTask::resync); }
    void finish_check(const Uuid& vd) { finish(vd, EngineTask::check); }
    void finish_init(const Uuid& vd);
    /// All tasks of that kind, of all VDs; how many VDs had one.
    int finish_all(EngineTask task);
    /// What the program did itself ends with it: initializations.
    void kill_program();
    /// Everything in memory is gone; what was being written is half written.
    void power_cut();
    /// Stops everything in order, as a shutdown does.
    void shut_down();
    /// Seconds until the next task ends by itself; nullopt: none does.
    std::optional<double> next_end();

    /// The VD of that name, for scripts.
    [[nodiscard]] std::optional<Uuid> find(const std::string& name) const;
    /// Rows that the kernel believes although they lack acknowledged writes.
    [[nodiscard]] std::vector<std::size_t> wrongly_trusted(const Uuid& vd) const;
    /// Sectors whose mirrors or parity do not match, also of a VD that does not run.
    [[nodiscard]] std::uint64_t wrong_sectors(const Uuid& vd) const;

    /// Everything in memory, to be put back on the same drives (SimDrives::save).
    struct Saved;
    [[nodiscard]] std::shared_ptr<const Saved> save() const;
    void restore(const Saved& saved);

  private:
    /// A device-mapper device.
    struct Device {
        std::optional<SimArray> live;
        std::optional<SimArray> loaded;
        bool suspended = false;
        double carry = 0;             ///< part of a sector that its task has done
        std::optional<double> ended;  ///< when its task did; the record follows
    };
    struct Init {
        double done_bytes = 0;
        bool running = true;
    };
    struct Vd {
        EngineVd config;
        std::string name;  ///< the kernel's
        int number = 0;
        std::vector<Device> devices;  ///< one, or one per span
        bool top = false;             ///< the VD's own device is there
        bool open = false;
        std::optional<Init> init;
    };
    struct Truth {
        std::uint64_t attempted = 0;       ///< host writes
        std::uint64_t acknowledged = 0;    ///< the newest of them that was
        std::vector<std::uint64_t> wrong;  ///< sectors, by span
    };

    Vd& at(const Uuid& vd);
    Result<Vd*> running_vd(const Uuid& vd);
    Result<std::vector<SimTable>> tables_of(const EngineVd& vd);
    Result<void> check_parts(const Vd& running, const std::vector<SimTable>& tables) const;
    Result<SimArray> load(SimTable table, std::size_t span);
    Result<void> apply_device(Vd& vd, std::size_t span, SimTable table);
    Result<void> swap(Vd& vd, std::size_t span, SimArray next);
    void resume(Vd& vd, std::size_t span);
    Result<void> remove(Vd& vd, std::size_t span);
    Result<void> message(const Uuid& vd, EngineTask task);
    static void hold(const SimTable& table, int change);

    using Loads = std::map<const SimDrive*, int>;  ///< running tasks per drive
    void advance();
    void advance_by(double seconds);
    void look_after();
    void finish(const Uuid& vd, EngineTask task);
    [[nodiscard]] Loads loads() const;
    [[nodiscard]] std::optional<double> seconds_to_end(const Loads& loads) const;
    static double bytes_per_second(const SimArray& array, const Loads& loads);
    static double init_bytes_per_second(const Vd& vd, const Loads& loads);
    static void note_wrong(Truth& truth, std::size_t span, std::uint64_t sectors);

    SimDrives& drives_;
    StepCounter& steps_;
    std::function<double()> now_;
    double last_ = 0;
    int next_number_ = 0;
    std::map<Uuid, Vd> vds_;
    std::map<Uuid, Truth> truths_;
};

}  // namespace perch
