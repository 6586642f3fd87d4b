// SPDX-License-Identifier: GPL-2.0-or-later
// The core on simulated members: what tests/sim/README.md calls the machine, its faults and its
// checkers. Deterministic: who goes next is decided by the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/core_disks.hpp"

namespace perch::test {

/// A rule of the core did not hold. The text begins with the checker's name.
struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
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
        bool elsewhere = false;      ///< on another copy than the one that is read
    };
    using History = std::vector<Version>;
    static constexpr std::uint64_t never = UINT64_MAX;

    /// By span and number.
    using Windows = std::set<std::pair<unsigned, std::uint64_t>>;

    /// What outlives a machine: its drives, and what its host and its administrator know.
    struct Remains {
        CoreShape shape;
        Disks disks;
        std::vector<History> histories;
        std::set<unsigned> suspects;  ///< members that something has happened to: may be out
        std::map<std::uint64_t, std::uint64_t>
            lost;                 ///< sectors that may be listed, and since when
        Windows unsteady;         ///< where something could not be read once
        std::uint64_t instances;  ///< given so far
    };

    /// Members of zeros, with parity that matches, and a clean map.
    explicit CoreWorld(const CoreShape& shape);
    /// The machine starts anew. `absent`: drives that are not there.
    explicit CoreWorld(Remains remains, const std::set<unsigned>& absent = {});
    ~CoreWorld();
    CoreWorld(const CoreWorld&) = delete;
    CoreWorld& operator=(const CoreWorld&) = delete;

    /// How the start went; nothing but the remains is there when it is not VD_READY.
    [[nodiscard]] vd_choice choice() const { return choice_; }
    /// What is left of it, with these contents or as they are.
    [[nodiscard]] Remains remains(const std::vector<Content>& contents) const;
    [[nodiscard]] Remains remains() const;
    /// Blank drives in the place of these.
    static void replace(Remains& remains, const std::set<unsigned>& members);

    // --- the host; requests must lie in a row

    void write(std::uint64_t sector, std::uint32_t sectors, bool fua = false);
    void flush();
    void read(std::uint64_t sector, std::uint32_t sectors);
    void tick();
    /// Nothing else of the host may be under way, and nothing may be asked after it.
    void stop();
    void check(bool repair);
    void patrol();
    void end_task();

    // --- what happens to drives

    /// It is gone; what it does from now on are errors. The core is told.
    void pull(unsigned member);
    /// The next write of data that ends on it fails, and is written by half; the one after it does
    /// not.
    void fail_a_write(unsigned member) { faults_[member].writes = 1; }
    void fail_all_writes(unsigned member);
    void fail_a_flush(unsigned member);
    /// It does not answer to the next reads of the core; nothing is wrong with what it holds.
    void fail_reads(unsigned member, unsigned number);
    /// A sector of its data cannot be read until it is written.
    void make_unreadable(unsigned member, std::uint64_t sector);
    /// A byte of its data is another one.
    void flip(unsigned member, std::uint64_t sector);
    /// The copy of its superblock that counts now is damaged.
    void damage_superblock(unsigned member);
    /// What was asked of it and will be does not end, until it answers again or is pulled. (A drive
    /// whose own time-out has passed is reset, which is one or the other.)
    void hang(unsigned member);
    void answer(unsigned member);
    [[nodiscard]] const std::set<unsigned>& hanging() const { return hanging_; }

    // --- what happens next

    /// How many things could happen next; 0: all is quiet.
    [[nodiscard]] std::size_t choices() const;
    /// The one that holds flushes back longest: what they are to cover has time to go wrong.
    [[nodiscard]] std::size_t choice_with_late_flushes() const;
    /// The same of superblocks and bad ranges: others go on before these are everywhere.
    [[nodiscard]] std::size_t choice_with_late_superblocks() const;
    /// What this member does comes last: others are far ahead of it.
    [[nodiscard]] std::size_t choice_with_late_member(unsigned member) const;
    /// Whether it changes what is on a member, or ends something: before it a cut makes sense.
    [[nodiscard]] bool is_completion(std::size_t choice) const;
    /// Lets one of them happen.
    void step(std::size_t choice);
    /// Until nothing is left to happen, the oldest first; drives that hang answer before that.
    void settle();
    /// Until nothing is left to happen but what drives that hang hold up.
    void settle_beside_hanging();
    /// Until nothing is left to happen but the ends of commands to these sectors of members' data.
    void settle_but(std::uint64_t first, std::uint64_t end);
    /// Ticks until the map is clean.
    void settle_clean();
    /// Ticks until every rebuild has ended.
    void settle_rebuilt();

    /// A hash of what decides whether an image is right: what the host and the administrator know.
    [[nodiscard]] std::size_t knowledge() const;

    // --- checkers: each throws a Violation

    /// What every sector holds, read by the host, is something it may hold (rules 1 and 2).
    void check_content();
    /// After a start: the same by what is durable; what is found is what the sectors hold from now
    /// on. What only doubtful parity could give is an error.
    void check_after_cut();
    /// P and Q of every row match data, by ISA-L; copies are the same.
    void check_parity() const;

    [[nodiscard]] const CoreShape& shape() const { return shape_; }
    [[nodiscard]] std::uint64_t sectors() const;
    [[nodiscard]] std::uint32_t row_sectors() const;
    [[nodiscard]] const std::vector<Media>& media() const { return media_; }
    [[nodiscard]] std::uint64_t commands() const { return commands_; }
    [[nodiscard]] bool in_sync() const;
    [[nodiscard]] bool is_optimal() const;
    [[nodiscard]] bool is_readable() const;  ///< every sector of every drive
    [[nodiscard]] bool is_broken() const;
    /// Any of these sectors, as lost for good.
    [[nodiscard]] bool is_listed(std::uint64_t sector, std::uint32_t sectors) const;
    [[nodiscard]] bool has_lost() const { return !lost_.empty(); }
    [[nodiscard]] bool superblock_rots() const { return superblock_rots_; }
    [[nodiscard]] std::uint64_t mismatches() const;
    [[nodiscard]] bool is_out(unsigned member) const;
    [[nodiscard]] const std::set<unsigned>& suspects() const { return suspects_; }
    [[nodiscard]] unsigned failed() const { return failed_; }  ///< requests that ended in an error
    [[nodiscard]] std::size_t unanswered() const { return hosts_.size(); }

  private:
    struct Live;
    struct Host;
    struct Faults {
        bool pulled = false;
        unsigned writes = 0;
        unsigned reads = 0;
        unsigned flushes = 0;
    };
    friend struct CoreCallbacks;

    void start(const std::set<unsigned>& absent);
    void run(unsigned lane);
    void step_whole();
    void check_who_is_out(const std::set<unsigned>& absent) const;
    [[nodiscard]] bool dirty_on_media(std::uint64_t region) const;
    [[nodiscard]] std::size_t choice_with(const std::function<bool(const io&)>& late) const;
    void begin(std::unique_ptr<Host> host);
    void change_buffer(Host& host, std::uint32_t first, std::uint32_t sectors);
    void hold_back();
    void complete_io(std::size_t index);
    [[nodiscard]] int perform(const io& command, std::size_t flushes_until);
    void end(Host& host, int error);
    void end_direct_read(Host& host);
    void peek();
    [[nodiscard]] bool reads(std::uint64_t sector, std::uint32_t sectors);
    [[nodiscard]] bool is_lost(std::uint64_t sector, std::uint32_t sectors) const;
    void read_doubtful();
    void forget_acknowledgements();
    void write_doubtful();
    [[nodiscard]] bool is_doubtful(std::uint64_t sector) const;
    [[nodiscard]] bool is_beyond_redundancy(std::uint64_t sector) const;
    void note_losses();
    [[nodiscard]] bool excusable(const vd_request& asked) const;
    void check_listed(const io& command);
    void check_copies() const;
    [[nodiscard]] bool is_suspect(std::uint64_t sector) const;
    void check_dirty_bit(const io& command) const;
    void check_known(const io& command) const;
    void check_cleared(const io& command) const;
    void check_sector(std::uint64_t sector, const std::uint8_t* bytes, std::uint64_t read_begun);

    CoreShape shape_;
    std::vector<Media> media_;
    std::vector<Faults> faults_;
    std::vector<History> histories_;
    std::set<unsigned> suspects_;
    std::map<std::uint64_t, std::uint64_t> lost_;  ///< sectors that are listed, and since when
    Windows unsteady_;
    std::set<unsigned> hanging_;
    bool superblock_rots_ = false;
    std::uint64_t instances_ = 0;
    std::unique_ptr<Live> live_;
    vd_choice choice_ = VD_UNKNOWN;
    std::vector<std::unique_ptr<Host>> hosts_;  ///< not ended yet
    std::vector<std::unique_ptr<Host>> ended_;
    std::uint64_t now_ = 1;
    std::uint64_t next_id_ = 1;
    std::uint64_t commands_ = 0;
    unsigned failed_ = 0;
    bool stopped_ = false;
    bool errors_expected_ = false;
};

}  // namespace perch::test
