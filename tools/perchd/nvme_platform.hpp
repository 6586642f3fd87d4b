// SPDX-License-Identifier: GPL-2.0-or-later
// The machine itself: NVMe drives, device-mapper, udev.
#pragma once

#include "drives/nvme_access.hpp"
#include "engine/dm/dm_engine.hpp"
#include "platform.hpp"

namespace perch {

class NvmePlatform final : public Platform {
  public:
    DriveAccess& drives() override { return drives_; }
    Engine& engine() override { return engine_; }
    [[nodiscard]] Clock clock() const override { return Clock::system(); }
    [[nodiscard]] ControllerPolicy policy() const override;
    [[nodiscard]] std::string trouble() const override;
    Result<std::unique_ptr<Watch>> watch(boost::asio::io_context& loop,
                                         std::function<void()> changed) override;

  private:
    NvmeAccess drives_;
    DmEngine engine_;
};

/// A daemon that may run with / on a VD it manages must not need that VD to go on: locks memory and
/// says to the kernel what it is. Says on standard error what is not possible.
void harden_against_own_storage();

}  // namespace perch
