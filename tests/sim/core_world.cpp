// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_world.hpp"

#include <fmt/format.h>
#include <isa-l/raid.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <string_view>

#include "sim/core_fibers.hpp"
#include "util/bytes.hpp"

namespace perch::test {

namespace {

// A disk's content: both copies of the superblock, one page of the dirty map, both halves of the
// bad ranges with one page each, data.
constexpr std::size_t superblock_bytes = sizeof(perch_superblock);
constexpr std::size_t map_offset = 2 * superblock_bytes;
constexpr std::size_t map_bytes = sizeof(perch_map_page);  ///< one page is enough here
constexpr std::size_t bad_offset = map_offset + map_bytes;
constexpr std::size_t bad_bytes = sizeof(perch_bad_page);
constexpr std::size_t data_offset = bad_offset + 2 * bad_bytes;
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

/// Which write's content it seems to be.
std::uint64_t get_id(const std::uint8_t* sector) {
    std::uint64_t id;
    std::memcpy(&id, sector, sizeof(id));
    return id;
}

template <typename Structure>
void put(Content& content, std::size_t offset, const Structure& structure) {
    std::memcpy(&content.at(offset), &structure, sizeof(structure));
}

template <typename Structure>
Structure get(const Content& content, std::size_t offset) {
    Structure structure;
    std::memcpy(&structure, &content.at(offset), sizeof(structure));
    return structure;
}

perch_map_page clean_map() {
    perch_map_page page{};
    std::memcpy(page.magic, PERCH_MAP_MAGIC, sizeof(page.magic));
    std::memcpy(page.vd_uuid, vd_uuid.data(), vd_uuid.size());
    page.crc32c = htole32(crc32c(std::as_bytes(std::span(&page, 1))));
    return page;
}

void set_instance(std::uint8_t* to, std::uint64_t number) {
    std::memcpy(to, &number, sizeof(number));
}

/// As userspace writes it when a drive is assigned: of no epoch yet.
perch_superblock fresh_superblock(const CoreShape& shape, unsigned member, std::uint64_t instance) {
    perch_superblock superblock{};
    std::memcpy(superblock.magic, PERCH_SUPERBLOCK_MAGIC, sizeof(superblock.magic));
    superblock.version = htole32(PERCH_SUPERBLOCK_VERSION);
    std::memcpy(superblock.vd_uuid, vd_uuid.data(), vd_uuid.size());
    set_instance(superblock.instance, instance);
    superblock.update_counter = htole64(1);
    superblock.row = htole32(member);
    superblock.members = htole32(shape.members);
    superblock.members_per_span = htole32(shape.per_span);
    superblock.owner = htole32(PERCH_OWNER_PERCH);
    superblock.entries = htole32(shape.members);
    for (unsigned row = 0; row < shape.members; ++row) {
        superblock.member[row].row = htole16(static_cast<std::uint16_t>(row));
        superblock.member[row].state = PERCH_MEMBER_ABSENT;
    }
    return superblock;
}

void seal(perch_superblock& superblock) {
    superblock.crc32c = 0;
    superblock.crc32c = htole32(crc32c(std::as_bytes(std::span(&superblock, 1))));
}

Disk blank_disk(const CoreShape& shape, unsigned member, std::uint64_t instance) {
    Disk disk;
    disk.content.resize(data_offset + std::size_t{shape.strip} * shape.rows * SECTOR_BYTES);
    // Whatever was on it before: nobody may take it for data.
    for (std::size_t i = data_offset; i < disk.content.size(); ++i) {
        disk.content[i] = static_cast<std::uint8_t>(0xb0 + i % 7);
    }
    auto superblock = fresh_superblock(shape, member, instance);
    seal(superblock);
    put(disk.content, 0, superblock);
    return disk;
}

/// A VD that was just made, and stopped in order: zeros, in sync.
Disk first_disk(const CoreShape& shape, unsigned member) {
    Disk disk;
    disk.content.resize(data_offset + std::size_t{shape.strip} * shape.rows * SECTOR_BYTES);
    auto superblock = fresh_superblock(shape, member, member + 1);
    superblock.epoch_number = htole64(1);
    superblock.epoch_nonce[0] = 1;
    superblock.flags = htole32(PERCH_SUPERBLOCK_CLEAN);
    for (unsigned row = 0; row < shape.members; ++row) {
        set_instance(superblock.member[row].instance, row + 1);
        superblock.member[row].state = PERCH_MEMBER_IN_SYNC;
    }
    seal(superblock);
    put(disk.content, 0, superblock);
    put(disk.content, map_offset, clean_map());
    return disk;
}

/// With PERCH_TRACE set, what happens is printed.
template <typename... Arguments>
void trace(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    static const bool on = std::getenv("PERCH_TRACE") != nullptr;
    if (on) {
        fmt::print(format, std::forward<Arguments>(arguments)...);
    }
}

std::string describe(const io& command) {
    constexpr std::array kinds{"read", "write", "flush"};
    constexpr std::array areas{"data", "map", "superblock", "bad ranges"};
    return fmt::format("{} {} of member {} at {}+{}{}", kinds.at(command.kind),
                       areas.at(command.area), command.member, command.sector, command.sectors,
                       command.fua ? " FUA" : "");
}

std::string describe(const request& asked) {
    constexpr std::array kinds{"none", "read", "write", "flush", "stop"};
    return fmt::format("{} {}+{}{}", kinds.at(asked.kind), asked.sector, asked.sectors,
                       asked.fua ? " FUA" : "");
}

std::size_t offset_of(const io& command) {
    const auto bytes = command.sector * SECTOR_BYTES;
    switch (command.area) {
        case IO_SUPERBLOCK:
            return bytes / PERCH_SUPERBLOCK_COPY_STRIDE * superblock_bytes;
        case IO_DIRTY_MAP:
            return map_offset + bytes;
        case IO_BAD_RANGES:
            return bad_offset + bytes / PERCH_BAD_COPY_STRIDE * bad_bytes;
        default:
            return data_offset + bytes;
    }
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

// --- the machine

struct CoreWorld::Host {
    request asked{};
    Content data;
    bool direct = false;
    u64 ticket = 0;
    std::vector<geometry_place> places;  ///< of each sector of a direct read
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
    std::vector<perch_superblock> superblocks;
    std::vector<lane> lanes;
    std::vector<window> windows;
    std::vector<std::vector<std::uint64_t>> blocks;
    std::vector<u8> flags;
    std::vector<u16> users;
    std::vector<perch_bad_page> bad_pages{1};
    std::vector<Command> commands;
    std::set<unsigned> woken;
    std::map<unsigned, Fiber> running;  ///< by lane: it is at a call of its environment
    std::set<unsigned> absent;
    std::vector<Host*> direct;
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

struct CoreCallbacks {
    static CoreWorld& world(env* base) { return *reinterpret_cast<WorldEnv*>(base)->world; }

    static void check_unlocked(CoreWorld& self) {
        auto& live = *self.live_;
        if (live.target.metadata.lock.held || live.target.task.lock.held ||
            live.target.map.lock.held || live.target.bad.lock.held ||
            std::any_of(live.lanes.begin(), live.lanes.end(),
                        [](const auto& one) { return one.lock.held; })) {
            throw Violation("lock: the shell is called with a lock held");
        }
    }
    static void begin_command(CoreWorld& self, io* command) {
        check_unlocked(self);
        auto& media = self.media_.at(command->member);
        ++self.commands_;
        trace("{} lane {}: {}\n", self.now_, command->lane, describe(*command));
        if (self.live_->absent.contains(command->member)) {
            throw Violation("lost: a command to a member that is not there");
        }
        if (command->kind == IO_READ) {
            self.check_known(*command);
        }
        if (command->kind == IO_WRITE) {
            if (command->area == IO_DATA) {
                self.check_dirty_bit(*command);
            } else if (command->area == IO_DIRTY_MAP) {
                self.check_cleared(*command);
            } else if (command->area == IO_BAD_RANGES) {
                self.check_listed(*command);
            }
            const auto* bytes = static_cast<const std::uint8_t*>(command->buffer);
            media.write(command, offset_of(*command),
                        Content(bytes, bytes + std::size_t{command->sectors} * SECTOR_BYTES));
        }
        self.live_->commands.push_back({command, media.begin_flush()});
    }
    static void end_request(CoreWorld& self, request* asked, int error) {
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
    static void copy_data(CoreWorld& self, request* asked, std::uint32_t offset, void* buffer,
                          std::uint32_t bytes) {
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

    // At each of these calls anything else may happen before the core goes on.
    static void submit(env* base, io* command) {
        begin_command(world(base), command);
        Fiber::pause();
    }
    static void complete(env* base, request* asked, int error) {
        end_request(world(base), asked, error);
        Fiber::pause();
    }
    static void copy(env* base, request* asked, std::uint32_t offset, void* buffer,
                     std::uint32_t bytes) {
        copy_data(world(base), asked, offset, buffer, bytes);
        Fiber::pause();
    }
    static void random(env* base, void* buffer, std::uint32_t bytes) {
        auto& self = world(base);
        check_unlocked(self);
        for (std::uint32_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
            const auto word = mixed(++self.instances_ << 20U);
            std::memcpy(static_cast<std::uint8_t*>(buffer) + i, &word, sizeof(word));
        }
        Fiber::pause();
    }
    static void wake(env* base, std::uint32_t lane) {
        check_unlocked(world(base));
        world(base).live_->woken.insert(lane);
        Fiber::pause();
    }
};

CoreWorld::CoreWorld(const CoreShape& shape) : shape_(shape), instances_(shape.members) {
    for (unsigned member = 0; member < shape.members; ++member) {
        media_.emplace_back(first_disk(shape, member));
    }
    histories_.assign(make_geometry(shape).vd_sectors, History{{0, 0, 0, 0}});
    start({});
}

CoreWorld::CoreWorld(Remains remains, const std::set<unsigned>& absent)
    : shape_(remains.shape),
      histories_(std::move(remains.histories)),
      suspects_(std::move(remains.suspects)),
      lost_(std::move(remains.lost)),
      unsteady_(std::move(remains.unsteady)),
      instances_(remains.instances) {
    for (auto& disk : remains.disks) {
        media_.emplace_back(std::move(disk));
    }
    for (const auto& history : histories_) {
        for (const auto& version : history) {
            next_id_ = std::max(next_id_, version.id + 1);
            for (const auto time : {version.begun, version.acknowledged, version.durable}) {
                now_ = time == never ? now_ : std::max(now_, time + 1);
            }
        }
    }
    start(absent);
}

CoreWorld::~CoreWorld() = default;

CoreWorld::Remains CoreWorld::remains(const std::vector<Content>& contents) const {
    Remains result{shape_, {}, histories_, suspects_, lost_, unsteady_, instances_ + 1000};
    for (unsigned member = 0; member < shape_.members; ++member) {
        result.disks.push_back({contents[member], media_[member].unreadable()});
    }
    return result;
}

CoreWorld::Remains CoreWorld::remains() const {
    std::vector<Content> contents;
    for (const auto& media : media_) {
        contents.push_back(media.current());
    }
    return remains(contents);
}

void CoreWorld::replace(Remains& remains, const std::set<unsigned>& members) {
    for (const auto member : members) {
        remains.disks.at(member) = blank_disk(remains.shape, member, ++remains.instances);
        remains.suspects.insert(member);
    }
}

void CoreWorld::start(const std::set<unsigned>& absent) {
    faults_.resize(shape_.members);
    suspects_.insert(absent.begin(), absent.end());
    live_ = std::make_unique<Live>();
    auto& live = *live_;
    auto& target = live.target;
    live.absent = absent;
    live.env = {{CoreCallbacks::submit, CoreCallbacks::complete, CoreCallbacks::copy,
                 CoreCallbacks::random, CoreCallbacks::wake},
                this};
    target.geometry = make_geometry(shape_);
    const auto& g = target.geometry;
    const auto regions = (g.member_sectors + shape_.region - 1) / shape_.region;
    live.flags.resize(regions);
    live.users.resize(regions);
    dirty_map_init(&target.map, g.member_sectors, shape_.region, live.flags.data(),
                   live.users.data(), vd_uuid.data());
    bad_ranges_init(&target.bad, live.bad_pages.data(), static_cast<u32>(live.bad_pages.size()),
                    vd_uuid.data());
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
    vd_init(&target, &live.env.base, live.lanes.data(), shape_.lanes);
    live.superblocks.resize(shape_.members);
    for (unsigned member = 0; member < shape_.members; ++member) {
        target.superblock[member] = &live.superblocks[member];
        if (!absent.contains(member)) {
            const auto& content = media_[member].current();
            const auto copy0 = get<perch_superblock>(content, 0);
            const auto copy1 = get<perch_superblock>(content, superblock_bytes);
            vd_found(&target, member, &copy0, &copy1);
        }
    }
    for (unsigned member = 0; member < shape_.members; ++member) {
        const auto& superblock = live.superblocks[member];
        std::string states;
        for (unsigned row = 0; row < shape_.members; ++row) {
            states += static_cast<char>('0' + superblock.member[row].state);
        }
        trace("{}found on member {}: epoch {}, states {}{}\n",
              absent.contains(member) ? "not " : "", member, superblock.epoch_number, states,
              target.damaged[member] ? ", one copy is damaged" : "");
    }
    choice_ = vd_choose(&target);
    trace("{} start: choice {}\n", now_, static_cast<int>(choice_));
    if (choice_ != VD_READY) {
        live_.reset();
        return;
    }
    for (unsigned member = 0; member < shape_.members; ++member) {
        if (vd_is_in_sync(&target, member)) {
            const auto page = get<perch_map_page>(media_[member].current(), map_offset);
            if (g.redundancy > 0) {
                dirty_map_load(&target.map, 0, &page, target.clean);
            }
            const auto half0 = get<perch_bad_page>(media_[member].current(), bad_offset);
            const auto half1 =
                get<perch_bad_page>(media_[member].current(), bad_offset + bad_bytes);
            bad_ranges_load(&target.bad, member, 0, &half0, &half1);
        }
    }
    if (!bad_ranges_loaded(&target.bad)) {
        throw Violation("start: nobody knows what is lost");
    }
    check_who_is_out(absent);
    vd_start(&target, shape_.task_depth);
}

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

bool CoreWorld::is_out(unsigned member) const {
    return !vd_is_in_sync(&live_->target, member);
}

bool CoreWorld::is_readable() const {
    return std::all_of(media_.begin(), media_.end(),
                       [](const auto& media) { return media.unreadable().empty(); });
}

bool CoreWorld::is_optimal() const {
    return vd_is_optimal(&live_->target);
}

bool CoreWorld::is_broken() const {
    return vd_is_broken(&live_->target);
}

bool CoreWorld::is_listed(std::uint64_t sector, std::uint32_t sectors) const {
    return bad_ranges_overlap(&live_->target.bad, sector, sectors);
}

std::uint64_t CoreWorld::mismatches() const {
    return live_->target.task.mismatches;
}

std::uint64_t CoreWorld::sectors() const {
    return make_geometry(shape_).vd_sectors;
}

std::uint32_t CoreWorld::row_sectors() const {
    return vd_row_sectors(&live_->target);
}

bool CoreWorld::in_sync() const {
    return vd_in_sync(&live_->target);
}

// --- the host

void CoreWorld::begin(std::unique_ptr<Host> host) {
    host->begun = ++now_;
    ++now_;  // nothing that follows is at the same time
    auto& asked = host->asked;
    trace("{} host: {} as {}{}\n", now_, describe(asked), host->id, host->direct ? ", direct" : "");
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
    host->direct = vd_reads_directly(&live_->target, sector, sectors, &host->ticket);
    const auto turn = static_cast<u32>(mixed(now_));
    for (std::uint32_t i = 0; host->direct && i < sectors; ++i) {
        geometry_place place;
        host->direct = vd_read_place(&live_->target, sector + i, turn, &place);
        host->places.push_back(place);
    }
    begin(std::move(host));
}

void CoreWorld::tick() {
    vd_tick(&live_->target);
}

void CoreWorld::stop() {
    auto host = std::make_unique<Host>();
    host->asked.kind = REQUEST_STOP;
    begin(std::move(host));
}

void CoreWorld::check(bool repair) {
    task_want(&live_->target, REQUEST_CHECK, repair);
}

void CoreWorld::patrol() {
    task_want(&live_->target, REQUEST_PATROL, false);
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

bool CoreWorld::excusable(const request& asked) const {
    for (auto sector = asked.sector; sector < asked.sector + asked.sectors; ++sector) {
        if (is_beyond_redundancy(sector) || lost_.contains(sector)) {
            return true;
        }
    }
    return false;
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
            lost_.insert(sector);
        }
    }
}

void CoreWorld::end(Host& host, int error) {
    const auto& asked = host.asked;
    trace("{} host: {} as {} is answered {}\n", now_, describe(asked), host.id, error);
    if (error != 0) {
        ++failed_;
        if (is_broken()) {
            std::map<unsigned, unsigned> out;
            for (const auto member : suspects_) {
                ++out[member / shape_.per_span];
            }
            if (std::none_of(out.begin(), out.end(), [&](const auto& span) {
                    return span.second > live_->target.geometry.redundancy;
                })) {
                throw Violation("broken: it gives up, and enough members are left");
            }
        } else if (!excusable(asked)) {
            throw Violation("error: a request fails, although nothing is lost for good");
        }
        return;
    }
    for (std::uint32_t i = 0; i < asked.sectors; ++i) {
        if (asked.kind == REQUEST_READ) {
            check_sector(asked.sector + i, &host.data[std::size_t{i} * SECTOR_BYTES], host.begun);
            continue;
        }
        lost_.erase(asked.sector + i);
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
        const auto& place = host.places[i];
        const auto& media = media_[place.member];
        const auto offset = data_offset + place.sector * SECTOR_BYTES;
        if (faults_[place.member].pulled || !media.is_readable(offset, SECTOR_BYTES)) {
            host.direct = false;
            vd_submit(&live_->target, &host.asked);
            return;
        }
        std::memcpy(&host.data[std::size_t{i} * SECTOR_BYTES], &media.current()[offset],
                    SECTOR_BYTES);
    }
    if (!vd_read_stands(&live_->target, host.ticket)) {
        host.direct = false;
        vd_submit(&live_->target, &host.asked);
        return;
    }
    CoreCallbacks::end_request(*this, &host.asked, 0);
}

// --- drives

void CoreWorld::pull(unsigned member) {
    trace("{} pull {}\n", now_, member);
    suspects_.insert(member);
    faults_[member].pulled = true;
    media_[member].pull();
    vd_member_lost(&live_->target, member);
}

void CoreWorld::fail_all_writes(unsigned member) {
    suspects_.insert(member);
    faults_[member].writes = UINT32_MAX;
}

void CoreWorld::fail_reads(unsigned member, unsigned number) {
    suspects_.insert(member);
    faults_[member].reads = number;
}

void CoreWorld::fail_a_flush(unsigned member) {
    suspects_.insert(member);
    faults_[member].flushes = 1;
}

void CoreWorld::make_unreadable(unsigned member, std::uint64_t sector) {
    trace("{} unreadable: member {} at {}\n", now_, member, sector);
    unsteady_.insert({member / shape_.per_span, sector / live_->target.geometry.window});
    media_[member].make_unreadable(data_offset / SECTOR_BYTES + sector);
}

void CoreWorld::flip(unsigned member, std::uint64_t sector) {
    media_[member].flip(data_offset + sector * SECTOR_BYTES + 77, 4);
}

void CoreWorld::damage_superblock(unsigned member) {
    media_[member].flip(live_->target.member[member].copy * superblock_bytes + 9000, 4);
    superblock_rots_ = true;
}

// --- what happens next

std::size_t CoreWorld::choices() const {
    return live_->runnable().size() + live_->commands.size() + live_->direct.size();
}

std::size_t CoreWorld::choice_with(const std::function<bool(const io&)>& late) const {
    const auto lanes = live_->runnable().size();
    if (lanes > 0) {
        return lanes - 1;  // the VD's own work
    }
    const auto found = std::find_if_not(live_->commands.begin(), live_->commands.end(),
                                        [&](const auto& one) { return late(*one.command); });
    return found == live_->commands.end()
               ? 0
               : static_cast<std::size_t>(std::distance(live_->commands.begin(), found));
}

std::size_t CoreWorld::choice_with_late_flushes() const {
    return choice_with([](const io& command) { return command.kind == IO_FLUSH; });
}

std::size_t CoreWorld::choice_with_late_superblocks() const {
    return choice_with([](const io& command) {
        return command.area == IO_SUPERBLOCK || command.area == IO_BAD_RANGES;
    });
}

bool CoreWorld::is_completion(std::size_t choice) const {
    const auto lanes = live_->runnable().size();
    return choice >= lanes && choice < lanes + live_->commands.size() &&
           live_->commands[choice - lanes].command->kind != IO_READ;
}

void CoreWorld::run(unsigned lane) {
    lane < shape_.lanes ? vd_run_lane(&live_->target, lane) : vd_run(&live_->target);
}

void CoreWorld::step(std::size_t choice) {
    auto& live = *live_;
    ++now_;
    const auto lanes = live.runnable();
    if (choice < lanes.size()) {
        const auto lane = lanes[choice];
        auto running = live.running.find(lane);
        if (running == live.running.end()) {
            live.woken.erase(lane);
            running = live.running.try_emplace(lane, [this, lane] { run(lane); }).first;
        }
        if (running->second.resume()) {
            live.running.erase(running);
        }
        return;
    }
    choice -= lanes.size();
    if (choice < live.commands.size()) {
        complete_io(choice);
        return;
    }
    choice -= live.commands.size();
    auto* host = live.direct.at(choice);
    live.direct.erase(live.direct.begin() + static_cast<std::ptrdiff_t>(choice));
    end_direct_read(*host);
}

void CoreWorld::step_whole() {
    const auto lanes = live_->runnable();
    if (lanes.empty() || !live_->running.empty()) {
        step(0);
        return;
    }
    ++now_;
    live_->woken.erase(lanes[0]);
    run(lanes[0]);
}

int CoreWorld::perform(const io& command, std::size_t flushes_until) {
    auto& media = media_[command.member];
    auto& faults = faults_[command.member];
    const auto bytes = std::size_t{command.sectors} * SECTOR_BYTES;
    if (faults.pulled) {
        return -EIO;
    }
    if (faults.reads > 0 && command.kind == IO_READ) {
        --faults.reads;
        return -EIO;
    }
    switch (command.kind) {
        case IO_READ:
            if (!media.is_readable(offset_of(command), bytes)) {
                std::memset(command.buffer, 0xdd, bytes);
                return -ENODATA;
            }
            std::memcpy(command.buffer, &media.current()[offset_of(command)], bytes);
            return 0;
        case IO_WRITE:
            // A single failure is none of the second try's.
            if (faults.writes > (command.again ? 1 : 0) && command.area == IO_DATA) {
                --faults.writes;
                media.fail_write(&command, bytes / 2 / SECTOR_BYTES * SECTOR_BYTES);
                return -EIO;
            }
            media.complete_write(&command, command.fua);
            return 0;
        default:
            if (faults.flushes > 0) {
                --faults.flushes;
                media.fail_flush(flushes_until);
                return -EIO;
            }
            media.complete_flush(flushes_until);
            return 0;
    }
}

void CoreWorld::complete_io(std::size_t index) {
    const auto [command, flushes_until] = live_->commands.at(index);
    live_->commands.erase(live_->commands.begin() + static_cast<std::ptrdiff_t>(index));
    const auto error = perform(*command, flushes_until);
    trace("{} ends {}: {}\n", now_, error, describe(*command));
    vd_io_done(&live_->target, command, error);
}

void CoreWorld::settle() {
    for (std::size_t steps = 0; choices() > 0; ++steps) {
        if (steps > 1'000'000) {
            throw Violation("liveness: it never comes to rest");
        }
        step_whole();
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

void CoreWorld::settle_but(std::uint64_t first, std::uint64_t end) {
    const auto is_held = [&](const auto& one) {
        return one.command->kind != IO_FLUSH && one.command->area == IO_DATA &&
               one.command->sector >= first && one.command->sector < end;
    };
    for (;;) {
        const auto& commands = live_->commands;
        const auto lanes = live_->runnable().size();
        const auto free = std::find_if_not(commands.begin(), commands.end(), is_held);
        if (lanes > 0) {
            step(0);
        } else if (free != commands.end()) {
            step(static_cast<std::size_t>(std::distance(commands.begin(), free)));
        } else {
            return;
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

void CoreWorld::settle_rebuilt() {
    for (int ticks = 0; ticks < 10 && !is_optimal(); ++ticks) {
        settle();
        tick();
    }
    settle();
    if (!is_optimal()) {
        throw Violation("rebuild: it does not come to its end");
    }
    suspects_.clear();
}

// --- checkers

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
    return found != lost_.end() && *found < sector + sectors;
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

// --- cuts

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
    for (const auto sector : lost_) {
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

std::size_t for_each_cut(const CoreWorld& world, unsigned most, std::uint64_t seed, bool& capped,
                         Seen& seen,
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
    const auto knowledge = world.knowledge();
    const auto emit = [&](const auto& bytes_of) {
        auto image = base;
        std::size_t hash = knowledge;
        for (std::size_t i = 0; i < pending.size(); ++i) {
            const auto& [member, write] = pending[i];
            std::copy_n(write->data.begin(), bytes_of(i, write->data.size()),
                        image[member].begin() + static_cast<std::ptrdiff_t>(write->offset));
        }
        for (const auto& content : image) {
            hash =
                mixed(hash ^ std::hash<std::string_view>{}(std::string_view(
                                 reinterpret_cast<const char*>(content.data()), content.size())));
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
    // All torn at the same place.
    std::size_t longest = 0;
    for (const auto& one : pending) {
        longest = std::max(longest, one.write->data.size());
    }
    for (std::size_t kept = SECTOR_BYTES; pending.size() > 1 && kept < longest;
         kept += SECTOR_BYTES) {
        emit([&](std::size_t, std::size_t size) { return std::min(kept, size); });
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
