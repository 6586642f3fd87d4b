// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_engine.hpp"

#include <algorithm>
#include <stdexcept>

#include "uapi/perch_format.h"
#include "util/units.hpp"

namespace perch {

namespace {

/// A task's end shows in the status line before it is in the records.
constexpr double record_delay_seconds = 0.2;
/// Of a region that was being written when power was cut.
constexpr std::uint64_t torn_sectors = 8;

bool stripes_over_spans(RaidLevel level) {
    return level == RaidLevel::raid50 || level == RaidLevel::raid60;
}

RaidLevel level_of_span(RaidLevel level) {
    return level == RaidLevel::raid50   ? RaidLevel::raid5
           : level == RaidLevel::raid60 ? RaidLevel::raid6
                                        : level;
}

bool same_members(const SimTable& a, const SimTable& b) {
    return std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                      [](const auto& x, const auto& y) {
                          return x.present == y.present && (!x.present || x.instance == y.instance);
                      });
}

}  // namespace

SimEngine::Vd& SimEngine::at(const Uuid& vd) {
    const auto found = vds_.find(vd);
    if (found == vds_.end() || !found->second.top) {
        throw std::out_of_range("the VD does not run");
    }
    return found->second;
}

Result<SimEngine::Vd*> SimEngine::running_vd(const Uuid& vd) {
    const auto found = vds_.find(vd);
    if (found == vds_.end() || !found->second.top) {
        return fail(Errc::wrong_state, "the VD does not run");
    }
    return &found->second;
}

/// Devices over a drive that has been pulled do not hold it: when it comes back it is another one.
void SimEngine::hold(const SimTable& table, int change) {
    for (const auto& row : table.rows) {
        if (row.present && row.drive->present && row.drive->attachment == row.attachment) {
            row.drive->holders += change;
        }
    }
}

void SimEngine::note_wrong(Truth& truth, std::size_t span, std::uint64_t sectors) {
    truth.wrong.resize(std::max(truth.wrong.size(), span + 1));
    truth.wrong[span] = sectors;
}

// --- Tables.

Result<std::vector<SimTable>> SimEngine::tables_of(const EngineVd& vd) {
    const bool spans = stripes_over_spans(vd.shape.level);
    const auto rows = spans ? static_cast<std::size_t>(vd.shape.per_span) : vd.members.size();
    std::vector<SimTable> tables;
    for (std::size_t row = 0; row < vd.members.size(); ++row) {
        const auto& member = vd.members[row];
        if (row % rows == 0) {
            auto& table = tables.emplace_back();
            table.vd = vd.uuid;
            table.level = level_of_span(vd.shape.level);
            table.strip_bytes = vd.strip_bytes;
            table.array_bytes =
                spans ? vd.vd_bytes / static_cast<std::uint64_t>(vd.shape.spans()) : vd.vd_bytes;
        }
        auto& table = tables.back();
        auto& place = table.rows.emplace_back();
        if (member.role == MemberRole::absent) {
            continue;
        }
        place.present = true;
        place.rebuild = member.role == MemberRole::rebuild_fresh;
        place.instance = member.instance;
        place.drive = drives_.by_partition(member.partition);
        if (place.drive == nullptr) {
            return fail(Errc::not_found, "{}: no such block device", member.partition);
        }
        place.attachment = place.drive->attachment;
        if (table.level != RaidLevel::raid0) {
            place.metadata_offset =
                PERCH_FRONT_RESERVE_BYTES + member.extent(ExtentType::dm_raid).offset;
        }
        const auto& data = member.extent(ExtentType::data);
        place.data_offset = PERCH_FRONT_RESERVE_BYTES + data.offset;
        table.member_bytes = data.bytes;
    }
    return tables;
}

/// A member whose drive was out and is back: the device over what it was is still held by the
/// running table, and a new one cannot be made beside it.
Result<void> SimEngine::check_parts(const Vd& running, const std::vector<SimTable>& tables) const {
    for (std::size_t span = 0; span < running.devices.size() && span < tables.size(); ++span) {
        const auto& live = running.devices[span].live;
        for (std::size_t row = 0; live && row < tables[span].rows.size(); ++row) {
            const auto& place = tables[span].rows[row];
            if (place.present && live->table().rows[row].present && live->is_stale(row) &&
                live->table().rows[row].instance == place.instance) {
                return fail(Errc::in_use, "cannot remove perch_{}_data: it is in use",
                            place.instance.str());
            }
        }
    }
    return {};
}

Result<SimArray> SimEngine::load(SimTable table, std::size_t span) {
    const auto vd = table.vd;
    return SimArray::load(std::move(table), steps_).map([&](SimArray array) {
        const auto& truth = truths_[vd];
        if (array.wrong_sectors == 0 && span < truth.wrong.size()) {
            array.wrong_sectors = truth.wrong[span];
        }
        return array;
    });
}

// --- What runs.

Result<void> SimEngine::supports(EngineKind kind) {
    return kind == EngineKind::dm_raid
               ? Result<void>()
               : fail(Errc::unsupported, "the simulation runs VDs on engine dm-raid alone");
}

Result<void> SimEngine::apply(const EngineVd& vd) {
    advance();
    auto tables = tables_of(vd);
    if (!tables) {
        return tl::make_unexpected(tables.error());
    }
    const bool fresh = !vds_.contains(vd.uuid);
    auto& state = vds_[vd.uuid];
    if (fresh) {
        state.number = next_number_++;
        state.name = vd.name;
    }
    if (auto good = check_parts(state, *tables); !good) {
        return good;
    }
    state.config = vd;
    state.devices.resize(tables->size());
    for (std::size_t span = 0; span < tables->size(); ++span) {
        if (auto done = apply_device(state, span, std::move((*tables)[span])); !done) {
            if (fresh && span == 0) {
                vds_.erase(vd.uuid);
            }
            return done;
        }
    }
    if (!state.top) {
        if (stripes_over_spans(vd.shape.level)) {
            steps_.step();
        }
        state.top = true;
    }
    if (state.name != vd.name) {
        steps_.step();
        state.name = vd.name;
    }
    return {};
}

Result<void> SimEngine::apply_device(Vd& vd, std::size_t span, SimTable table) {
    auto& device = vd.devices[span];
    if (device.live && same_members(device.live->table(), table)) {
        return {};
    }
    if (device.live && table.level == RaidLevel::raid0) {
        return fail(Errc::wrong_state, "the members of a running RAID0 cannot be changed");
    }
    if (device.live && device.live->hangs()) {
        return fail(Errc::timeout, "{} hangs on one of its members", vd.name);
    }
    auto array = load(std::move(table), span);
    if (!array) {
        return tl::make_unexpected(array.error());
    }
    if (device.live) {
        return swap(vd, span, std::move(*array));
    }
    steps_.step();
    hold(array->table(), 1);
    device.live = std::move(*array);
    device.live->resume();
    return {};
}

/// As engine/dm: load, suspend, a look at the old table, resume.
Result<void> SimEngine::swap(Vd& vd, std::size_t span, SimArray next) {
    auto& device = vd.devices[span];
    steps_.step();
    hold(next.table(), 1);
    if (device.loaded) {
        hold(device.loaded->table(), -1);
    }
    device.loaded = std::move(next);
    steps_.step();
    device.suspended = true;
    device.live->suspend();
    const auto before = device.live->status();
    const auto& rows = device.loaded->table().rows;
    for (std::size_t row = 0; row < rows.size(); ++row) {
        if (rows[row].present && !rows[row].rebuild &&
            before.members[row] == MemberHealth::failed) {
            hold(device.loaded->table(), -1);
            device.loaded.reset();
            resume(vd, span);
            return fail(Errc::io, "{} lost another member while its table was changed", vd.name);
        }
    }
    steps_.step();
    resume(vd, span);
    return {};
}

void SimEngine::resume(Vd& vd, std::size_t span) {
    auto& device = vd.devices[span];
    device.suspended = false;
    if (device.loaded) {
        device.loaded->wrong_sectors = device.live->wrong_sectors;
        hold(device.live->table(), -1);
        device.live = std::move(device.loaded);
        device.loaded.reset();
        device.ended.reset();
    }
    device.live->resume();
}

Result<void> SimEngine::remove(Vd& vd, std::size_t span) {
    auto& device = vd.devices[span];
    if (!device.live) {
        return {};
    }
    if (device.live->hangs()) {
        return fail(Errc::timeout, "{} hangs on one of its members", vd.name);
    }
    steps_.step();
    device.live->suspend();
    note_wrong(truths_[vd.config.uuid], span, device.live->wrong_sectors);
    hold(device.live->table(), -1);
    if (device.loaded) {
        hold(device.loaded->table(), -1);
    }
    device = Device{};
    return {};
}

Result<void> SimEngine::stop(const Uuid& vd) {
    advance();
    const auto found = vds_.find(vd);
    if (found == vds_.end()) {
        return {};
    }
    auto& state = found->second;
    state.init.reset();
    if (state.open) {
        return fail(Errc::in_use, "{} is in use", state.name);
    }
    if (state.top && state.devices.size() > 1) {
        steps_.step();
        state.top = false;
    }
    for (std::size_t span = 0; span < state.devices.size(); ++span) {
        if (auto done = remove(state, span); !done) {
            return done;
        }
    }
    vds_.erase(found);
    return {};
}

Result<std::optional<EngineStatus>> SimEngine::status(const Uuid& vd) {
    advance();
    const auto found = vds_.find(vd);
    if (found == vds_.end() || !found->second.top) {
        return std::optional<EngineStatus>();
    }
    const auto& state = found->second;
    EngineStatus total;
    for (const auto& device : state.devices) {
        const auto part = device.live->status();
        total.members.insert(total.members.end(), part.members.begin(), part.members.end());
        total.mismatches += part.mismatches;
        total.suspended = total.suspended || device.suspended;
        total.task = total.task == EngineTask::none ? part.task : total.task;
    }
    for (const auto& device : state.devices) {
        const auto part = device.live->status();
        if (total.task == EngineTask::none || part.task == total.task) {
            total.task_done_sectors += part.task_done_sectors;
            total.task_total_sectors += part.task_total_sectors;
        }
    }
    // No name that a real device could have: who uses it is looked up by name.
    total.kernel_name = fmt::format("sim{}", state.number);
    total.kernel_device = "/dev/" + total.kernel_name;
    total.open_count = state.open ? 1 : 0;
    if (state.init) {
        const auto done = static_cast<std::uint64_t>(state.init->done_bytes);
        total.init = EngineInit{done, state.init->running};
        if (state.init->running) {
            total.task = EngineTask::init;
            total.task_done_sectors = done / sector_bytes;
            total.task_total_sectors = state.config.vd_bytes / sector_bytes;
        }
    }
    return std::optional(total);
}

Result<std::vector<Uuid>> SimEngine::running() {
    std::vector<Uuid> vds;
    for (const auto& [uuid, vd] : vds_) {
        if (vd.top) {
            vds.push_back(uuid);
        }
    }
    return vds;
}

Result<int> SimEngine::resume_suspended() {
    advance();
    int resumed = 0;
    for (auto& [uuid, vd] : vds_) {
        for (std::size_t span = 0; span < vd.devices.size(); ++span) {
            if (vd.devices[span].suspended) {
                steps_.step();
                resume(vd, span);
                ++resumed;
            }
        }
    }
    return resumed;
}

// --- Tasks.

Result<void> SimEngine::message(const Uuid& vd, EngineTask task) {
    advance();
    return running_vd(vd).and_then([&](Vd* state) -> Result<void> {
        for (auto& device : state->devices) {
            steps_.step();
            if (auto done = device.live->request(task); !done) {
                return done;
            }
        }
        return {};
    });
}

Result<void> SimEngine::request_resync(const Uuid& vd) {
    return message(vd, EngineTask::resync);
}

Result<void> SimEngine::start_check(const Uuid& vd) {
    return message(vd, EngineTask::check);
}

Result<void> SimEngine::start_init(const Uuid& vd, std::uint64_t from_bytes) {
    advance();
    return running_vd(vd).and_then([&](Vd* state) -> Result<void> {
        if (state->open) {
            return fail(Errc::in_use, "{} is in use", state->name);
        }
        steps_.step();
        state->init = Init{static_cast<double>(from_bytes), true};
        if (!write(vd)) {
            state->init->running = false;
        }
        return {};
    });
}

Result<void> SimEngine::stop_task(const Uuid& vd) {
    advance();
    const auto found = vds_.find(vd);
    if (found == vds_.end()) {
        return {};
    }
    auto& state = found->second;
    if (state.init) {
        steps_.step();
        state.init.reset();
        idle(vd);
        return {};
    }
    for (auto& device : state.devices) {
        if (device.live && device.live->task() == EngineTask::check) {
            steps_.step();
            device.live->stop_check();
            device.live->record_result();
        }
    }
    return {};
}

Result<void> SimEngine::zero(const Uuid& vd, std::uint64_t offset, std::uint64_t bytes) {
    advance();
    return running_vd(vd).and_then([&](Vd* state) -> Result<void> {
        if (state->open || (state->init && state->init->running)) {
            return fail(Errc::in_use, "{} is in use", state->name);
        }
        if (offset + bytes > state->config.vd_bytes) {
            return fail(Errc::io, "zeroing {} at {}: beyond the end", format_size(bytes),
                        format_size(offset));
        }
        steps_.step();
        if (!write(vd)) {
            return fail(Errc::io, "zeroing {} at {}: input/output error", format_size(bytes),
                        format_size(offset));
        }
        idle(vd);
        return {};
    });
}

// --- Records.

Result<std::optional<MemberRecord>> SimEngine::decode_record(
    std::span<const std::byte> metadata) const {
    return decode_sim_record(metadata).map([](const std::optional<SimRecord>& record) {
        return record ? std::optional(member_record(*record)) : std::nullopt;
    });
}

Result<Bytes> SimEngine::rewrite_record(std::span<const std::byte> metadata, std::uint64_t events,
                                        const std::vector<int>& failed_rows) const {
    return decode_sim_record(metadata).and_then(
        [&](std::optional<SimRecord> record) -> Result<Bytes> {
            if (!record || metadata.size() < sizeof(SimPage)) {
                return fail(Errc::corrupt, "no dm-raid superblock to rewrite");
            }
            record->events = events;
            record->failed.reset();
            for (const int row : failed_rows) {
                record->failed.set(static_cast<std::size_t>(row));
            }
            auto bytes = encode_sim_record(*record);
            bytes.resize(sizeof(SimPage));  // the bitmap stays
            return bytes;
        });
}

// --- The machine around it.

bool SimEngine::write(const Uuid& vd) {
    advance();
    auto& state = at(vd);
    auto& truth = truths_[vd];
    const auto generation = ++truth.attempted;
    bool acknowledged = true;
    for (auto& device : state.devices) {
        acknowledged = device.live->write(generation) && acknowledged;
    }
    if (acknowledged) {
        truth.acknowledged = generation;
    }
    return acknowledged;
}

void SimEngine::idle(const Uuid& vd) {
    advance();
    for (auto& device : at(vd).devices) {
        device.live->idle();
    }
}

void SimEngine::fail_member(const Uuid& vd, std::size_t row) {
    advance();
    auto& state = at(vd);
    const auto rows = state.devices.front().live->table().rows.size();
    state.devices.at(row / rows).live->fail(row % rows);
}

void SimEngine::finish(const Uuid& vd, EngineTask task) {
    for (auto& device : at(vd).devices) {
        if (device.live->task() == task && !device.suspended) {
            device.live->look_after();
            if (device.live->active()) {
                device.live->advance(device.live->remaining_sectors());
            }
            device.ended.reset();
            device.live->record_result();
        }
    }
}

void SimEngine::finish_init(const Uuid& vd) {
    auto& state = at(vd);
    if (state.init && state.init->running) {
        state.init = Init{static_cast<double>(state.config.vd_bytes), false};
        idle(vd);
    }
}

int SimEngine::finish_all(EngineTask task) {
    std::vector<Uuid> busy;
    for (const auto& [uuid, vd] : vds_) {
        const bool runs = std::any_of(vd.devices.begin(), vd.devices.end(), [&](const auto& row) {
            return row.live && row.live->task() == task;
        });
        if (vd.top && (task == EngineTask::init ? vd.init && vd.init->running : runs)) {
            busy.push_back(uuid);
        }
    }
    for (const auto& uuid : busy) {
        if (task == EngineTask::init) {
            finish_init(uuid);
        } else {
            finish(uuid, task);
        }
    }
    return static_cast<int>(busy.size());
}

void SimEngine::kill_program() {
    for (auto& [uuid, vd] : vds_) {
        if (vd.init) {
            vd.init.reset();
            idle(uuid);
        }
    }
}

void SimEngine::power_cut() {
    for (const auto& [uuid, vd] : vds_) {
        for (std::size_t span = 0; span < vd.devices.size(); ++span) {
            if (const auto& live = vd.devices[span].live) {
                note_wrong(truths_[uuid], span,
                           live->wrong_sectors + (live->busy() ? torn_sectors : 0));
            }
        }
    }
    vds_.clear();
    for (const auto& drive : drives_.all()) {
        drive->holders = 0;
    }
}

void SimEngine::shut_down() {
    std::vector<Uuid> vds;
    for (auto& [uuid, vd] : vds_) {
        vd.open = false;
        vds.push_back(uuid);
    }
    for (const auto& vd : vds) {
        // One that hangs is left as a power cut leaves it.
        [[maybe_unused]] const auto ignored = stop(vd);
    }
}

struct SimEngine::Saved {
    std::map<Uuid, Vd> vds;
    std::map<Uuid, Truth> truths;
};

std::shared_ptr<const SimEngine::Saved> SimEngine::save() const {
    return std::make_shared<const Saved>(Saved{vds_, truths_});
}

void SimEngine::restore(const Saved& saved) {
    vds_ = saved.vds;
    truths_ = saved.truths;
}

std::optional<Uuid> SimEngine::find(const std::string& name) const {
    for (const auto& [uuid, vd] : vds_) {
        if (vd.top && vd.name == name) {
            return uuid;
        }
    }
    return std::nullopt;
}

std::vector<std::size_t> SimEngine::wrongly_trusted(const Uuid& vd) const {
    std::vector<std::size_t> rows;
    const auto found = vds_.find(vd);
    const auto truth = truths_.find(vd);
    if (found == vds_.end() || truth == truths_.end()) {
        return rows;
    }
    std::size_t first = 0;
    for (const auto& device : found->second.devices) {
        if (device.live) {
            for (const auto row : device.live->wrongly_trusted(truth->second.acknowledged)) {
                rows.push_back(first + row);
            }
            first += device.live->table().rows.size();
        }
    }
    return rows;
}

std::uint64_t SimEngine::wrong_sectors(const Uuid& vd) const {
    std::uint64_t sum = 0;
    if (const auto found = vds_.find(vd); found != vds_.end()) {
        for (const auto& device : found->second.devices) {
            sum += device.live ? device.live->wrong_sectors : 0;
        }
        return sum;
    }
    if (const auto truth = truths_.find(vd); truth != truths_.end()) {
        for (const auto sectors : truth->second.wrong) {
            sum += sectors;
        }
    }
    return sum;
}

// --- Time.

SimEngine::Loads SimEngine::loads() const {
    Loads loads;
    for (const auto& [uuid, vd] : vds_) {
        for (const auto& device : vd.devices) {
            const bool init = vd.init && vd.init->running;
            if (device.live && (device.live->active() || init)) {
                for (const auto& row : device.live->table().rows) {
                    if (row.present) {
                        ++loads[row.drive];
                    }
                }
            }
        }
    }
    return loads;
}

/// As fast as the slowest drive, which is shared by all that runs on it.
double SimEngine::bytes_per_second(const SimArray& array, const Loads& loads) {
    if (array.hangs()) {
        return 0;
    }
    std::optional<double> slowest;
    const auto status = array.status();
    for (std::size_t row = 0; row < status.members.size(); ++row) {
        const auto& place = array.table().rows[row];
        if (status.members[row] != MemberHealth::in_sync &&
            status.members[row] != MemberHealth::rebuilding) {
            continue;
        }
        const auto load = loads.find(place.drive);
        const auto share = static_cast<double>(place.drive->bytes_per_second) /
                           (load == loads.end() ? 1 : std::max(load->second, 1));
        slowest = std::min(slowest.value_or(share), share);
    }
    return slowest.value_or(0);
}

double SimEngine::init_bytes_per_second(const Vd& vd, const Loads& loads) {
    std::optional<double> slowest;
    for (const auto& device : vd.devices) {
        const auto rate = bytes_per_second(*device.live, loads);
        slowest = std::min(slowest.value_or(rate), rate);
    }
    return slowest.value_or(0) * vd.config.shape.data_members();
}

/// Until the first running task ends, or the record of one that has ended is due.
std::optional<double> SimEngine::seconds_to_end(const Loads& loads) const {
    std::optional<double> first;
    const auto note = [&](double seconds) {
        first = std::max(0.0, std::min(first.value_or(seconds), seconds));
    };
    for (const auto& [uuid, vd] : vds_) {
        for (const auto& device : vd.devices) {
            if (device.ended) {
                note(*device.ended + record_delay_seconds - last_);
            }
            if (!device.live || !device.live->active()) {
                continue;
            }
            if (const auto rate = bytes_per_second(*device.live, loads); rate > 0) {
                note(static_cast<double>(device.live->remaining_sectors() * sector_bytes) / rate);
            }
        }
        if (vd.init && vd.init->running) {
            if (const auto rate = init_bytes_per_second(vd, loads); rate > 0) {
                note((static_cast<double>(vd.config.vd_bytes) - vd.init->done_bytes) / rate);
            }
        }
    }
    return first;
}

std::optional<double> SimEngine::next_end() {
    advance();
    return seconds_to_end(loads());
}

/// What does not take time: members that a task finds gone, records that are due.
void SimEngine::look_after() {
    for (auto& [uuid, vd] : vds_) {
        for (auto& device : vd.devices) {
            if (!device.live) {
                continue;
            }
            device.live->look_after();
            if (!device.live->result_unrecorded()) {
                device.ended.reset();
            } else if (device.ended && last_ >= *device.ended + record_delay_seconds) {
                device.ended.reset();
                device.live->record_result();
            }
        }
    }
}

void SimEngine::advance() {
    const auto now = now_ ? now_() : last_;
    look_after();
    if (now > last_) {
        advance_by(now - last_);
    }
}

void SimEngine::advance_by(double seconds) {
    constexpr double shortest = 1e-6;
    const auto until = last_ + seconds;
    while (last_ < until) {
        const auto load = loads();
        const auto end = seconds_to_end(load);
        const auto step = std::min(until - last_, std::max(end.value_or(seconds), shortest));
        last_ = step >= until - last_ ? until : last_ + step;
        for (auto& [uuid, vd] : vds_) {
            for (auto& device : vd.devices) {
                if (!device.live || !device.live->active()) {
                    continue;
                }
                const auto sectors = device.carry + bytes_per_second(*device.live, load) * step /
                                                        static_cast<double>(sector_bytes);
                // Rounding must not leave the last sector for ever.
                const auto whole = static_cast<std::uint64_t>(sectors + 0.01);
                device.carry = std::max(0.0, sectors - static_cast<double>(whole));
                device.live->advance(whole);
                if (device.live->result_unrecorded()) {
                    device.ended = last_;
                    device.carry = 0;
                }
            }
            if (vd.init && vd.init->running) {
                auto& init = *vd.init;
                const auto size = static_cast<double>(vd.config.vd_bytes);
                init.done_bytes =
                    std::min(size, init.done_bytes + init_bytes_per_second(vd, load) * step);
                if (init.done_bytes + 1 >= size) {
                    init = Init{size, false};
                    for (auto& device : vd.devices) {
                        device.live->idle();
                    }
                }
            }
        }
        look_after();
    }
}

}  // namespace perch
