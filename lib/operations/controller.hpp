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
//   create   label and zero the drives → superblocks → configuration with the VD → engine
//            → configuration "started"
//            (before the configuration is written there is no VD, only labelled, unused drives;
//            before "started" a VD whose members' records are incomplete starts from zero)
//   delete   stop in the engine → configuration "deleting" → tombstones in the superblocks, wipe
//            → configuration without it
//            (once "deleting" is written, refresh() finishes the deletion; it is never started
//            again, and neither does a tombstone let it)
//   rename, spare, coercion, jbod   one configuration (the engine's name follows by refresh())
//   rebuild  zero the candidate's metadata → its superblock with a fresh instance → configuration
//            "candidate" with that instance → engine → (rebuilt: said so by dm-raid's record of the
//            member, or by the target, whose epoch is durable then) → configuration "online"
//   drop     the kernel has dropped the member and recorded it → configuration on all
//            other drives → engine without it
//   import   configuration with the foreign VDs, on our drives and theirs → their labels
//            (a drive that the configuration lists is ours, whatever its label says; refresh()
//            corrects the label)
//   initialize   configuration with how much is zeroed → zeros → … → configuration without it
// tests/sim/configuration_crash.cpp stops each of them at every write.
//
// controller.cpp looks and commits, controller_vds.cpp makes VDs run, controller_requests.cpp and
// controller_members.cpp carry out what is asked for VDs and for drives, controller_foreign.cpp
// what is asked for other histories, controller_snapshot.cpp makes the picture.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assemble/assemble.hpp"
#include "assemble/history.hpp"
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
    /// Nobody else writes configurations while this controller lives (perchd). Otherwise each look
    /// starts from the drives alone.
    bool only_writer = true;

    /// The defaults, with the kernel command line's say.
    static ControllerPolicy from_kernel_command_line(const std::string& path = "/proc/cmdline");
};

struct CreateRequest {
    RaidLevel level = RaidLevel::raid5;
    /// Drive::id, by row. The members of an existing drive group: the VD goes into its free space.
    std::vector<std::string> drives;
    int per_span = 0;                         ///< 0: the level's default
    std::optional<std::uint64_t> size_bytes;  ///< at least; absent: all that is free in one piece
    std::string name;                         ///< empty: "v<id>"
    std::uint64_t strip_bytes = default_strip_bytes;
    std::optional<EngineKind> engine;  ///< absent: Engine::preferred()
    std::vector<std::string> spares;   ///< Drive::id, dedicated to the VD's drive group
    bool force = false;                ///< over data on the drives
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

    /// Returns the new VD's id. A VD with the same name, level, drives, size and strip is returned
    /// as it is.
    Result<int> create_vd(const CreateRequest& request);
    Result<void> delete_vd(int id);
    Result<void> rename_vd(int id, const std::string& name);
    /// Zeroes a VD's data: both ends (fast), or all of it (full; returns at once). Refused while it
    /// is in use.
    Result<void> start_init(int id, bool full);
    Result<void> stop_init(int id);
    /// Compares mirrors or parity everywhere. Refused on a degraded VD and on RAID0.
    Result<void> start_check(int id);
    Result<void> stop_check(int id);

    Result<void> set_offline(const std::string& drive);
    /// Brings an offline member back: its content is rebuilt, never trusted.
    Result<void> set_online(const std::string& drive);
    Result<void> insert_member(const InsertRequest& request);
    Result<void> start_rebuild(const std::string& drive);
    Result<void> stop_rebuild(const std::string& drive);
    /// Takes an offline or failed member out of its drive group: its place is empty then.
    Result<void> set_missing(const std::string& drive);
    /// Makes a drive usable: erases what a JBOD carries (`force` when that is data), clears
    /// "failed".
    Result<void> set_unconfigured(const std::string& drive, bool force);
    /// Hands a drive back to the system: blank, never used by Perch until set_unconfigured.
    Result<void> set_jbod(const std::string& drive, bool force);
    /// Makes a drive a spare of those drive groups; none: of all.
    Result<void> add_spare(const std::string& drive, const std::vector<int>& groups);
    Result<void> delete_spare(const std::string& drive);
    Result<void> set_coercion(Coercion coercion);

    /// Takes foreign drive groups over (ForeignGroup::id; none: all that are complete). All or
    /// nothing.
    Result<void> import_foreign(const std::vector<int>& groups);
    /// Erases foreign configurations: their drives are blank then. Data on them is lost.
    Result<void> clear_foreign(const std::vector<int>& groups);

    /// True while every VD runs with all its members, or is known to have to wait for a person.
    [[nodiscard]] bool all_started() const;
    /// True while some operation makes progress that a user may be watching, or its end is to be
    /// confirmed.
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
        bool resync_seen = false;                 ///< the resync we wait for was seen running
        std::optional<double> resync_asked;       ///< when we asked for it
        bool check_seen = false;                  ///< a check is, or was at the last look, running
        std::optional<std::uint64_t> mismatches;  ///< of the last check that ended
        VdState last_state = VdState::offline;
        bool seen = false;
    };
    /// A member in the configuration.
    struct MemberPlace {
        int vd_id = 0;
        int row = 0;
    };
    /// A drive group of another history, as it is shown and as it would be imported.
    struct Foreign {
        ForeignGroup shown;
        OtherHistory history;
        bool own_version = false;  ///< our own version of a group that has gone two ways
    };

    // Looking and committing (controller.cpp).
    void look();
    void note_arrivals(const std::vector<FoundDrive>& before);
    void note_held();
    void repair_tables();
    void update_drives();
    Result<void> commit(Configuration next);
    [[nodiscard]] std::vector<FoundDrive> commit_targets(const Configuration& next) const;
    void note_attempt(const std::vector<FoundDrive>& targets,
                      const std::vector<Result<void>>& answers, const Configuration& written);
    [[nodiscard]] Result<void> check_held(const Configuration& next,
                                          const std::vector<Uuid>& held) const;
    [[nodiscard]] bool is_gone(const Uuid& drive) const;

    // VDs (controller_vds.cpp).
    void refresh_vd(int id);
    void try_start(int id);
    void start_vd(int id, const AssemblyPlan& plan);
    [[nodiscard]] Result<void> prepare_start(const ConfigVd& vd, const AssemblyPlan& plan);
    void restart_dead(int id);
    void reconcile_running(int id);
    void reconcile_parity(int id);
    void note_synced(int id);
    void reconcile_check(int id);
    void reconcile_init(int id);
    Result<void> finish_delete(int id);
    void note_state(const ConfigVd& vd);
    void update_progress(Runtime& runtime) const;
    /// Errc::io when one could not be read: unreadable must not be taken for empty.
    Result<MemberRecords> read_records(const ConfigVd& vd);
    Result<void> apply(int id);
    Result<void> wipe(const ConfigVd& vd);
    [[nodiscard]] Result<void> zero_extents(const ConfigMember& member,
                                            const std::vector<ExtentType>& types);
    Result<void> write_superblocks(const ConfigVd& vd, const std::vector<std::size_t>& rows,
                                   bool tombstone);
    [[nodiscard]] std::vector<bool> lost_rows(const ConfigVd& vd) const;
    [[nodiscard]] VdState vd_state(const ConfigVd& vd) const;
    /// Of a VD that runs: whether its parity, or its mirrors, may not match somewhere.
    [[nodiscard]] bool out_of_sync(const ConfigVd& vd) const;
    [[nodiscard]] int survives(const ConfigVd& vd) const;
    [[nodiscard]] const Runtime* runtime_of(const ConfigVd& vd) const;
    [[nodiscard]] std::string vd_title(const ConfigVd& vd) const;
    [[nodiscard]] std::string drive_title(const Uuid& drive) const;

    // Requests (controller_requests.cpp, controller_members.cpp).
    [[nodiscard]] Result<void> check_healthy_configuration() const;
    [[nodiscard]] Result<const ConfigVd*> configured_vd(int id) const;
    [[nodiscard]] Result<const ConfigVd*> running_vd(int id) const;
    [[nodiscard]] Result<void> check_unused(const ConfigVd& vd) const;
    [[nodiscard]] Result<const FoundDrive*> found_drive(const std::string& id) const;
    [[nodiscard]] Result<std::vector<MemberPlace>> member_places(const std::string& drive) const;
    /// After a look, and only while changes are allowed.
    Result<const FoundDrive*> ready_drive(const std::string& id);
    Result<std::vector<MemberPlace>> ready_places(const std::string& drive);
    [[nodiscard]] Result<void> check_takeable(const FoundDrive& drive, bool force) const;
    [[nodiscard]] ConfigDrive config_drive(const FoundDrive& drive, const Label& label) const;
    /// A labelled drive of ours from one that may be used; drives_ is looked at anew.
    Result<ConfigDrive> take_drive(const std::string& id, bool force);
    [[nodiscard]] const ConfigVd* find_same(const CreateRequest& request) const;
    [[nodiscard]] Result<std::optional<int>> group_for(const CreateRequest& request) const;
    [[nodiscard]] EngineKind engine_for(const CreateRequest& request) const;
    [[nodiscard]] Result<ConfigVd> plan_create(const CreateRequest& request) const;
    [[nodiscard]] Result<VdLayout> plan_layout(const CreateRequest& request, const RaidShape& shape,
                                               int group, bool existing) const;
    [[nodiscard]] Result<PartitionLayout> partition_of(const FoundDrive& drive) const;
    [[nodiscard]] Result<std::vector<std::string>> rows_for(const CreateRequest& request,
                                                            std::optional<int> group) const;
    Result<void> change_members(const std::vector<MemberPlace>& places, MemberState state);
    Result<void> begin_rebuild(const std::vector<MemberPlace>& places);
    [[nodiscard]] Result<void> check_spare(const FoundDrive& drive,
                                           const std::vector<int>& groups) const;

    // Other histories (controller_foreign.cpp).
    [[nodiscard]] std::vector<Foreign> find_foreign();
    [[nodiscard]] Result<Configuration> imported(const Configuration& base,
                                                 const Foreign& foreign) const;
    void preview(Foreign& foreign);

    // The picture (controller_snapshot.cpp).
    [[nodiscard]] Drive show_drive(const FoundDrive& found) const;
    [[nodiscard]] std::vector<Drive> show_missing(const std::vector<Drive>& present) const;
    [[nodiscard]] VirtualDrive show_vd(const ConfigVd& vd, const std::vector<Drive>& drives) const;
    [[nodiscard]] std::optional<perch::Operation> show_operation(const ConfigVd& vd) const;
    [[nodiscard]] std::vector<DriveGroup> show_groups(const Snapshot& snapshot) const;
    void show_pull(Snapshot& snapshot) const;
    [[nodiscard]] std::vector<Problem> show_problems(const Snapshot& snapshot) const;

    DriveAccess& access_;
    Engine& engine_;
    EventSink& events_;
    Clock clock_;
    ControllerPolicy policy_;

    std::vector<FoundDrive> drives_;
    bool looked_ = false;
    History history_;
    Configuration configuration_;
    std::vector<Foreign> foreign_;
    std::uint64_t attempted_ = 0;  ///< highest sequence ever tried: a failed commit's is not reused
    std::optional<double> update_failed_;  ///< when bringing drives up to date last failed
    std::string repair_trouble_;
    std::map<Uuid, Runtime> runtimes_;
    double last_arrival_ = 0;
};

}  // namespace perch
