// SPDX-License-Identifier: GPL-2.0-or-later
// VDs on the kernel's device-mapper.
//
// Below each VD lie two linear devices per member (metadata and data extent of its partition),
// above them one raid device. A change of members is a reload: the new table is loaded beside the
// live one, then suspend and resume swap them. A kill between the two leaves the device suspended
// with a loaded table that says what the configuration said before the load; resume_suspended()
// puts it right.
#pragma once

#include "engine/engine.hpp"

namespace perch {

class DmEngine final : public Engine {
  public:
    Result<void> apply(const EngineVd& vd) override;
    Result<void> stop(const Uuid& vd) override;
    Result<std::optional<EngineStatus>> status(const Uuid& vd) override;
    Result<void> request_resync(const Uuid& vd) override;
    Result<std::vector<Uuid>> running() override;
    Result<int> resume_suspended() override;
    [[nodiscard]] std::uint64_t record_bytes() const override;
    [[nodiscard]] Result<std::optional<MemberRecord>> decode_record(
        std::span<const std::byte> metadata) const override;
};

}  // namespace perch
