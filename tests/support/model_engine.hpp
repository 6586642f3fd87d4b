// SPDX-License-Identifier: GPL-2.0-or-later
// An engine for tests that behaves as dm-raid does where the controller can tell: it keeps running
// when the program is killed, forgets everything at a power cut, records events and failed members
// in each member's metadata, and refuses a member whose metadata it does not know unless told to
// rebuild it. It moves no data.
#pragma once

#include <map>

#include "engine/engine.hpp"
#include "support/memory_drives.hpp"

namespace perch::test {

class ModelEngine final : public Engine {
  public:
    ModelEngine(MemoryDrives& drives, StepCounter& steps) : drives_(drives), steps_(steps) {}

    Result<void> apply(const EngineVd& vd) override;
    Result<void> stop(const Uuid& vd) override;
    Result<std::optional<EngineStatus>> status(const Uuid& vd) override;
    Result<void> request_resync(const Uuid& vd) override;
    Result<std::vector<Uuid>> running() override;
    [[nodiscard]] std::uint64_t record_bytes() const override { return 4096; }
    Result<int> resume_suspended() override;
    [[nodiscard]] Result<std::optional<MemberRecord>> decode_record(
        std::span<const std::byte> metadata) const override;

    /// The host is writing: until a clean stop the records say so.
    void write(const Uuid& vd);
    /// The running rebuild ends well.
    void finish_rebuild(const Uuid& vd);
    /// The kernel drops a member for errors, and records it on the others.
    void fail_member(const Uuid& vd, std::size_t row);
    void set_open(const Uuid& vd, bool open) { running_.at(vd).open = open; }
    /// Everything in memory is gone.
    void power_cut() { running_.clear(); }

  private:
    struct Member {
        EngineMember config;
        MemberHealth health = MemberHealth::absent;
    };
    struct Array {
        EngineVd vd;
        std::vector<Member> members;
        std::uint64_t events = 0;
        bool suspended = false;
        bool open = false;
        bool dirty = false;
        int resync_looks = 0;  ///< how many looks will still see the resync run
    };

    Result<void> write_records(Array& array);
    Result<std::optional<MemberRecord>> read_record(const EngineMember& member);
    static bool same_members(const Array& array, const EngineVd& vd);

    MemoryDrives& drives_;
    StepCounter& steps_;
    std::map<Uuid, Array> running_;
};

}  // namespace perch::test
