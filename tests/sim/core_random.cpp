// SPDX-License-Identifier: GPL-2.0-or-later
// Long random runs: requests, tasks, faults and cuts, on random shapes. One seed repeats one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <numeric>
#include <random>

#include "catch.hpp"
#include "sim/core_runs.hpp"

namespace perch::test {

namespace {

struct Counts {
    std::uint64_t cuts = 0;
    std::uint64_t losses = 0;
    std::uint64_t hangs = 0;
    std::uint64_t stops = 0;
    std::uint64_t rebuilds = 0;
    std::uint64_t commands = 0;
};

/// Whether some drives are slow, or hang.
enum class Drives { prompt, slow };

class Run {
  public:
    Run(std::uint64_t seed, Drives drives, Counts& counts)
        : random_(seed), drives_(drives), counts_(counts) {}

    void run() {
        const auto shape = random_shape();
        world_ = std::make_unique<CoreWorld>(shape);
        for (int cuts = 0; cuts < 6; ++cuts) {
            with_faults_ = from(0, 2) != 0;
            // Some cuts come before the start, or the rebuild, has ended.
            steps(from(0, 3) == 0 ? from(0, 30) : from(100, 250));
            counts_.commands += world_->commands();
            if (world_->is_broken()) {
                return;  // more was lost than the level survives: nobody says that it comes back
            }
            if (drives_ == Drives::slow && from(0, 3) == 0) {
                stop_beside_tasks();
            } else if (from(0, 3) == 0) {
                rebuild();
            } else {
                cut();
            }
            if (!put_right()) {
                world_ = std::make_unique<CoreWorld>(shape);
            }
        }
        degraded();
    }

  private:
    unsigned from(unsigned low, unsigned high) {
        return low + static_cast<unsigned>(random_() % (high - low + 1));
    }

    void choose_parity(CoreShape& shape) {
        const bool two = from(0, 1) == 0;
        const bool spans = from(0, 3) == 0;
        shape.level = two ? (spans ? GEOMETRY_RAID60 : GEOMETRY_RAID6)
                          : (spans ? GEOMETRY_RAID50 : GEOMETRY_RAID5);
        shape.per_span = from(two ? 4 : 3, 7);
        shape.members = shape.per_span * (spans ? 2 : 1);
    }

    void choose_copies(CoreShape& shape) {
        constexpr std::array levels{GEOMETRY_RAID0, GEOMETRY_RAID1, GEOMETRY_RAID10,
                                    GEOMETRY_RAID10};
        shape.level = levels.at(from(0, 3));
        shape.per_span = shape.level == GEOMETRY_RAID0   ? 1
                         : shape.level == GEOMETRY_RAID1 ? from(2, 4)
                                                         : 2;
        shape.members = shape.per_span * (shape.level == GEOMETRY_RAID1 ? 1 : from(2, 3));
    }

    CoreShape random_shape() {
        CoreShape shape;
        if (from(0, 2) == 0) {
            choose_copies(shape);
        } else {
            choose_parity(shape);
        }
        shape.strip = from(0, 7) == 0 ? 256 : 8U << from(0, 2);
        shape.rows = shape.strip == 256 ? 1 : from(1, 5);
        shape.region = shape.strip << from(0, 1);
        shape.lanes = from(3, 5);
        shape.windows = from(1, 3);
        shape.task_depth = from(1, 5);
        return shape;
    }

    unsigned any_member() { return from(0, world_->shape().members - 1); }

    /// What the host does next: mostly small writes, near each other.
    void request() {
        auto& world = *world_;
        const auto row = random_() % (world.sectors() / world.row_sectors()) * world.row_sectors();
        const auto first = from(0, world.row_sectors() - 1);
        const auto most = world.row_sectors() - first;
        switch (from(0, 11)) {
            case 0:
                world.write(row, world.row_sectors(), from(0, 3) == 0);
                break;
            case 1:
                world.flush();
                break;
            case 2:
                world.tick();
                break;
            case 3:
            case 4:
                world.read(row + first, from(1, most));
                break;
            case 5:
                from(0, 1) == 0 ? world.check(from(0, 1) == 0) : world.patrol();
                break;
            default: {
                // One after the other: arguments are evaluated in the compiler's order.
                const bool fua = from(0, 7) == 0;
                world.write(row + first, from(1, std::min(most, 12U)), fua);
            }
        }
    }

    /// What happens to a drive. Never are more members lost than the level survives; of sectors
    /// that cannot be read there may be any number.
    void fault() {
        auto& world = *world_;
        const auto member = any_member();
        auto suspects = world.suspects();
        suspects.insert(member);
        const auto kind = from(0, 7);
        if (kind < 4 && !survives(world.shape(), suspects)) {
            return;
        }
        switch (kind) {
            case 0:
                world.pull(member);
                break;
            case 1:
                world.fail_all_writes(member);
                break;
            case 2:
                world.fail_a_flush(member);
                break;
            case 3:
                world.fail_a_write(member);
                return;
            default:
                world.make_unreadable(member,
                                      from(0, world.shape().strip * world.shape().rows - 1));
                return;
        }
        ++counts_.losses;
    }

    /// Two of three times one that hangs goes on, or fails as when its time-out has passed;
    /// otherwise one more hangs.
    void hang() {
        auto& world = *world_;
        if (world.hanging().empty() || from(0, 2) == 0) {
            world.hang(any_member());
            ++counts_.hangs;
            return;
        }
        const auto member = *world.hanging().begin();
        auto suspects = world.suspects();
        suspects.insert(member);
        if (with_faults_ && from(0, 3) == 0 && survives(world.shape(), suspects)) {
            world.pull(member);
            ++counts_.losses;
        } else {
            world.answer(member);
        }
    }

    /// Lets anything happen for a while; in some runs flushes take very long, or one member.
    void steps(unsigned number) {
        auto& world = *world_;
        const bool late = from(0, 2) == 0;
        const bool slow = drives_ == Drives::slow && from(0, 1) == 0;
        const auto slow_member = slow ? any_member() : 0;
        const auto choose = [&] {
            return late && from(0, 7) != 0   ? world.choice_with_late_flushes()
                   : slow && from(0, 7) != 0 ? world.choice_with_late_member(slow_member)
                                             : random_() % world.choices();
        };
        for (unsigned i = 0; i < number; ++i) {
            if (drives_ == Drives::slow && from(0, 19) == 0) {
                hang();
            }
            if (world.choices() == 0 || from(0, 15) == 0) {
                request();
            }
            if (with_faults_ && from(0, 79) == 0) {
                fault();
            }
            if (world.choices() > 0) {
                world.step(choose());
            }
        }
    }

    /// One of the images that a cut may leave; each write kept, dropped or torn.
    std::vector<Content> image() {
        std::vector<Content> image;
        const bool all_torn = from(0, 3) == 0;
        for (const auto& media : world_->media()) {
            image.push_back(media.durable());
            for (const auto* one : media.volatile_writes()) {
                const auto sectors = one->data.size() / SECTOR_BYTES;
                const bool torn = all_torn || from(0, 3) == 0;
                const bool kept = from(0, 1) == 0;
                for (std::size_t sector = 0; sector < sectors; ++sector) {
                    if (torn ? from(0, 1) == 0 : kept) {
                        std::copy_n(
                            one->data.begin() + static_cast<std::ptrdiff_t>(sector * SECTOR_BYTES),
                            SECTOR_BYTES,
                            image.back().begin() +
                                static_cast<std::ptrdiff_t>(one->offset + sector * SECTOR_BYTES));
                    }
                }
            }
        }
        return image;
    }

    /// Power fails; sometimes a drive is not there afterwards.
    void cut() {
        ++counts_.cuts;
        auto remains = world_->remains(image());
        if (from(0, 1) == 0) {
            for (auto& disk : remains.disks) {
                disk.unreadable.clear();
            }
        }
        std::set<unsigned> absent;
        if (from(0, 2) == 0) {
            absent.insert(any_member());
        }
        auto lost = remains.suspects;
        lost.insert(absent.begin(), absent.end());
        if (only_stale_halves(remains.shape, lost)) {
            absent.clear();
        }
        start(remains, absent);
    }

    /// The machine starts anew; if it cannot, then with all members.
    void start(const CoreWorld::Remains& remains, const std::set<unsigned>& absent) {
        auto lost = remains.suspects;
        lost.insert(absent.begin(), absent.end());
        auto next = std::make_unique<CoreWorld>(remains, absent);
        if (next->choice() != VD_READY && survives(remains.shape, lost)) {
            throw Violation("start: it does not, although enough members are there");
        }
        if (next->choice() != VD_READY) {
            next = std::make_unique<CoreWorld>(remains);
            if (next->choice() != VD_READY) {
                throw Violation("start: it does not, although all members are there");
            }
        }
        world_ = std::move(next);
        world_->check_after_cut();
    }

    /// Until the host has all its answers, whatever else goes on then.
    void answer_host() {
        for (unsigned i = 0; world_->unanswered() > 0; ++i) {
            if (i > 100'000) {
                throw Violation("liveness: a request is never answered");
            }
            if (world_->choices() > 0) {
                world_->step(random_() % world_->choices());
            } else if (!world_->hanging().empty()) {
                world_->answer(*world_->hanging().begin());
            } else {
                world_->tick();
            }
        }
    }

    /// A stop as the kernel asks for it: the host waits for nothing, but tasks may be in their
    /// middle, repairs too. What is on the members then is all that there is.
    void stop_beside_tasks() {
        answer_host();
        world_->stop();
        answer_host();
        // The clock does not know it yet.
        world_->tick();
        world_->settle();
        if (world_->is_broken()) {
            return;
        }
        ++counts_.stops;
        start(world_->remains(), {});
    }

    /// A clean stop; blank drives for those that are out, and a rebuild beside the host.
    void rebuild() {
        world_->settle();
        if (world_->is_broken()) {
            return;
        }
        world_ = restart_with_blanks(*world_);
        with_faults_ = false;
        steps(from(20, 150));
        counts_.commands += world_->commands();
        if (from(0, 1) == 0) {
            cut();
            return;
        }
        world_->settle_rebuilt();
        ++counts_.rebuilds;
    }

    /// Everything comes to rest, and is as it should be. False: something is lost for good.
    bool put_right() {
        auto& world = *world_;
        world.settle();
        if (world.is_broken()) {
            return false;
        }
        if (!world.in_sync()) {
            if (world.is_optimal()) {
                throw Violation("resync: it does not come to its end");
            }
            return false;
        }
        if (from(0, 1) == 0) {
            world.check_content();
            if (world.is_optimal()) {
                world.check(false);
                world.settle();
                world.check_parity();
                if (world.mismatches() != 0) {
                    throw Violation("check: it finds what is not there");
                }
            }
        }
        return true;
    }

    /// One member lost after the other, as many as the level bears, with a clean stop between: what
    /// was written with one lost must be there with two.
    void degraded() {
        world_->settle();
        if (world_->is_broken() || !world_->in_sync()) {
            return;
        }
        with_faults_ = false;
        auto lost = members_out(*world_);
        for (unsigned losses = 0; losses <= redundancy(world_->shape()); ++losses) {
            world_->stop();
            world_->settle();
            lost.insert(any_member());
            if (!survives(world_->shape(), lost)) {
                return;
            }
            world_ = std::make_unique<CoreWorld>(world_->remains(), lost);
            world_->check_content();
            steps(120);
            world_->settle();
            world_->check_content();
            counts_.commands += world_->commands();
        }
    }

    std::mt19937_64 random_;
    Drives drives_;
    Counts& counts_;
    std::unique_ptr<CoreWorld> world_;
    bool with_faults_ = false;
};

}  // namespace

namespace {

void run_seeds(const std::vector<std::uint64_t>& seeds, Drives drives, std::uint64_t least) {
    Counts counts;
    for (const auto seed : seeds) {
        try {
            Run(seed, drives, counts).run();
        } catch (const Violation& violation) {
            FAIL("PERCH_SEED=" << seed << ": " << violation.what());
        }
    }
    std::cout << fmt::format(
        "  {} seeds, {} cuts, {} losses, {} hangs, {} stops, {} rebuilds, {} commands\n",
        seeds.size(), counts.cuts, counts.losses, counts.hangs, counts.stops, counts.rebuilds,
        counts.commands);
    CHECK(counts.commands >= least * seeds.size());
    CHECK((counts.hangs > 0) == (drives == Drives::slow));
}

/// PERCH_SEED=n: that one; PERCH_SEEDS=n: that many.
void run_seeds(Drives drives, std::uint64_t number) {
    std::vector<std::uint64_t> all(
        from_environment("PERCH_SEEDS", std::getenv("PERCH_SEED") ? 1 : number));
    std::iota(all.begin(), all.end(), from_environment("PERCH_SEED", 1));
    // The usual seeds have 549 and more on average; a few fresh ones may have less.
    run_seeds(all, drives, std::getenv("PERCH_SEED") != nullptr ? 1 : 500);
}

}  // namespace

TEST_CASE("core: long random runs with cuts, and with lost members") {
    run_seeds(Drives::prompt, 250);
}

TEST_CASE("core: long random runs with drives that are slow or hang") {
    run_seeds(Drives::slow, 150);
}

TEST_CASE("core: seeds that failed once") {
    std::ifstream file(PERCH_CORE_SEEDS);
    std::vector<std::uint64_t> seeds;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line[0] != '#') {
            seeds.push_back(std::stoull(line));
        }
    }
    REQUIRE(!seeds.empty());
    run_seeds(seeds, Drives::prompt, 1);
    run_seeds(seeds, Drives::slow, 1);
}

}  // namespace perch::test
