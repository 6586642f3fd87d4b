// SPDX-License-Identifier: GPL-2.0-or-later
// Parity against ISA-L, which knows nothing of this project, in md's raid6_nc order of
// coefficients.
#include <isa-l/raid.h>

#include <array>
#include <cstring>
#include <random>

#include "catch.hpp"
#include "support/core.hpp"

namespace {

constexpr std::size_t bytes = 512;
using Block = std::array<std::uint8_t, bytes>;

/// A row of random data with parity by ISA-L.
struct Row {
    Row(unsigned members, unsigned parities, unsigned p, unsigned seed) : row{} {
        std::mt19937 random(seed);
        row.members = members;
        row.p = p;
        row.q = parities == 2 ? (p + members - 1) % members : members;
        for (unsigned place = 0; place < members; ++place) {
            std::generate(blocks[place].begin(), blocks[place].end(),
                          [&] { return static_cast<std::uint8_t>(random()); });
            row.block[place] = blocks[place].data();
        }
        // P and Q count as zero where they are, so that a block's coefficient is its place.
        std::array<void*, PARITY_MAX_MEMBERS + 2> sources{};
        for (unsigned place = 0; place < members; ++place) {
            sources[place] = place == row.p || place == row.q ? zero.data() : blocks[place].data();
        }
        alignas(32) Block new_p{};
        alignas(32) Block new_q{};
        sources[members] = new_p.data();
        sources[members + 1] = new_q.data();
        REQUIRE(pq_gen(static_cast<int>(members) + 2, bytes, sources.data()) == 0);
        blocks[row.p] = new_p;
        if (parities == 2) {
            blocks[row.q] = new_q;
        }
        right = blocks;
    }
    void spoil(std::uint32_t lost) {
        for (unsigned place = 0; place < row.members; ++place) {
            if ((lost >> place & 1U) != 0) {
                blocks[place].fill(0xa5);
            }
        }
    }

    alignas(32) std::array<Block, PARITY_MAX_MEMBERS> blocks{};
    std::array<Block, PARITY_MAX_MEMBERS> right{};
    alignas(32) Block zero{};
    parity_row row;
};

}  // namespace

TEST_CASE("core parity: P and Q are ISA-L's, for 3 to 32 members and every place of P") {
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned members = 2 + parities; members <= PARITY_MAX_MEMBERS; ++members) {
            for (unsigned p = 0; p < members; ++p) {
                Row row(members, parities, p, members * 64 + p);
                const auto both = 1U << row.row.p | (parities == 2 ? 1U << row.row.q : 0U);
                row.spoil(both);
                parity_generate(&row.row, both, bytes);
                CAPTURE(members, parities, p);
                REQUIRE(row.blocks == row.right);
            }
        }
    }
}

TEST_CASE("core parity: every lost member and every pair of them is recovered") {
    for (unsigned parities = 1; parities <= 2; ++parities) {
        for (unsigned members = 2 + parities; members <= PARITY_MAX_MEMBERS; ++members) {
            Row row(members, parities, members * 5 % members, members);
            for (unsigned one = 0; one < members; ++one) {
                // The same one twice: it alone is lost.
                for (unsigned two = one; two < (parities == 2 ? members : one + 1); ++two) {
                    const auto lost = 1U << one | 1U << two;
                    row.spoil(lost);
                    parity_recover(&row.row, lost, bytes);
                    CAPTURE(members, parities, one, two);
                    REQUIRE(row.blocks == row.right);
                }
            }
        }
    }
}

TEST_CASE("core parity: recovery does not depend on where P is") {
    for (unsigned p = 0; p < 7; ++p) {
        Row row(7, 2, p, p);
        for (unsigned one = 0; one < 7; ++one) {
            for (unsigned two = one; two < 7; ++two) {
                const auto lost = 1U << one | 1U << two;
                row.spoil(lost);
                parity_recover(&row.row, lost, bytes);
                CAPTURE(p, one, two);
                REQUIRE(row.blocks == row.right);
            }
        }
    }
}

TEST_CASE("core parity: a change of a block changes parity as if all were computed anew") {
    for (unsigned members = 4; members <= PARITY_MAX_MEMBERS; ++members) {
        Row row(members, 2, 1, members);
        const Row other(members, 2, 1, members + 1000);
        const auto both = 1U << row.row.p | 1U << row.row.q;
        for (unsigned place = 0; place < members; ++place) {
            if (place == row.row.p || place == row.row.q) {
                continue;
            }
            alignas(8) Block delta = row.blocks[place];
            parity_add(delta.data(), other.blocks[place].data(), bytes);
            row.blocks[place] = other.blocks[place];
            parity_update(&row.row, place, delta.data(), both, bytes);
        }
        REQUIRE(row.blocks == other.blocks);
    }
}

TEST_CASE("core parity: only what is wanted is written") {
    Row row(6, 2, 5, 1);
    const auto p = 1U << row.row.p;
    const auto q = 1U << row.row.q;
    row.spoil(p | q);
    auto expected = row.blocks;
    parity_generate(&row.row, p, bytes);
    expected[row.row.p] = row.right[row.row.p];
    REQUIRE(row.blocks == expected);
    parity_generate(&row.row, q, bytes);
    REQUIRE(row.blocks == row.right);
    parity_update(&row.row, 0, row.zero.data(), p | q, bytes);
    REQUIRE(row.blocks == row.right);
    row.spoil(q);
    expected = row.blocks;
    parity_update(&row.row, 0, row.right[1].data(), 0, bytes);
    REQUIRE(row.blocks == expected);
}

TEST_CASE("core parity: a flipped bit is noticed") {
    Row row(8, 2, 3, 8);
    row.blocks[0][17] ^= 4;
    parity_recover(&row.row, 1U << 1, bytes);
    REQUIRE(row.blocks[1] != row.right[1]);
}
