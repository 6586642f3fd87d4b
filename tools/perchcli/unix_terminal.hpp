// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "session.hpp"

namespace perch::cli {

/// The process's own standard streams.
class UnixTerminal : public Terminal {
  public:
    [[nodiscard]] bool interactive() const override;
    [[nodiscard]] bool moving_output() const override;
    void out(std::string_view text) override;
    void err(std::string_view text) override;
    std::optional<std::string> ask(std::string_view question) override;
};

}  // namespace perch::cli
