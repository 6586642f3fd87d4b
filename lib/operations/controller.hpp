// SPDX-License-Identifier: GPL-2.0-or-later
// The controller: looks at drives and engine, makes the engine run what the configuration says, and
// carries out what an administrator asks for.
//
// Ownership: one thread (perchd's dm worker, or perch-assemble's only one) owns a Controller; every
// call may wait for drives and the kernel. Others see it through snapshot().
//
// Crash argument: nothing that matters is only in memory. Every operation is a sequence of steps
// after each of which refresh(), starting from nothing but the drives and the kernel's tables,
// reaches either the state before the operation or the one after it:
//   create   label and zero the drives → configuration with the VD → engine
//            → configuration "started"
//            (before the configuration is written there is no VD, only labelled, unused drives;
//            before "started" a VD whose members' records are incomplete starts from zero)
//   delete   stop in the engine → configuration "deleting" → wipe → configuration without it
//            (once "deleting" is written, refresh() finishes the deletion; it is never started
//            again)
//   rebuild  zero the candidate's metadata → configuration "candidate" → engine → (rebuilt, said so
//            by the member's own record) → configuration "online"
//   drop     the kernel has dropped the member (and recorded it, dm-raid) → configuration on all
//            other drives → engine without it
// tests/sim/configuration_crash.cpp stops each of them at every write.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assemble/assemble.hpp"
#include "drives/drive_access.hpp"
#include "engine/engine.hpp"
#include "events/catalogue.hpp"
#include "model/snapshot.hpp"

namespace perch {

/// Time as the controller needs it; tests drive it by hand.
struct Clock {
    std::function<double()> steady_seconds;
    std::function<std::int64_t()> wall_seconds;  ///< since 1970, UTC
    static Clock system();
};

struct ControllerPolicy {
    /// A VD with an absent member is started degraded this long after the last drive arrived.
    double degraded_wait_seconds = 10;
    /// perch.degraded=no on the kernel command line: never start degraded by itself.
    bool start_degraded = true;

    /// The defaults, with the kernel command line's say.
    static ControllerPolicy from_kernel_command_line(const std::string& path = "/proc/cmdline");
};

struct CreateRequest {
    std::vector<std::string> drives;  ///< Drive::id
    std::string name;                 ///< empty: "v<id>"
    std::uint64_t strip_bytes = default_strip_bytes;
    bool force = false;  ///< over data on the drives
};

struct InsertRequest {
    std::string drive;
    int group = 0;
    int array = 0;
    int row = 0;
    bool force = false;
};

class Controller {
  public:
    Controller(DriveAccess& drives, Engine& engine, EventSink& events, Clock clock,
               ControllerPolicy policy = {});

    /// Resumes what a killed daemon left suspended, then refreshes.
    Result<void> start();
    /// Looks at everything and acts: starts VDs, records drops, confirms rebuilds, finishes
    /// deletions. Trouble becomes a Problem in the snapshot, not an error.
    void refresh();
    [[nodiscard]] Snapshot snapshot() const;

    /// Returns the new VD's id. A VD with the same name, drives and strip is returned as it is.
    Result<int> create_vd(const CreateRequest& request);
    Result<void> delete_vd(int id);
    Result<void> set_offline(const std::string& drive);
    /// Brings an offline member back: its content is rebuilt, never trusted.
    Result<void> set_online(const std::string& drive);
    Result<void> insert_member(const InsertRequest& request);
    Result<void> start_rebuild(const std::string& drive);
    Result<void> stop_rebuild(const std::string& drive);

    /// True while every VD runs with all its members, or is known to have to wait for a person.
    [[nodiscard]] bool all_started() const;
    /// True while some operation makes progress that a user may be watching.
    [[nodiscard]] bool busy() const;

  private:
    struct Progress {
        EngineTask task = EngineTask::none;
        double started = 0;
        std::uint64_t started_sectors = 0;
        double seconds = 0;
        std::uint64_t sectors = 0;
    };
    /// What is known of a VD beside its configuration.
    struct Runtime {
        std::optional<EngineStatus> status;
        MemberRecords records;
        std::string reason;  ///< why it does not run or is not optimal
        Progress progress;
        bool resync_seen = false;            ///< the resync we wait for was seen running
        std::optional<double> resync_asked;  ///< when we asked for it
        VdState last_state = VdState::offline;
        bool seen = false;
    };
    /// A member in the configuration and the drive it is on.
    struct MemberPlace {
        int vd_id = 0;
        int row = 0;
    };

    void look();
    void note_arrivals(const std::vector<FoundDrive>& before);
    void update_drive_places();
    void refresh_vd(int id);
    void try_start(int id);
    void reconcile_running(int id);
    Result<void> finish_delete(int id);
    void note_state(const ConfigVd& vd);
    void update_progress(Runtime& runtime) const;

    void reconcile_parity(int id);
    void start_vd(int id, const AssemblyPlan& plan);
    [[nodiscard]] Result<void> check_held(const Configuration& next,
                                          const std::vector<Uuid>& held) const;
    [[nodiscard]] bool is_gone(const Uuid& drive) const;

    /// Errc::io when one could not be read: unreadable must not be taken for empty.
    Result<MemberRecords> read_records(const ConfigVd& vd);
    Result<void> apply(int id);
    Result<void> commit(Configuration next);
    Result<void> wipe(const ConfigVd& vd);
    Result<void> zero_metadata(const ConfigMember& member);
    Result<void> change_member(const MemberPlace& place, MemberState state, bool fresh_instance);
    Result<void> begin_rebuild(const MemberPlace& place);

    [[nodiscard]] VdState vd_state(const ConfigVd& vd) const;
    [[nodiscard]] int survives(const ConfigVd& vd) const;
    [[nodiscard]] const Runtime* runtime_of(const ConfigVd& vd) const;
    [[nodiscard]] std::string vd_title(const ConfigVd& vd) const;
    [[nodiscard]] std::string drive_title(const Uuid& drive) const;

    Result<const FoundDrive*> found_drive(const std::string& id) const;
    Result<MemberPlace> member_place(const std::string& drive) const;
    Result<Label> ready_label(const FoundDrive& drive, bool force);
    [[nodiscard]] const ConfigVd* find_same(const CreateRequest& request) const;
    Result<ConfigVd> plan_create(const CreateRequest& request) const;
    [[nodiscard]] Result<void> check_takeable(const FoundDrive& drive, bool force) const;
    [[nodiscard]] ConfigDrive config_drive(const FoundDrive& drive, const Uuid& uuid) const;
    [[nodiscard]] Result<void> check_healthy_configuration() const;

    // The picture (controller_snapshot.cpp).
    [[nodiscard]] Drive show_drive(const FoundDrive& found) const;
    [[nodiscard]] std::vector<Drive> show_missing(const std::vector<Drive>& present) const;
    [[nodiscard]] VirtualDrive show_vd(const ConfigVd& vd, const std::vector<Drive>& drives) const;
    void show_pull(Snapshot& snapshot) const;
    [[nodiscard]] std::vector<Problem> show_problems(const Snapshot& snapshot) const;

    DriveAccess& access_;
    Engine& engine_;
    EventSink& events_;
    Clock clock_;
    ControllerPolicy policy_;

    std::vector<FoundDrive> drives_;
    bool looked_ = false;
    Configuration configuration_;
    std::uint64_t attempted_ = 0;  ///< highest sequence ever tried: a failed commit's is not reused
    std::optional<std::string> refusal_;
    std::string engine_trouble_;
    std::map<Uuid, Runtime> runtimes_;
    double last_arrival_ = 0;
};

}  // namespace perch
