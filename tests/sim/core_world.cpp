// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_world.hpp"

#include <fmt/format.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <unordered_set>

#include "util/bytes.hpp"

namespace perch::test {

namespace {

constexpr std::size_t map_bytes = sizeof(perch_map_page);  ///< one page is enough here
constexpr std::array<std::uint8_t, 16> vd_uuid{0x50, 0x65, 0x72, 0x63, 0x68};

std::uint64_t mixed(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15ULL;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

/// What write `id` puts in a sector: its id, and words that depend on both. Id 0: zeros.
void fill_sector(std::uint8_t* to, std::uint64_t id, std::uint64_t sector) {
    std::array<std::uint64_t, SECTOR_BYTES / 8> words{};
    for (std::size_t i = 0; id != 0 && i < words.size(); ++i) {
        words[i] = i == 0 ? id : mixed(id * 1000003 + sector * 64 + i);
    }
    std::memcpy(to, words.data(), SECTOR_BYTES);
}

Content clean_map() {
    perch_map_page page{};
    std::memcpy(page.magic, PERCH_MAP_MAGIC, sizeof(page.magic));
    std::memcpy(page.vd_uuid, vd_uuid.data(), vd_uuid.size());
    page.crc32c = htole32(crc32c(std::as_bytes(std::span(&page, 1))));
    Content content(map_bytes);
    std::memcpy(content.data(), &page, map_bytes);
    return content;
}

std::size_t offset_of(const io& command) {
    return (command.area == IO_DATA ? map_bytes : 0) + command.sector * SECTOR_BYTES;
}

geometry make_geometry(const CoreShape& shape) {
    geometry result{};
    if (geometry_init(&result, shape.level, shape.members, shape.per_span, shape.strip,
                      std::uint64_t{shape.strip} * shape.rows) != 0) {
        throw std::invalid_argument("no such geometry");
    }
    return result;
}

}  // namespace

// --- media

void Media::write(const void* owner, std::size_t offset, Content data) {
    entries_.push_back(
        std::make_unique<Entry>(Entry{owner, {offset, std::move(data), false}, SIZE_MAX}));
}

void Media::complete_write(const void* owner, bool fua) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
        return entry->owner == owner && !entry->write.complete;
    });
    auto& entry = **found;
    entry.write.complete = true;
    entry.completed = sequence_++;
    const auto put = [&](Content& content) {
        std::copy(entry.write.data.begin(), entry.write.data.end(),
                  content.begin() + static_cast<std::ptrdiff_t>(entry.write.offset));
    };
    put(current_);
    if (fua) {
        put(durable_);
        // What the cache still has of these sectors is superseded: it cannot come back over it.
        const auto made = std::move(entry.write);
        entries_.erase(found);
        for (const auto& other : entries_) {
            const auto first = std::max(made.offset, other->write.offset);
            const auto end = std::min(made.offset + made.data.size(),
                                      other->write.offset + other->write.data.size());
            for (auto place = first; place < end; ++place) {
                other->write.data[place - other->write.offset] = made.data[place - made.offset];
            }
        }
    }
}

void Media::drop_write(const void* owner) {
    std::erase_if(entries_, [&](const auto& entry) {
        return entry->owner == owner && !entry->write.complete;
    });
}

void Media::complete_flush(std::size_t until) {
    std::vector<Entry*> covered;
    for (const auto& entry : entries_) {
        if (entry->write.complete && entry->completed < until) {
            covered.push_back(entry.get());
        }
    }
    std::sort(covered.begin(), covered.end(),
              [](const auto* a, const auto* b) { return a->completed < b->completed; });
    for (const auto* entry : covered) {
        std::copy(entry->write.data.begin(), entry->write.data.end(),
                  durable_.begin() + static_cast<std::ptrdiff_t>(entry->write.offset));
    }
    std::erase_if(entries_, [&](const auto& entry) {
        return entry->write.complete && entry->completed < until;
    });
}

std::vector<const Media::Write*> Media::volatile_writes() const {
    std::vector<const Write*> writes;
    for (const auto& entry : entries_) {
        writes.push_back(&entry->write);
    }
    return writes;
}

// --- the machine

struct CoreWorld::Host {
    request asked{};
    Content data;
    bool direct = false;
    std::uint64_t begun = 0;
    std::uint64_t id = 0;
};

namespace {

struct WorldEnv {
    env base;  ///< first: the core knows only this
    CoreWorld* world;
};

}  // namespace

struct CoreWorld::Live {
    struct Command {
        io* command;
        std::size_t flushes_until;
    };
    WorldEnv env{};
    vd target{};
    std::vector<lane> lanes;
    std::vector<window> windows;
    std::vector<std::vector<std::uint64_t>> blocks;
    std::vector<u8> flags;
    std::vector<u16> users;
    std::vector<Command> commands;
    std::set<unsigned> woken;
    std::vector<Host*> direct;
    bool after_cut = false;
};

struct CoreCallbacks {
    static CoreWorld& world(env* base) { return *reinterpret_cast<WorldEnv*>(base)->world; }

    static void check_unlocked(CoreWorld& self) {
        auto& live = *self.live_;
        if (live.target.lock.held || live.target.map.lock.held ||
            std::any_of(live.lanes.begin(), live.lanes.end(),
                        [](const auto& one) { return one.lock.held; })) {
            throw Violation("lock: the shell is called with a lock held");
        }
    }
    static void submit(env* base, io* command) {
        auto& self = world(base);
        check_unlocked(self);
        auto& media = self.media_.at(command->member);
        ++self.commands_;
        if (self.live_->target.lost[command->member] != 0) {
            throw Violation("lost: a command to a member that cannot be used");
        }
        if (command->kind == IO_READ) {
            self.check_known(*command);
        }
        if (command->kind == IO_WRITE) {
            command->area == IO_DATA ? self.check_dirty_bit(*command)
                                     : self.check_cleared(*command);
            const auto* bytes = static_cast<const std::uint8_t*>(command->buffer);
            media.write(command, offset_of(*command),
                        Content(bytes, bytes + std::size_t{command->sectors} * SECTOR_BYTES));
        }
        self.live_->commands.push_back({command, media.begin_flush()});
    }
    static void complete(env* base, request* asked, int error) {
        auto& self = world(base);
        check_unlocked(self);
        const auto found = std::find_if(self.hosts_.begin(), self.hosts_.end(),
                                        [&](const auto& host) { return &host->asked == asked; });
        if (found == self.hosts_.end()) {
            throw Violation("request: ended twice");
        }
        // It stays in memory: a core that goes on with it is to be found out, not to crash.
        self.ended_.push_back(std::move(*found));
        self.hosts_.erase(found);
        self.end(*self.ended_.back(), error);
    }
    static void copy(env* base, request* asked, std::uint32_t offset, void* buffer,
                     std::uint32_t bytes) {
        auto& self = world(base);
        check_unlocked(self);
        const auto host = std::find_if(self.hosts_.begin(), self.hosts_.end(),
                                       [&](const auto& one) { return &one->asked == asked; });
        if (host == self.hosts_.end()) {
            throw Violation("request: its data is used after its end");
        }
        auto* data = (*host)->data.data() + offset;
        if (asked->kind == REQUEST_WRITE) {
            std::memcpy(buffer, data, bytes);
            // The host may change its buffer from now on (rule 7).
            std::memset(data, 0xee, bytes);
        } else {
            std::memcpy(data, buffer, bytes);
        }
    }
    static void wake(env* base, std::uint32_t lane) {
        auto& self = world(base);
        check_unlocked(self);
        self.live_->woken.insert(lane);
    }
};

CoreWorld::CoreWorld(const CoreShape& shape) : shape_(shape) {
    auto content = clean_map();
    content.resize(map_bytes + std::size_t{shape.strip} * shape.rows * SECTOR_BYTES);
    for (unsigned member = 0; member < shape.members; ++member) {
        media_.emplace_back(content);
    }
    histories_.assign(make_geometry(shape).vd_sectors, History{{0, 0, 0, 0}});
    start({}, true);
}

CoreWorld::CoreWorld(const CoreShape& shape, const std::vector<Content>& members,
                     std::vector<History> histories, const std::set<unsigned>& lost, bool clean)
    : shape_(shape), histories_(std::move(histories)) {
    for (const auto& content : members) {
        media_.emplace_back(content);
    }
    for (const auto& history : histories_) {
        for (const auto& version : history) {
            next_id_ = std::max(next_id_, version.id + 1);
            for (const auto time : {version.begun, version.acknowledged, version.durable}) {
                now_ = time == never ? now_ : std::max(now_, time + 1);
            }
        }
    }
    start(lost, clean);
}

CoreWorld::~CoreWorld() = default;

void CoreWorld::start(const std::set<unsigned>& lost, bool clean) {
    live_ = std::make_unique<Live>();
    auto& live = *live_;
    live.env = {
        {CoreCallbacks::submit, CoreCallbacks::complete, CoreCallbacks::copy, CoreCallbacks::wake},
        this};
    live.target.geometry = make_geometry(shape_);
    const auto& g = live.target.geometry;
    const auto regions = (g.member_sectors + shape_.region - 1) / shape_.region;
    live.flags.resize(regions);
    live.users.resize(regions);
    dirty_map_init(&live.target.map, g.member_sectors, shape_.region, live.flags.data(),
                   live.users.data(), vd_uuid.data());
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (lost.contains(member)) {
            live.target.lost[member] = 1;
            continue;
        }
        perch_map_page page;
        std::memcpy(&page, media_[member].current().data(), sizeof(page));
        dirty_map_load(&live.target.map, 0, &page, clean);
    }
    live.lanes.resize(shape_.lanes);
    live.windows.resize(std::size_t{shape_.lanes} * shape_.windows);
    for (auto& one : live.windows) {
        for (unsigned place = 0; place < g.per_span; ++place) {
            for (auto* block : {&one.block[place], &one.old[place]}) {
                live.blocks.emplace_back(std::size_t{g.window} * SECTOR_BYTES / 8, 0x5a5a5a5a5aULL);
                *block = live.blocks.back().data();
            }
        }
    }
    for (unsigned lane = 0; lane < shape_.lanes; ++lane) {
        lane_init(&live.lanes[lane], &live.windows[std::size_t{lane} * shape_.windows],
                  shape_.windows);
    }
    vd_init(&live.target, &live.env.base, live.lanes.data(), shape_.lanes);
    live.woken.insert(shape_.lanes);
}

std::uint64_t CoreWorld::sectors() const {
    return live_->target.geometry.vd_sectors;
}

std::uint32_t CoreWorld::row_sectors() const {
    return vd_row_sectors(&live_->target);
}

std::vector<Content> CoreWorld::current() const {
    std::vector<Content> contents;
    for (const auto& media : media_) {
        contents.push_back(media.current());
    }
    return contents;
}

bool CoreWorld::in_sync() const {
    return vd_in_sync(&live_->target);
}

// --- the host

void CoreWorld::begin(std::unique_ptr<Host> host) {
    host->begun = ++now_;
    ++now_;  // nothing that follows is at the same time
    auto& asked = host->asked;
    hosts_.push_back(std::move(host));
    if (hosts_.back()->direct) {
        live_->direct.push_back(hosts_.back().get());
    } else {
        vd_submit(&live_->target, &asked);
    }
}

void CoreWorld::write(std::uint64_t sector, std::uint32_t sectors, bool fua) {
    auto host = std::make_unique<Host>();
    host->asked.kind = REQUEST_WRITE;
    host->asked.fua = fua;
    host->asked.sector = sector;
    host->asked.sectors = sectors;
    host->id = next_id_++;
    host->data.resize(std::size_t{sectors} * SECTOR_BYTES);
    ++now_;
    for (std::uint32_t i = 0; i < sectors; ++i) {
        fill_sector(&host->data[std::size_t{i} * SECTOR_BYTES], host->id, sector + i);
        histories_.at(sector + i).push_back({host->id, now_, never, never});
    }
    begin(std::move(host));
}

void CoreWorld::flush() {
    auto host = std::make_unique<Host>();
    host->asked.kind = REQUEST_FLUSH;
    begin(std::move(host));
}

void CoreWorld::read(std::uint64_t sector, std::uint32_t sectors) {
    auto host = std::make_unique<Host>();
    host->asked.kind = REQUEST_READ;
    host->asked.sector = sector;
    host->asked.sectors = sectors;
    host->data.resize(std::size_t{sectors} * SECTOR_BYTES);
    host->direct = vd_reads_directly(&live_->target, sector, sectors);
    begin(std::move(host));
}

void CoreWorld::tick() {
    vd_tick(&live_->target);
}

void CoreWorld::end(Host& host, int error) {
    const auto& asked = host.asked;
    if (error != 0) {
        ++failed_;
        return;
    }
    for (std::uint32_t i = 0; i < asked.sectors; ++i) {
        if (asked.kind == REQUEST_READ) {
            check_sector(asked.sector + i, &host.data[std::size_t{i} * SECTOR_BYTES], host.begun);
            continue;
        }
        for (auto& version : histories_[asked.sector + i]) {
            if (version.id == host.id) {
                version.acknowledged = now_;
                version.durable = asked.fua ? now_ : never;
            }
        }
    }
    if (asked.kind == REQUEST_FLUSH) {
        for (auto& history : histories_) {
            for (auto& version : history) {
                if (version.acknowledged < host.begun && version.durable == never) {
                    version.durable = now_;
                }
            }
        }
    }
}

void CoreWorld::end_direct_read(Host& host) {
    for (std::uint32_t i = 0; i < host.asked.sectors; ++i) {
        const auto place = geometry_map(&live_->target.geometry, host.asked.sector + i);
        const auto& content = media_[place.member].current();
        std::memcpy(&host.data[std::size_t{i} * SECTOR_BYTES],
                    &content[map_bytes + place.sector * SECTOR_BYTES], SECTOR_BYTES);
    }
    CoreCallbacks::complete(&live_->env.base, &host.asked, 0);
}

// --- what happens next

std::size_t CoreWorld::choices() const {
    return live_->woken.size() + live_->commands.size() + live_->direct.size();
}

std::size_t CoreWorld::choice_with_late_flushes() const {
    if (!live_->woken.empty()) {
        return live_->woken.size() - 1;  // the VD's own work
    }
    const auto found = std::find_if(live_->commands.begin(), live_->commands.end(),
                                    [](const auto& one) { return one.command->kind != IO_FLUSH; });
    return found == live_->commands.end()
               ? 0
               : static_cast<std::size_t>(std::distance(live_->commands.begin(), found));
}

void CoreWorld::step(std::size_t choice) {
    auto& live = *live_;
    ++now_;
    if (choice < live.woken.size()) {
        const auto lane = *std::next(live.woken.begin(), static_cast<std::ptrdiff_t>(choice));
        live.woken.erase(lane);
        lane < shape_.lanes ? vd_run_lane(&live.target, lane) : vd_run(&live.target);
        return;
    }
    choice -= live.woken.size();
    if (choice < live.commands.size()) {
        complete_io(choice);
        return;
    }
    choice -= live.commands.size();
    auto* host = live.direct.at(choice);
    live.direct.erase(live.direct.begin() + static_cast<std::ptrdiff_t>(choice));
    end_direct_read(*host);
}

void CoreWorld::complete_io(std::size_t index) {
    const auto [command, flushes_until] = live_->commands.at(index);
    live_->commands.erase(live_->commands.begin() + static_cast<std::ptrdiff_t>(index));
    auto& media = media_[command->member];
    switch (command->kind) {
        case IO_READ:
            std::memcpy(command->buffer, &media.current()[offset_of(*command)],
                        std::size_t{command->sectors} * SECTOR_BYTES);
            break;
        case IO_WRITE:
            if (fail_next_write_ && command->area == IO_DATA) {
                fail_next_write_ = false;
                media.drop_write(command);
                vd_io_done(&live_->target, command, -EIO);
                return;
            }
            media.complete_write(command, command->fua);
            break;
        case IO_FLUSH:
            media.complete_flush(flushes_until);
            break;
    }
    vd_io_done(&live_->target, command, 0);
}

void CoreWorld::settle() {
    for (std::size_t steps = 0; choices() > 0; ++steps) {
        if (steps > 1'000'000) {
            throw Violation("liveness: it never comes to rest");
        }
        step(0);
    }
    if (!hosts_.empty()) {
        throw Violation("liveness: a request is never answered");
    }
    for (auto& lane : live_->lanes) {
        if (!lane_is_idle(&lane)) {
            throw Violation("liveness: a lane holds something back");
        }
    }
}

void CoreWorld::settle_clean() {
    for (int ticks = 0; ticks < 6; ++ticks) {
        settle();
        tick();
    }
    settle();
    if (std::any_of(live_->flags.begin(), live_->flags.end(),
                    [](auto flags) { return (flags & (REGION_DIRTY | REGION_UNKNOWN)) != 0; })) {
        throw Violation("clean: a region is never marked clean");
    }
}

// --- checkers

void CoreWorld::check_dirty_bit(const io& command) const {
    const auto region = command.sector / shape_.region;
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (live_->target.lost[member] != 0) {
            continue;
        }
        perch_map_page page;
        std::memcpy(&page, media_[member].durable().data(), sizeof(page));
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
    for (const auto& media : media_) {
        for (const auto* one : media.volatile_writes()) {
            if (one->offset < map_bytes) {
                continue;
            }
            const auto region = (one->offset - map_bytes) / region_bytes;
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
    std::uint64_t sector = 0;
    if ((target.map.flags[command.sector / shape_.region] & REGION_UNKNOWN) != 0 &&
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
        throw Violation(
            fmt::format("content: sector {} holds what was never written to it", sector));
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
        history = {{found->id, 0, 0, 0}};
    }
}

void CoreWorld::check_content() {
    const auto failed = failed_;
    for (std::uint64_t sector = 0; sector < sectors(); sector += row_sectors()) {
        read(sector, row_sectors());
    }
    settle();
    if (failed_ != failed) {
        throw Violation("content: a read fails");
    }
}

bool CoreWorld::dirty_on_media(std::uint64_t region) const {
    for (unsigned member = 0; member < shape_.members; ++member) {
        perch_map_page page;
        std::memcpy(&page, media_[member].current().data(), sizeof(page));
        if (live_->target.lost[member] == 0 &&
            (page.bits[region / 4] >> region % 4 * 2 & PERCH_MAP_DIRTY) != 0) {
            return true;
        }
    }
    return false;
}

void CoreWorld::check_no_errors() const {
    if (failed_ != 0) {
        throw Violation("error: a request fails, although nothing is lost for good");
    }
}

void CoreWorld::check_after_cut_degraded() {
    live_->after_cut = true;
    for (std::uint64_t sector = 0; sector < sectors(); sector += shape_.strip) {
        const auto failed = failed_;
        const auto place = geometry_map(&live_->target.geometry, sector);
        const bool doubtful =
            live_->target.lost[place.member] != 0 && dirty_on_media(place.sector / shape_.region);
        read(sector, shape_.strip);
        settle();
        if ((failed_ != failed) != doubtful) {
            throw Violation(fmt::format("doubt: sector {} {}", sector,
                                        doubtful ? "is computed from parity that may match nothing"
                                                 : "cannot be read, although parity matches"));
        }
    }
    live_->after_cut = false;
    for (std::uint64_t sector = 0; sector < sectors(); sector += shape_.strip) {
        const auto place = geometry_map(&live_->target.geometry, sector);
        if (live_->target.lost[place.member] == 0) {
            continue;
        }
        failed_ = 0;
        write(sector, shape_.strip);
        settle();
        const bool acknowledged = failed_ == 0;
        read(sector, shape_.strip);
        settle();
        if (acknowledged && failed_ != 0) {
            throw Violation(fmt::format(
                "doubt: a write to sector {} is acknowledged and not readable", sector));
        }
    }
    failed_ = 0;
}

void CoreWorld::check_after_cut() {
    live_->after_cut = true;
    // Before anything else happens: what the host finds at once.
    for (std::uint64_t sector = 0; sector < sectors(); sector += row_sectors()) {
        Host host;
        host.asked.sector = sector;
        host.asked.sectors = row_sectors();
        for (std::uint32_t i = 0; i < row_sectors(); ++i) {
            const auto place = geometry_map(&live_->target.geometry, sector + i);
            check_sector(sector + i,
                         &media_[place.member].current()[map_bytes + place.sector * SECTOR_BYTES],
                         now_);
        }
    }
    live_->after_cut = false;
}

void CoreWorld::check_parity() const {
    const auto& g = live_->target.geometry;
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
                                &media_[member].current()[map_bytes + row * bytes], bytes);
                }
                sources.push_back(block);
            }
            sources.push_back(buffers[g.per_span].data());
            sources.push_back(buffers[g.per_span + 1].data());
            pq_gen(static_cast<int>(sources.size()), static_cast<int>(bytes), sources.data());
            for (const auto& [member, right] :
                 {std::pair(p, sources[g.per_span]), std::pair(q, sources[g.per_span + 1])}) {
                if (member != UINT32_MAX &&
                    std::memcmp(&media_[member].current()[map_bytes + row * bytes], right, bytes) !=
                        0) {
                    throw Violation(fmt::format("parity: {} of row {} of span {} does not match",
                                                member == p ? "P" : "Q", row, span));
                }
            }
        }
    }
}

// --- cuts

std::size_t for_each_cut(const CoreWorld& world, unsigned most, std::uint64_t seed, bool& capped,
                         const std::function<void(const std::vector<Content>&)>& action) {
    struct Pending {
        std::size_t member;
        const Media::Write* write;
    };
    std::vector<Content> base;
    std::vector<Pending> pending;
    for (std::size_t member = 0; member < world.media().size(); ++member) {
        base.push_back(world.media()[member].durable());
        for (const auto* write : world.media()[member].volatile_writes()) {
            pending.push_back({member, write});
        }
    }
    std::size_t images = 0;
    std::unordered_set<std::size_t> seen;  // of images, by hash: most differ in nothing that counts
    const auto emit = [&](const auto& bytes_of) {
        auto image = base;
        std::size_t hash = 0;
        for (std::size_t i = 0; i < pending.size(); ++i) {
            const auto& [member, write] = pending[i];
            std::copy_n(write->data.begin(), bytes_of(i, write->data.size()),
                        image[member].begin() + static_cast<std::ptrdiff_t>(write->offset));
        }
        for (const auto& content : image) {
            hash = hash * 31 + std::hash<std::string_view>{}(std::string_view(
                                   reinterpret_cast<const char*>(content.data()), content.size()));
        }
        ++images;
        if (seen.insert(hash).second) {
            action(image);
        }
    };
    const auto subset = [&](std::uint64_t mask) {
        emit([&](std::size_t i, std::size_t size) { return (mask >> i & 1U) != 0 ? size : 0; });
    };
    capped = pending.size() > most;
    if (!capped) {
        for (std::uint64_t mask = 0; mask < 1ULL << pending.size(); ++mask) {
            subset(mask);
        }
    } else {
        std::mt19937_64 random(seed);
        subset(0);
        for (unsigned i = 0; i < 1U << most; ++i) {
            subset(random());
        }
    }
    // Each write torn alone, the others all there or not at all.
    for (std::size_t torn = 0; torn < pending.size(); ++torn) {
        for (std::size_t kept = SECTOR_BYTES; kept < pending[torn].write->data.size();
             kept += SECTOR_BYTES) {
            for (const bool others : {false, true}) {
                emit([&](std::size_t i, std::size_t size) {
                    return i == torn ? kept : others ? size : 0;
                });
            }
        }
    }
    return images;
}

}  // namespace perch::test
