// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/core_world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core_machine.hpp"

namespace perch::test {

namespace {

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

std::string describe(const vd_request& asked) {
    constexpr std::array kinds{"none", "read", "write", "flush", "stop"};
    return fmt::format("{} {}+{}{}", kinds.at(asked.kind), asked.sector, asked.sectors,
                       asked.fua ? " FUA" : "");
}

}  // namespace

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
        if (self.stopped_) {
            throw Violation("stop: a command is begun after it");
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
        self.hold_back();
    }
    static void end_request(CoreWorld& self, vd_request* asked, int error) {
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
    static void copy_data(CoreWorld& self, vd_request* asked, std::uint32_t offset, void* buffer,
                          std::uint32_t bytes) {
        check_unlocked(self);
        const auto host = std::find_if(self.hosts_.begin(), self.hosts_.end(),
                                       [&](const auto& one) { return &one->asked == asked; });
        if (host == self.hosts_.end()) {
            throw Violation("request: its data is used after its end");
        }
        auto* data = (*host)->data.data() + offset;
        if (asked->kind == REQUEST_WRITE) {
            self.change_buffer(**host, offset / SECTOR_BYTES, bytes / SECTOR_BYTES);
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
    static void complete(env* base, vd_request* asked, int error) {
        end_request(world(base), asked, error);
        Fiber::pause();
    }
    static void copy(env* base, vd_request* asked, std::uint32_t offset, void* buffer,
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
    target.map_page = &live.map_page;
    target.bad_page = &live.bad_page;
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
    return vd_is_resynced(&live_->target);
}

// --- the host

void CoreWorld::begin(std::unique_ptr<Host> host) {
    host->begun = ++now_;
    ++now_;  // nothing that follows is at the same time
    auto& asked = host->asked;
    trace("{} host: {} as {}{}\n", now_, describe(asked), host->id, host->direct ? ", direct" : "");
    hosts_.push_back(std::move(host));
    note_losses();
    if (hosts_.back()->direct) {
        live_->direct.push_back(hosts_.back().get());
        hold_back();
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
    host->copies.resize(sectors);
    ++now_;
    for (std::uint32_t i = 0; i < sectors; ++i) {
        fill_sector(&host->data[std::size_t{i} * SECTOR_BYTES], host->id, sector + i);
        histories_.at(sector + i).push_back({host->id, now_, never, never});
    }
    begin(std::move(host));
}

/// The core takes these sectors of a write: what it took before is not there any more.
void CoreWorld::change_buffer(Host& host, std::uint32_t first, std::uint32_t sectors) {
    for (auto i = first; i < first + sectors; ++i) {
        auto& copies = host.copies[i];
        if (copies.empty()) {
            copies.push_back(host.id);
            continue;
        }
        copies.push_back(next_id_++);
        const auto sector = host.asked.sector + i;
        fill_sector(&host.data[std::size_t{i} * SECTOR_BYTES], copies.back(), sector);
        histories_.at(sector).push_back({copies.back(), now_, never, never});
    }
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

void CoreWorld::end_task() {
    task_end(&live_->target);
}

void CoreWorld::end(Host& host, int error) {
    const auto& asked = host.asked;
    trace("{} host: {} as {} is answered {}\n", now_, describe(asked), host.id, error);
    if (asked.kind == REQUEST_STOP) {
        stopped_ = true;
        if (!live_->commands.empty() || !live_->held.empty()) {
            throw Violation("stop: it is answered while a command is under way");
        }
    }
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
        } else if (!host.excused && !excusable(asked)) {
            throw Violation("error: a request fails, although nothing is lost for good");
        }
        return;
    }
    for (std::uint32_t i = 0; i < asked.sectors; ++i) {
        if (asked.kind == REQUEST_READ) {
            check_sector(asked.sector + i, &host.data[std::size_t{i} * SECTOR_BYTES], host.begun);
            continue;
        }
        // What was lost while the write was under way may have been lost after it was written.
        if (const auto lost = lost_.find(asked.sector + i);
            lost != lost_.end() && lost->second < host.begun) {
            lost_.erase(lost);
        }
        const auto& copies = host.copies[i];
        for (auto& version : histories_[asked.sector + i]) {
            const auto copy = std::find(copies.begin(), copies.end(), version.id);
            if (copy == copies.end()) {
                continue;
            }
            // One that was taken before the last one is overwritten by it.
            const bool last = copy + 1 == copies.end();
            version.acknowledged = last ? now_ : version.begun;
            version.durable = last && asked.fua ? now_ : never;
        }
    }
    if (asked.kind == REQUEST_FLUSH || asked.kind == REQUEST_STOP) {
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
    answer(member);
    suspects_.insert(member);
    faults_[member].pulled = true;
    media_[member].pull();
    note_losses();
    vd_member_lost(&live_->target, member);
}

void CoreWorld::fail_all_writes(unsigned member) {
    suspects_.insert(member);
    faults_[member].writes = UINT32_MAX;
    note_losses();
}

void CoreWorld::fail_reads(unsigned member, unsigned number) {
    suspects_.insert(member);
    faults_[member].reads = number;
    note_losses();
}

void CoreWorld::fail_a_flush(unsigned member) {
    suspects_.insert(member);
    faults_[member].flushes = 1;
    note_losses();
}

void CoreWorld::make_unreadable(unsigned member, std::uint64_t sector) {
    trace("{} unreadable: member {} at {}\n", now_, member, sector);
    unsteady_.insert({member / shape_.per_span, sector / live_->target.geometry.window});
    media_[member].make_unreadable(data_offset / SECTOR_BYTES + sector);
    note_losses();
}

void CoreWorld::flip(unsigned member, std::uint64_t sector) {
    media_[member].flip(data_offset + sector * SECTOR_BYTES + 77, 4);
}

void CoreWorld::damage_superblock(unsigned member) {
    media_[member].flip(live_->target.member[member].copy * superblock_bytes + 9000, 4);
    superblock_rots_ = true;
}

void CoreWorld::hang(unsigned member) {
    trace("{} member {} hangs\n", now_, member);
    hanging_.insert(member);
    hold_back();
}

void CoreWorld::answer(unsigned member) {
    if (hanging_.erase(member) == 0) {
        return;
    }
    trace("{} member {} answers again\n", now_, member);
    auto& live = *live_;
    live.commands.insert(live.commands.end(), live.held.begin(), live.held.end());
    live.direct.insert(live.direct.end(), live.direct_held.begin(), live.direct_held.end());
    live.held.clear();
    live.direct_held.clear();
    hold_back();
}

void CoreWorld::hold_back() {
    if (hanging_.empty()) {
        return;
    }
    const auto move = [](auto& from, auto& to, const auto& answers) {
        const auto held = std::stable_partition(from.begin(), from.end(), answers);
        to.insert(to.end(), held, from.end());
        from.erase(held, from.end());
    };
    move(live_->commands, live_->held,
         [&](const auto& one) { return !hanging_.contains(one.command->member); });
    move(live_->direct, live_->direct_held, [&](const Host* host) {
        return std::none_of(host->places.begin(), host->places.end(),
                            [&](const auto& place) { return hanging_.contains(place.member); });
    });
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

std::size_t CoreWorld::choice_with_late_member(unsigned member) const {
    return choice_with([&](const io& command) { return command.member == member; });
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

void CoreWorld::settle_beside_hanging() {
    for (std::size_t steps = 0; choices() > 0; ++steps) {
        if (steps > 1'000'000) {
            throw Violation("liveness: it never comes to rest");
        }
        step_whole();
    }
}

void CoreWorld::settle() {
    while (!hanging_.empty()) {
        answer(*hanging_.begin());
    }
    settle_beside_hanging();
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

}  // namespace perch::test
