// SPDX-License-Identifier: GPL-2.0-or-later
// A member's drive: a volatile cache over a medium, and its faults. tests/sim/README.md has the
// model.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

namespace perch::test {

using Content = std::vector<std::uint8_t>;

/// What is on a drive that has no power.
struct Disk {
    Content content;
    std::set<std::size_t> unreadable;  ///< sectors of the content, until they are written
};
using Disks = std::vector<Disk>;

class Media {
  public:
    struct Write {
        std::size_t offset;
        Content data;
        bool complete = false;
    };

    explicit Media(Disk disk)
        : durable_(std::move(disk.content)), current_(durable_), unreadable_(disk.unreadable) {}

    void write(const void* owner, std::size_t offset, Content data);
    /// Until then a read may see it or not; here: not.
    void complete_write(const void* owner, bool fua);
    /// It fails: only the first `bytes` of it were written, to the cache.
    void fail_write(const void* owner, std::size_t bytes);
    /// The drive was pulled: what was in flight and in the cache is on the medium, or not.
    void pull();
    /// Returns what complete_flush() makes durable: what is complete now.
    [[nodiscard]] std::size_t begin_flush() const { return sequence_; }
    void complete_flush(std::size_t until);
    /// It fails: what it was to cover is covered by no later one either.
    void fail_flush(std::size_t until);

    void make_unreadable(std::size_t sector) { unreadable_.insert(sector); }
    [[nodiscard]] bool is_readable(std::size_t offset, std::size_t bytes) const;
    void flip(std::size_t offset, std::uint8_t bits);

    [[nodiscard]] const Content& durable() const { return durable_; }
    [[nodiscard]] const Content& current() const { return current_; }
    [[nodiscard]] const std::set<std::size_t>& unreadable() const { return unreadable_; }
    /// Not durable, in the order in which they were begun.
    [[nodiscard]] std::vector<const Write*> volatile_writes() const;

  private:
    struct Entry {
        const void* owner;
        Write write;
        std::size_t completed = 0;  ///< place in the order of completions
    };
    [[nodiscard]] Entry& find(const void* owner);
    void put(Content& content, const Write& write);

    std::vector<std::unique_ptr<Entry>> entries_;
    Content durable_;
    Content current_;
    std::set<std::size_t> unreadable_;
    std::size_t sequence_ = 0;
};

}  // namespace perch::test
