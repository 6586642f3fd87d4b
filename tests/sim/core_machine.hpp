// SPDX-License-Identifier: GPL-2.0-or-later
// The parts of a CoreWorld, for core_world.cpp and core_checkers.cpp alone.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <map>

#include "sim/core_fibers.hpp"
#include "sim/core_world.hpp"

namespace perch::test {

struct CoreWorld::Host {
    vd_request asked{};
    Content data;
    bool direct = false;
    u64 ticket = 0;
    std::vector<geometry_place> places;  ///< of each sector of a direct read
    std::uint64_t begun = 0;
    std::uint64_t id = 0;
    bool excused = false;  ///< some of it was lost for good while it was under way
    /// Of a write, by sector: what the core has taken, each time. The host changes its buffer in
    /// between (rule 7), and each change is another version.
    std::vector<std::vector<std::uint64_t>> copies;
};

struct WorldEnv {
    env base;  ///< first: the core knows only this
    CoreWorld* world;
};

struct CoreWorld::Live {
    struct Command {
        io* command;
        std::size_t flushes_until;
    };
    WorldEnv env{};
    vd target{};
    std::vector<perch_superblock> superblocks;
    std::vector<lane> lanes;
    std::vector<window> windows;
    std::vector<std::vector<std::uint64_t>> blocks;
    std::vector<u8> flags;
    std::vector<u16> users;
    std::vector<perch_bad_page> bad_pages{1};
    perch_map_page map_page{};
    perch_bad_page bad_page{};
    std::vector<Command> commands;
    std::vector<Command> held;  ///< of drives that hang
    std::set<unsigned> woken;
    std::map<unsigned, Fiber> running;  ///< by lane: it is at a call of its environment
    std::set<unsigned> absent;
    std::vector<Host*> direct;
    std::vector<Host*> direct_held;
    bool after_cut = false;

    /// Lanes that could go on.
    [[nodiscard]] std::vector<unsigned> runnable() const {
        auto all = woken;
        for (const auto& one : running) {
            all.insert(one.first);
        }
        return {all.begin(), all.end()};
    }
};

}  // namespace perch::test
