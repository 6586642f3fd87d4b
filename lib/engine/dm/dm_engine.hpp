// SPDX-License-Identifier: GPL-2.0-or-later
// VDs on the kernel's device-mapper: on Perch's own target (perch_target.hpp), or on dm-raid
// (dmraid_stack.hpp).
#pragma once

#include <map>
#include <memory>

#include "engine/dm/init_job.hpp"
#include "engine/engine.hpp"

namespace perch {

class DmEngine final : public Engine {
  public:
    Result<void> supports(EngineKind kind) override;
    [[nodiscard]] EngineKind preferred() const override;
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
    [[nodiscard]] std::uint64_t record_bytes() const override;
    [[nodiscard]] Result<std::optional<MemberRecord>> decode_record(
        std::span<const std::byte> metadata) const override;
    [[nodiscard]] Result<Bytes> rewrite_record(std::span<const std::byte> metadata,
                                               std::uint64_t events,
                                               const std::vector<int>& failed_rows) const override;

  private:
    std::map<Uuid, std::unique_ptr<InitJob>> inits_;
};

}  // namespace perch
