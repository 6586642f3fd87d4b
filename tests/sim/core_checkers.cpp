// SPDX-License-Identifier: GPL-2.0-or-later
// The checkers of a CoreWorld: tests/sim/README.md lists them, by the word that a violation begins
// with.
#include <fmt/format.h>
#include <isa-l/raid.h>

#include <algorithm>

#include "sim/core_machine.hpp"

namespace perch::test {

void CoreWorld::check_who_is_out(const std::set<unsigned>& absent) const {
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (is_out(member) && !suspects_.contains(member)) {
            throw Violation(
                fmt::format("members: {} is out, and nothing has happened to it", member));
        }
        if (!is_out(member) && absent.contains(member)) {
            throw Violation(fmt::format("members: {} is in sync, and not there", member));
        }
    }
}

bool CoreWorld::is_suspect(std::uint64_t sector) const {
    const auto place = geometry_map(&live_->target.geometry, sector);
    const auto first = place.span * shape_.per_span;
    const auto found = suspects_.lower_bound(first);
    return (found != suspects_.end() && *found < first + shape_.per_span) ||
           unsteady_.contains({place.span, place.sector / live_->target.geometry.window});
}

bool CoreWorld::is_beyond_redundancy(std::uint64_t sector) const {
    const auto& target = live_->target;
    const auto& g = target.geometry;
    const auto place = geometry_map(&g, sector);
    const auto unit = place.sector / WINDOW_FINE * WINDOW_FINE;
    unsigned out = 0;
    for (unsigned member = place.span * g.per_span; member < (place.span + 1) * g.per_span;
         ++member) {
        const bool readable = media_[member].is_readable(data_offset + unit * SECTOR_BYTES,
                                                         std::size_t{WINDOW_FINE} * SECTOR_BYTES);
        out += !readable || suspects_.contains(member) ? 1 : 0;
    }
    const bool unknown =
        g.parities > 0 && (target.map.flags[place.sector / shape_.region] & REGION_UNKNOWN) != 0;
    return out > g.redundancy || (unknown && out > 0);
}

bool CoreWorld::excusable(const vd_request& asked) const {
    for (auto sector = asked.sector; sector < asked.sector + asked.sectors; ++sector) {
        if (is_beyond_redundancy(sector) || lost_.contains(sector)) {
            return true;
        }
    }
    return false;
}

/// Something may have got lost: what is under way may fail for it, also when it has been rewritten
/// meanwhile.
void CoreWorld::note_losses() {
    for (auto& host : hosts_) {
        host->excused = host->excused || excusable(host->asked);
    }
}

void CoreWorld::check_listed(const io& command) {
    perch_bad_page page;
    std::memcpy(&page, command.buffer, sizeof(page));
    for (unsigned i = 0; i < le32toh(page.count); ++i) {
        const auto first = le64toh(page.ranges[i].first_sector);
        for (auto sector = first; sector < first + le32toh(page.ranges[i].sectors); ++sector) {
            if (!lost_.contains(sector) && !is_beyond_redundancy(sector)) {
                throw Violation(fmt::format("listed: sector {} is not lost", sector));
            }
            lost_.emplace(sector, now_);
        }
    }
    note_losses();
}

void CoreWorld::check_dirty_bit(const io& command) const {
    if (live_->target.geometry.redundancy == 0) {
        return;
    }
    const auto region = command.sector / shape_.region;
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (is_out(member)) {
            continue;
        }
        const auto page = get<perch_map_page>(media_[member].durable(), map_offset);
        if ((page.bits[region / 4] >> region % 4 * 2 & PERCH_MAP_DIRTY) == 0) {
            throw Violation(fmt::format(
                "dirty bit: a write to region {} is issued, and member {} would not know of it",
                region, member));
        }
    }
}

void CoreWorld::check_cleared(const io& command) const {
    perch_map_page page;
    std::memcpy(&page, command.buffer, sizeof(page));
    const auto region_bytes = std::size_t{shape_.region} * SECTOR_BYTES;
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (suspects_.contains(member)) {
            continue;  // what it had in its cache when it was lost stays there
        }
        for (const auto* one : media_[member].volatile_writes()) {
            if (one->offset < data_offset) {
                continue;
            }
            const auto region = (one->offset - data_offset) / region_bytes;
            if ((page.bits[region / 4] >> region % 4 * 2 & PERCH_MAP_DIRTY) == 0) {
                throw Violation(fmt::format(
                    "clearing: region {} is marked clean, and a write to it is not durable",
                    region));
            }
        }
    }
}

void CoreWorld::check_known(const io& command) const {
    const auto& target = live_->target;
    const auto kind = static_cast<const window*>(command.owner)->kind;
    std::uint64_t sector = 0;
    // A patrol reads everything, and uses nothing.
    if (kind != REQUEST_PATROL && kind != REQUEST_CHECK &&
        (target.map.flags[command.sector / shape_.region] & REGION_UNKNOWN) != 0 &&
        !geometry_unmap(&target.geometry, command.member, command.sector, &sector)) {
        throw Violation("trust: parity is read that is not known to match");
    }
}

void CoreWorld::check_sector(std::uint64_t sector, const std::uint8_t* bytes,
                             std::uint64_t read_begun) {
    auto& history = histories_.at(sector);
    const auto found = std::find_if(history.begin(), history.end(), [&](const auto& version) {
        std::array<std::uint8_t, SECTOR_BYTES> expected;
        fill_sector(expected.data(), version.id, sector);
        return std::memcmp(expected.data(), bytes, SECTOR_BYTES) == 0;
    });
    if (found == history.end()) {
        throw Violation(fmt::format("content: sector {} holds {}, which was never written to it",
                                    sector, get_id(bytes)));
    }
    if (found->elsewhere && !is_suspect(sector)) {
        throw Violation(
            fmt::format("order: sector {} is read from one copy, then from another", sector));
    }
    for (const auto& later : history) {
        const auto settled = live_->after_cut ? later.durable : later.acknowledged;
        const auto limit = live_->after_cut ? never : read_begun;
        if (settled < limit && found->acknowledged < later.begun) {
            throw Violation(fmt::format("{}: sector {} holds write {}, and {} came after it",
                                        live_->after_cut ? "durable" : "order", sector, found->id,
                                        later.id));
        }
    }
    if (live_->after_cut) {
        const Version now{found->id, 0, 0, 0};
        // Another copy may hold another one; nobody reads it, but when this one is lost.
        const auto before = history;
        std::erase_if(history, [&](const auto& version) {
            return live_->target.geometry.copies == 1 || version.id == now.id ||
                   std::any_of(before.begin(), before.end(), [&](const auto& later) {
                       return later.durable < never && version.acknowledged < later.begun;
                   });
        });
        for (auto& version : history) {
            version.acknowledged = never;
            version.durable = never;
            version.elsewhere = true;
        }
        history.push_back(now);
    }
}

bool CoreWorld::reads(std::uint64_t sector, std::uint32_t sectors) {
    const auto failed = failed_;
    read(sector, sectors);
    settle();
    return failed_ == failed;
}

bool CoreWorld::is_lost(std::uint64_t sector, std::uint32_t sectors) const {
    const auto found = lost_.lower_bound(sector);
    return found != lost_.end() && found->first < sector + sectors;
}

void CoreWorld::check_content() {
    for (std::uint64_t row = 0; row < sectors(); row += row_sectors()) {
        if (reads(row, row_sectors())) {
            continue;
        }
        for (auto sector = row; sector < row + row_sectors(); ++sector) {
            if (!reads(sector, 1) && !is_lost(sector, 1)) {
                throw Violation("content: a read fails");
            }
        }
    }
}

bool CoreWorld::dirty_on_media(std::uint64_t region) const {
    for (unsigned member = 0; member < shape_.members; ++member) {
        const auto page = get<perch_map_page>(media_[member].current(), map_offset);
        if (!is_out(member) && (page.bits[region / 4] >> region % 4 * 2 & PERCH_MAP_DIRTY) != 0) {
            return true;
        }
    }
    return false;
}

/// What the host finds at once, before anything else happens.
void CoreWorld::peek() {
    for (std::uint64_t sector = 0; sector < sectors(); ++sector) {
        geometry_place place;
        if (!vd_read_place(&live_->target, sector, 0, &place)) {
            throw Violation(fmt::format("content: sector {} is nowhere", sector));
        }
        if (bad_ranges_overlap(&live_->target.bad, sector, 1)) {
            if (!lost_.contains(sector)) {
                throw Violation(fmt::format("listed: sector {} is not lost", sector));
            }
            continue;
        }
        check_sector(sector,
                     &media_[place.member].current()[data_offset + place.sector * SECTOR_BYTES],
                     now_);
    }
}

/// After an unclean stop: the sector is on a member that is out, and its region may be half
/// written.
bool CoreWorld::is_doubtful(std::uint64_t sector) const {
    const auto place = geometry_map(&live_->target.geometry, sector);
    return live_->target.geometry.parities > 0 && !live_->target.clean &&
           !vd_can_use(&live_->target, place.member, place.sector) &&
           dirty_on_media(place.sector / shape_.region);
}

void CoreWorld::read_doubtful() {
    const auto step = live_->target.geometry.window;
    const bool readable = is_readable();
    std::vector<bool> doubtful;
    for (std::uint64_t sector = 0; sector < sectors(); sector += step) {
        doubtful.push_back(is_doubtful(sector));
    }
    for (std::uint64_t sector = 0; sector < sectors(); sector += step) {
        const bool read = reads(sector, step);
        // With a sector that cannot be read, or is lost, end() has judged an error already.
        if (read ? doubtful[sector / step]
                 : !doubtful[sector / step] && readable && !is_lost(sector, step)) {
            throw Violation(fmt::format("doubt: sector {} {}", sector,
                                        read ? "is computed from parity that may match nothing"
                                             : "cannot be read, although parity matches"));
        }
        for (auto one = sector; !read && one < sector + step; ++one) {
            (void)reads(one, 1);
        }
    }
}

/// What nobody could read after a cut may hold what was not durable, or not.
void CoreWorld::forget_acknowledgements() {
    for (auto& history : histories_) {
        for (auto& version : history) {
            version.acknowledged = version.durable == never ? never : version.acknowledged;
        }
    }
}

void CoreWorld::write_doubtful() {
    const auto step = live_->target.geometry.window;
    for (std::uint64_t sector = 0; sector < sectors(); sector += step) {
        const auto place = geometry_map(&live_->target.geometry, sector);
        if (vd_can_use(&live_->target, place.member, place.sector)) {
            continue;
        }
        failed_ = 0;
        write(sector, step);
        settle();
        if (failed_ == 0 && !reads(sector, step)) {
            throw Violation(fmt::format(
                "doubt: a write to sector {} is acknowledged and not readable", sector));
        }
    }
}

void CoreWorld::check_after_cut() {
    live_->after_cut = true;
    if (is_optimal() && is_readable()) {
        peek();
        forget_acknowledgements();
        live_->after_cut = false;
        return;
    }
    read_doubtful();
    forget_acknowledgements();
    live_->after_cut = false;
    write_doubtful();
}

void CoreWorld::check_copies() const {
    const auto& g = live_->target.geometry;
    for (unsigned first = 0; first < g.members; first += g.copies) {
        const auto& content = media_[first].current();
        for (unsigned member = first + 1; member < first + g.copies; ++member) {
            if (!std::equal(content.begin() + data_offset, content.end(),
                            media_[member].current().begin() + data_offset)) {
                throw Violation(fmt::format("parity: member {} is not what {} is", member, first));
            }
        }
    }
}

void CoreWorld::check_parity() const {
    const auto& g = live_->target.geometry;
    if (g.parities == 0) {
        check_copies();
        return;
    }
    const std::size_t bytes = std::size_t{g.strip} * SECTOR_BYTES;
    struct alignas(32) Line {
        std::uint8_t bytes[32];
    };
    std::vector<std::vector<Line>> buffers(g.per_span + 2, std::vector<Line>(bytes / sizeof(Line)));
    for (unsigned span = 0; span < g.spans; ++span) {
        for (unsigned row = 0; row < shape_.rows; ++row) {
            const auto p = geometry_p(&g, span, row);
            const auto q = g.parities == 2 ? geometry_q(&g, span, row) : UINT32_MAX;
            std::vector<void*> sources;
            for (unsigned place = 0; place < g.per_span; ++place) {
                const auto member = span * g.per_span + place;
                auto* block = buffers[place].data();
                std::memset(static_cast<void*>(block), 0, bytes);
                if (member != p && member != q) {
                    std::memcpy(static_cast<void*>(block),
                                &media_[member].current()[data_offset + row * bytes], bytes);
                }
                sources.push_back(block);
            }
            sources.push_back(buffers[g.per_span].data());
            sources.push_back(buffers[g.per_span + 1].data());
            pq_gen(static_cast<int>(sources.size()), static_cast<int>(bytes), sources.data());
            for (const auto& [member, right] :
                 {std::pair(p, sources[g.per_span]), std::pair(q, sources[g.per_span + 1])}) {
                if (member != UINT32_MAX &&
                    std::memcmp(&media_[member].current()[data_offset + row * bytes], right,
                                bytes) != 0) {
                    throw Violation(fmt::format("parity: {} of row {} of span {} does not match",
                                                member == p ? "P" : "Q", row, span));
                }
            }
        }
    }
}

std::size_t CoreWorld::knowledge() const {
    std::size_t hash = 0;
    const auto add = [&](std::uint64_t value) { hash = mixed(hash ^ value); };
    for (const auto& history : histories_) {
        add(history.size());
        for (const auto& version : history) {
            for (const auto value : {version.id, version.begun, version.acknowledged,
                                     version.durable, std::uint64_t{version.elsewhere}}) {
                add(value);
            }
        }
    }
    for (const auto member : suspects_) {
        add(member);
    }
    for (const auto& [sector, when] : lost_) {
        add(sector + shape_.members);
    }
    for (const auto& media : media_) {
        add(media.unreadable().size());
        for (const auto sector : media.unreadable()) {
            add(sector);
        }
    }
    return hash;
}

}  // namespace perch::test
