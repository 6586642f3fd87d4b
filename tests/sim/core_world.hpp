// SPDX-License-Identifier: GPL-2.0-or-later
// The core on simulated members: what tests/sim/README.md calls the machine, its faults and its
// checkers. Deterministic: who goes next is decided by the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/core.hpp"

namespace perch::test {

/// A rule of the core did not hold. The text begins with the checker's name.
struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct CoreShape {
    geometry_level level = GEOMETRY_RAID5;
    unsigned members = 3;
    unsigned per_span = 3;
    unsigned strip = 8;   ///< sectors
    unsigned rows = 2;    ///< of a span
    unsigned region = 8;  ///< sectors of a member
    unsigned lanes = 3;
    unsigned windows = 1;  ///< of a lane
};

using Content = std::vector<std::uint8_t>;

/// What is on a member: the dirty map's extent, then data.
class Media {
  public:
    struct Write {
        std::size_t offset;
        Content data;
        bool complete = false;
    };

    explicit Media(Content content) : durable_(std::move(content)), current_(durable_) {}

    void write(const void* owner, std::size_t offset, Content data);
    /// Until then a read may see it or not; here: not.
    void complete_write(const void* owner, bool fua);
    /// It fails, and changes nothing.
    void drop_write(const void* owner);
    /// Returns what complete_flush() makes durable: what is complete now.
    [[nodiscard]] std::size_t begin_flush() const { return sequence_; }
    void complete_flush(std::size_t until);

    [[nodiscard]] const Content& durable() const { return durable_; }
    [[nodiscard]] const Content& current() const { return current_; }
    /// Not durable, in the order in which they were begun.
    [[nodiscard]] std::vector<const Write*> volatile_writes() const;

  private:
    struct Entry {
        const void* owner;
        Write write;
        std::size_t completed = 0;  ///< place in the order of completions
    };
    std::vector<std::unique_ptr<Entry>> entries_;
    Content durable_;
    Content current_;
    std::size_t sequence_ = 0;
};

/// A VD, its members and its host.
class CoreWorld {
  public:
    /// What a sector may hold: every write to it since it was last known.
    struct Version {
        std::uint64_t id;
        std::uint64_t begun;
        std::uint64_t acknowledged;  ///< `never` while it is in flight
        std::uint64_t durable;       ///< `never` until a flush, or FUA
    };
    using History = std::vector<Version>;
    static constexpr std::uint64_t never = UINT64_MAX;

    /// Members of zeros, with parity that matches, and a clean map.
    explicit CoreWorld(const CoreShape& shape);
    /// Members as they are after a cut, or after a clean stop. `lost`: cannot be used.
    CoreWorld(const CoreShape& shape, const std::vector<Content>& members,
              std::vector<History> histories, const std::set<unsigned>& lost = {},
              bool clean = false);
    ~CoreWorld();
    CoreWorld(const CoreWorld&) = delete;
    CoreWorld& operator=(const CoreWorld&) = delete;

    // --- the host; requests must lie in a row

    void write(std::uint64_t sector, std::uint32_t sectors, bool fua = false);
    void flush();
    void read(std::uint64_t sector, std::uint32_t sectors);
    void tick();
    /// The next write of data that ends fails, and leaves its member as it was.
    void fail_next_write() { fail_next_write_ = true; }

    // --- what happens next

    /// How many things could happen next; 0: all is quiet.
    [[nodiscard]] std::size_t choices() const;
    /// The one that holds flushes back longest: what they are to cover has time to go wrong.
    [[nodiscard]] std::size_t choice_with_late_flushes() const;
    /// Lets one of them happen.
    void step(std::size_t choice);
    /// Until nothing is left to happen, the oldest first.
    void settle();
    /// Ticks until the map is clean.
    void settle_clean();

    // --- checkers: each throws a Violation

    /// What every sector holds, read by the host, is something it may hold (rules 1 and 2).
    void check_content();
    /// After a cut: the same by what is durable. What is found is what the sectors hold from now
    /// on.
    void check_after_cut();
    /// After a cut, with members lost: the same, but what only doubtful parity could give is an
    /// error.
    void check_after_cut_degraded();
    /// No request has ended in an error.
    void check_no_errors() const;
    /// P and Q of every row match data, by ISA-L.
    void check_parity() const;

    [[nodiscard]] const CoreShape& shape() const { return shape_; }
    [[nodiscard]] std::uint64_t sectors() const;
    [[nodiscard]] std::uint32_t row_sectors() const;
    [[nodiscard]] const std::vector<Media>& media() const { return media_; }
    [[nodiscard]] const std::vector<History>& histories() const { return histories_; }
    [[nodiscard]] std::vector<Content> current() const;
    [[nodiscard]] std::uint64_t commands() const { return commands_; }
    [[nodiscard]] bool in_sync() const;
    [[nodiscard]] unsigned failed() const { return failed_; }  ///< requests that ended in an error

  private:
    struct Live;
    struct Host;
    friend struct CoreCallbacks;

    void start(const std::set<unsigned>& lost, bool clean);
    [[nodiscard]] bool dirty_on_media(std::uint64_t region) const;
    void begin(std::unique_ptr<Host> host);
    void complete_io(std::size_t index);
    void end(Host& host, int error);
    void end_direct_read(Host& host);
    void check_dirty_bit(const io& command) const;
    void check_known(const io& command) const;
    void check_cleared(const io& command) const;
    void check_sector(std::uint64_t sector, const std::uint8_t* bytes, std::uint64_t read_begun);

    CoreShape shape_;
    std::vector<Media> media_;
    std::vector<History> histories_;
    std::unique_ptr<Live> live_;
    std::vector<std::unique_ptr<Host>> hosts_;  ///< not ended yet
    std::vector<std::unique_ptr<Host>> ended_;
    std::uint64_t now_ = 1;
    std::uint64_t next_id_ = 1;
    std::uint64_t commands_ = 0;
    unsigned failed_ = 0;
    bool fail_next_write_ = false;
};

/// What the members of a world may hold after a cut now: everything that is durable, and of what is
/// not any part. Calls `action` with each image; returns how many there were. Subsets of more than
/// `most` writes are sampled with `seed`, `capped` says so.
std::size_t for_each_cut(const CoreWorld& world, unsigned most, std::uint64_t seed, bool& capped,
                         const std::function<void(const std::vector<Content>&)>& action);

}  // namespace perch::test
