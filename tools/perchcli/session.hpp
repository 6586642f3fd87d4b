// SPDX-License-Identifier: GPL-2.0-or-later
// What a handler sees of the world: perchd, the terminal, the host. Tests put fakes in their place.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"
#include "util/error.hpp"

namespace perch::cli {

/// perchd's answer to a change.
struct Accepted {
    std::optional<std::uint64_t> task;  ///< absent: done already
    std::string target;                 ///< URI of what it made, when done already
};

/// The way to perchd.
class Connection {
  public:
    Connection() = default;
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    virtual ~Connection() = default;

    /// The model; with a generation, the first one newer than it, or the same after 30 s.
    virtual Result<Snapshot> snapshot(std::optional<std::uint64_t> after = std::nullopt) = 0;
    /// Events, oldest first; the newest so many, or all.
    virtual Result<std::vector<Event>> events(std::optional<int> latest) = 0;
    /// Asks for a change. body may be null for none.
    virtual Result<Accepted> send(std::string_view method, std::string_view target,
                                  const nlohmann::json& body) = 0;
};

/// Where the user sits, if there is one.
class Terminal {
  public:
    Terminal() = default;
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    virtual ~Terminal() = default;

    /// A person can be asked: standard input and standard error are a terminal.
    [[nodiscard]] virtual bool interactive() const = 0;
    /// Progress may overwrite its line.
    [[nodiscard]] virtual bool moving_output() const = 0;
    virtual void out(std::string_view text) = 0;
    virtual void err(std::string_view text) = 0;
    /// Prints the question on standard error and reads one line; nothing at end of file.
    virtual std::optional<std::string> ask(std::string_view question) = 0;
};

struct Session {
    Connection& connection;
    Terminal& terminal;
    bool json = false;  ///< standard output carries JSON: nothing else goes there
};

}  // namespace perch::cli
