// SPDX-License-Identifier: GPL-2.0-or-later
// The event log: numbered, persistent (sqlite, bounded), and copied to the journal. emit() only
// appends to a ring in memory; a thread of its own writes, so that a file system that stalls (it
// may be on a VD that is suspended) holds up nobody.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "events/catalogue.hpp"

namespace perch {

class EventLog final : public EventSink {
  public:
    /// `path` of the database; its directory is made when missing. A database that cannot be used
    /// is said in the journal, and events live in memory only.
    explicit EventLog(std::string path);
    ~EventLog() override;

    void emit(EventKind kind, const std::string& text) override;
    /// Waits, at most two seconds, until what was emitted so far is stored.
    void flush();
    /// Events with a sequence above `after`, oldest first, the newest `latest` of them (0: all in
    /// memory, at most 1,000).
    std::vector<Event> read(std::uint64_t after, std::size_t latest);

  private:
    void run();

    std::string path_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<Event> recent_;
    std::deque<Event> unwritten_;
    std::uint64_t next_sequence_ = 1;
    bool loaded_ = false;
    bool writing_ = false;
    bool stopping_ = false;
    std::thread writer_;
};

/// Prints events on standard error: for perch-assemble, whose output the journal keeps.
class StderrEvents final : public EventSink {
  public:
    void emit(EventKind kind, const std::string& text) override;
};

}  // namespace perch
