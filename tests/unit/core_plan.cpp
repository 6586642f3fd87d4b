// SPDX-License-Identifier: GPL-2.0-or-later
// Plans, against brute force: every set of blocks that could be read, with linear algebra over
// GF(2^8) to say whether it determines new parity. Nothing here knows the forms that plan.c has.
#include <array>
#include <bit>
#include <bitset>
#include <random>
#include <vector>

#include "catch.hpp"
#include "support/core.hpp"

namespace {

using Mask = std::uint32_t;
using Vector = std::array<std::uint8_t, 8>;  ///< a sum of old data blocks
using Sets = std::bitset<256>;               ///< of sets of data blocks

std::uint8_t multiply(std::uint8_t a, std::uint8_t b) {
    unsigned product = 0;
    for (unsigned shifted = a; b != 0; b = static_cast<std::uint8_t>(b >> 1)) {
        product ^= (b & 1U) != 0 ? shifted : 0;
        shifted = shifted << 1 ^ ((shifted & 0x80U) != 0 ? 0x11dU : 0U);
    }
    return static_cast<std::uint8_t>(product);
}

std::uint8_t inverse(std::uint8_t a) {
    for (unsigned b = 1; b < 256; ++b) {
        if (multiply(a, static_cast<std::uint8_t>(b)) == 1) {
            return static_cast<std::uint8_t>(b);
        }
    }
    throw std::logic_error("zero has no inverse");
}

void add(Vector& to, const Vector& from, std::uint8_t factor) {
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] ^= multiply(from[i], factor);
    }
}

/// What a set of vectors determines, in echelon form.
class Basis {
  public:
    void insert(Vector vector) {
        reduce(vector);
        for (std::size_t i = 0; i < vector.size(); ++i) {
            if (vector[i] != 0) {
                Vector scaled{};
                add(scaled, vector, inverse(vector[i]));
                rows_[i] = scaled;
                present_.set(i);
                return;
            }
        }
    }
    [[nodiscard]] bool determines(Vector vector) const {
        reduce(vector);
        return vector == Vector{};
    }

  private:
    void reduce(Vector& vector) const {
        for (std::size_t i = 0; i < vector.size(); ++i) {
            if (vector[i] != 0 && present_.test(i)) {
                add(vector, rows_[i], vector[i]);
            }
        }
    }
    std::array<Vector, 8> rows_{};
    std::bitset<8> present_;
};

/// P or Q over the data blocks in `blocks`.
Vector parity_vector(unsigned parity, Mask blocks, unsigned data) {
    Vector vector{};
    std::uint8_t power = 1;
    for (unsigned i = 0; i < data; ++i) {
        if ((blocks >> i & 1U) != 0) {
            vector[i] = parity == 0 ? 1 : power;
        }
        power = multiply(power, 2);
    }
    return vector;
}

/// Windows of `data` and `parities` blocks: what each set of old blocks determines.
class Oracle {
  public:
    Oracle(unsigned data, unsigned parities) : data_(data), parities_(parities) {
        const Mask all = (1U << data) - 1;
        for (const bool good : {false, true}) {
            for (Mask read = 0; read < 1U << (data + parities); ++read) {
                Basis basis;
                for (unsigned i = 0; i < data + parities; ++i) {
                    // Parity that is not known good is a sum of nothing known.
                    if ((read >> i & 1U) != 0 && (i < data || good)) {
                        basis.insert(i < data ? parity_vector(0, 1U << i, data)
                                              : parity_vector(i - data, all, data));
                    }
                }
                auto& entry = entries_[good ? 1 : 0].emplace_back();
                for (unsigned i = 0; i < data; ++i) {
                    entry.blocks |= basis.determines(parity_vector(0, 1U << i, data)) ? 1U << i : 0;
                }
                for (Mask written = 0; written <= all; ++written) {
                    for (unsigned parity = 0; parity < parities; ++parity) {
                        // New parity less the new content: the sum over what stays.
                        const auto rest = parity_vector(parity, all & ~written, data);
                        entry.enough.at(parity).set(written, basis.determines(rest));
                    }
                }
            }
        }
        for (Mask read = 0; read < 1U << (data + parities); ++read) {
            by_size_.push_back(read);
        }
        std::stable_sort(by_size_.begin(), by_size_.end(),
                         [](Mask a, Mask b) { return std::popcount(a) < std::popcount(b); });
    }

    /// What cannot be read.
    static Mask missing(const plan_window& window) { return window.lost | window.unreadable; }
    /// Whether reading these blocks is enough, wherever the blocks that are covered in part are.
    [[nodiscard]] bool writable(const plan_window& window, Mask read) const {
        const auto& entry = entries_[window.parity_good ? 1 : 0][read];
        for (unsigned parity = 0; parity < parities_; ++parity) {
            if ((window.lost >> (data_ + parity) & 1U) == 0 &&
                (columns_ & ~entry.enough.at(parity)).any()) {
                return false;
            }
        }
        return true;
    }
    /// Must be called first: which blocks may be written at one place of the window.
    void set_columns(const plan_window& window) {
        columns_.reset();
        for (Mask some = window.part;; some = (some - 1) & window.part) {
            if ((window.whole | some) != 0) {
                columns_.set(window.whole | some);
            }
            if (some == 0) {
                break;
            }
        }
    }
    [[nodiscard]] int fewest(const plan_window& window) const {
        for (const auto read : by_size_) {
            if ((read & missing(window)) == 0 && writable(window, read)) {
                return std::popcount(read);
            }
        }
        return -1;
    }
    [[nodiscard]] bool known(const plan_window& window, Mask read, Mask wanted) const {
        return (wanted & ~entries_[window.parity_good ? 1 : 0][read].blocks) == 0;
    }
    [[nodiscard]] int fewest_known(const plan_window& window, Mask wanted) const {
        for (const auto read : by_size_) {
            if ((read & missing(window)) == 0 && known(window, read, wanted)) {
                return std::popcount(read);
            }
        }
        return -1;
    }

  private:
    struct Entry {
        Mask blocks = 0;               ///< data blocks whose old content is known
        std::array<Sets, 2> enough{};  ///< sets of written blocks whose new P, Q is known
    };
    unsigned data_;
    unsigned parities_;
    std::array<std::vector<Entry>, 2> entries_;
    std::vector<Mask> by_size_;
    Sets columns_;
};

template <typename Action>
void for_each_loss(unsigned data, unsigned parities, Action action) {
    for (Mask lost = 0; lost < 1U << (data + parities); ++lost) {
        if (std::popcount(lost) <= static_cast<int>(parities)) {
            for (const bool good : {false, true}) {
                action(lost, good);
            }
        }
    }
}

/// One covered block is covered whole: the union of all writes is it.
bool possible(Mask whole, Mask part) {
    return (whole | part) != 0 && !(whole == 0 && std::has_single_bit(part));
}

void check_window(Oracle& oracle, const plan_window& window) {
    const Mask data = (1U << window.data) - 1;
    const Mask parity = ((1U << window.parities) - 1) << window.data;
    oracle.set_columns(window);
    const auto plan = plan_write(&window);
    const auto fewest = oracle.fewest(window);
    const bool right = (plan.form == PLAN_UNDEFINED) == (fewest < 0) &&
                       (plan.read & Oracle::missing(window)) == 0 &&
                       (plan.form == PLAN_UNDEFINED || (oracle.writable(window, plan.read) &&
                                                        std::popcount(plan.read) == fewest)) &&
                       plan.write == ((window.whole | window.part | parity) & ~window.lost) &&
                       (window.parity_good || (plan.read & parity) == 0) &&
                       (plan.form != PLAN_FULL_ROW || (plan.read == 0 && window.whole == data));
    if (!right) {
        CAPTURE(window.data, window.parities, window.whole, window.part, window.lost,
                window.unreadable, window.parity_good, plan.form, plan.read, plan.write, fewest);
        REQUIRE(right);
    }
}

}  // namespace

TEST_CASE("core plan: no smaller set of reads would do, for every window of up to 8 data blocks") {
    std::uint64_t windows = 0;
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned data = 2; data <= 8; ++data) {
            Oracle oracle(data, parities);
            const Mask all = (1U << data) - 1;
            for (Mask whole = 0; whole <= all; ++whole) {
                const Mask others = all & ~whole;
                for (Mask part = others;; part = (part - 1) & others) {
                    if (possible(whole, part)) {
                        for_each_loss(data, parities, [&](Mask lost, bool good) {
                            check_window(oracle, {data, parities, whole, part, lost, good, 0});
                            ++windows;
                        });
                    }
                    if (part == 0) {
                        break;
                    }
                }
            }
        }
    }
    // Of the widest kind alone 6,561 coverages less nine, 56 losses, parity good or not.
    REQUIRE(windows > 6552 * 56 * 2);
}

TEST_CASE("core plan: the same with blocks that cannot be read but written, up to 5 data blocks") {
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned data = 2; data <= 5; ++data) {
            Oracle oracle(data, parities);
            const Mask all = (1U << data) - 1;
            for_each_loss(data, parities, [&](Mask missing, bool good) {
                for (Mask unreadable = missing; unreadable != 0;
                     unreadable = (unreadable - 1) & missing) {
                    for (Mask whole = 0; whole <= all; ++whole) {
                        const Mask others = all & ~whole;
                        for (Mask part = others;; part = (part - 1) & others) {
                            if (possible(whole, part)) {
                                check_window(oracle, {data, parities, whole, part,
                                                      missing & ~unreadable, good, unreadable});
                            }
                            if (part == 0) {
                                break;
                            }
                        }
                    }
                }
            });
        }
    }
}

TEST_CASE("core plan: lost blocks are restored wherever what they hold can be known") {
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned data = 2; data <= 8; ++data) {
            const Oracle oracle(data, parities);
            const Mask all = (1U << data) - 1;
            for_each_loss(data, parities, [&](Mask lost, bool good) {
                for (Mask targets = lost; targets != 0; targets = (targets - 1) & lost) {
                    const plan_window window{data, parities, 0, 0, lost, good, 0};
                    plan plan{};
                    const bool possible = plan_restore(&window, targets, &plan);
                    // Parity follows from all data: that is what has to be known.
                    const auto fewest = oracle.fewest_known(window, all);
                    CAPTURE(data, parities, lost, good, targets, plan.read, fewest);
                    REQUIRE(possible == (fewest >= 0));
                    if (possible) {
                        REQUIRE((plan.read & lost) == 0);
                        REQUIRE(plan.write == targets);
                        REQUIRE(oracle.known(window, plan.read, all));
                        REQUIRE(std::popcount(plan.read) == fewest);
                    }
                }
            });
        }
    }
}

TEST_CASE("core plan: reads with lost blocks take no more than they must") {
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned data = 2; data <= 8; ++data) {
            const Oracle oracle(data, parities);
            for_each_loss(data, parities, [&](Mask lost, bool good) {
                const plan_window window{data, parities, 0, 0, lost, good, 0};
                for (Mask wanted = 1; wanted < 1U << data; ++wanted) {
                    Mask read = 0;
                    const bool possible = plan_read(&window, wanted, &read);
                    const auto fewest = oracle.fewest_known(window, wanted);
                    CAPTURE(data, parities, lost, good, wanted, read, fewest);
                    REQUIRE(possible == (fewest >= 0));
                    if (possible) {
                        REQUIRE((read & lost) == 0);
                        REQUIRE(oracle.known(window, read, wanted));
                        REQUIRE(std::popcount(read) == fewest);
                    }
                }
            });
        }
    }
}

TEST_CASE("core plan: the forms by name") {
    const auto form = [](const plan_window& window) { return plan_write(&window).form; };
    // RAID5 of eight: one block is changed, half of them, all of them.
    CHECK(form({7, 1, 0x01, 0, 0, true, 0}) == PLAN_MODIFY);
    CHECK(form({7, 1, 0x1f, 0, 0, true, 0}) == PLAN_RECONSTRUCT);
    CHECK(form({7, 1, 0x7f, 0, 0, true, 0}) == PLAN_FULL_ROW);
    // Covered in part is not covered.
    CHECK(form({7, 1, 0x3f, 0x40, 0, true, 0}) == PLAN_RECONSTRUCT);
    // P lost; a lost block in the way of both other forms; a lost block that is not written.
    CHECK(form({7, 1, 0x01, 0, 0x80, true, 0}) == PLAN_DATA_ONLY);
    CHECK(form({7, 1, 0x02, 0x01, 0x01, true, 0}) == PLAN_RECOVER);
    CHECK(form({7, 1, 0x02, 0, 0x01, true, 0}) == PLAN_MODIFY);
    // Parity not known good is made from data, or not at all (DESIGN rule 4).
    CHECK(form({7, 1, 0x01, 0, 0, false, 0}) == PLAN_RECONSTRUCT);
    CHECK(form({7, 1, 0x02, 0, 0x01, false, 0}) == PLAN_UNDEFINED);
}
