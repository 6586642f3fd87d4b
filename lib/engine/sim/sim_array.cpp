// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/sim/sim_array.hpp"

#include <algorithm>

#include "layout/raid_level.hpp"
#include "util/units.hpp"

namespace perch {

namespace {

constexpr std::uint64_t bitmap_page = sim_page_bytes;  ///< in the metadata extent
/// What md rebuilds of a member that it had before: the marked regions, whatever their number.
constexpr std::uint64_t partial_sectors = 64 * MiB / sector_bytes;

/// What a host write leaves on a member, at the start of its data extent.
struct Stamp {
    std::array<char, 16> magic;
    Uuid vd;
    std::uint64_t generation;
};
constexpr std::array<char, 16> stamp_magic{"SIMULATED DATA"};

struct KernelLevel {
    std::uint32_t level;
    std::uint32_t layout;
};

KernelLevel kernel_level(RaidLevel level) {
    constexpr std::uint32_t near_2 = 0x102;
    constexpr std::uint32_t left_symmetric = 2;
    constexpr std::uint32_t rotating_n_continue = 10;
    switch (level) {
        case RaidLevel::raid1:
            return {1, 0};
        case RaidLevel::raid10:
            return {10, near_2};
        case RaidLevel::raid6:
            return {6, rotating_n_continue};
        default:
            return {5, left_symmetric};
    }
}

tl::unexpected<Error> refuse(std::string_view reason) {
    return perch::fail(Errc::io, "the kernel refuses the table: {}", reason);
}

}  // namespace

bool SimArray::has_parity() const {
    return perch::has_parity(table_.level);
}

bool SimArray::takes_part(std::size_t row) const {
    return table_.rows[row].present && !legs_[row].faulty && !legs_[row].out;
}

bool SimArray::is_stale(std::size_t row) const {
    const auto& place = table_.rows[row];
    return place.present && (!place.drive->present || place.drive->attachment != place.attachment);
}

bool SimArray::works(std::size_t row) const {
    const auto& place = table_.rows[row];
    return takes_part(row) && !is_stale(row) &&
           place.drive->device->check_write(place.data_offset, sim_page_bytes).has_value() &&
           place.drive->device->check_read(place.data_offset, sim_page_bytes).has_value();
}

bool SimArray::hangs() const {
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (takes_part(row) && !is_stale(row) && table_.rows[row].drive->device->hung) {
            return true;
        }
    }
    return false;
}

std::size_t SimArray::degraded() const {
    const auto lost = lost_in_sync();
    return static_cast<std::size_t>(std::count(lost.begin(), lost.end(), true));
}

std::vector<bool> SimArray::lost_in_sync() const {
    std::vector<bool> lost;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        lost.push_back(!takes_part(row) || !legs_[row].in_sync);
    }
    return lost;
}

namespace {

RaidShape shape_of(const SimTable& table) {
    const auto rows = static_cast<int>(table.rows.size());
    return {table.level, rows, table.level == RaidLevel::raid10 ? 2 : rows};
}

}  // namespace

bool SimArray::copies_without(std::size_t row) const {
    return survives_loss_of(shape_of(table_), lost_in_sync(), row);
}

bool SimArray::readable_now() const {
    auto lost = lost_in_sync();
    for (std::size_t row = 0; row < lost.size(); ++row) {
        lost[row] = lost[row] || !works(row);
    }
    return readable(shape_of(table_), lost);
}

std::uint64_t SimArray::total_sectors() const {
    return table_.member_bytes / sector_bytes;
}

// --- What raid_ctr does.

Result<SimArray> SimArray::load(SimTable table, StepCounter& steps) {
    SimArray array(std::move(table), steps);
    for (const auto& row : array.table_.rows) {
        array.legs_.emplace_back();
        if (row.present && row.drive->present && row.drive->device->hung) {
            return perch::fail(Errc::timeout, "{} does not answer", row.drive->identity.path());
        }
    }
    if (array.table_.level == RaidLevel::raid0) {
        if (std::any_of(array.table_.rows.begin(), array.table_.rows.end(),
                        [](const auto& row) { return !row.present; })) {
            return refuse("a striped device without one of its members");
        }
        return array;
    }
    return array.read_records()
        .and_then([&] { return array.validate(); })
        .and_then([&] { return array.run(); })
        .map([&] { return std::move(array); });
}

Result<void> SimArray::read_records() {
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        const auto& place = table_.rows[row];
        auto& leg = legs_[row];
        if (!place.present) {
            continue;
        }
        leg.in_sync = !place.rebuild;
        leg.recovery_offset = place.rebuild ? 0 : max_sector;
        const auto bytes = is_stale(row)
                               ? perch::fail(Errc::io, "it is gone")
                               : place.drive->device->read(place.metadata_offset, sim_record_bytes);
        if (!bytes) {
            leg.out = true;
            continue;
        }
        const auto record = decode_sim_record(*bytes);
        leg.first_use = place.rebuild || !record || !*record;
    }
    return {};
}

/// super_load's choice and super_validate of every member by it.
Result<void> SimArray::validate() {
    std::vector<std::optional<SimRecord>> records(legs_.size());
    std::optional<std::size_t> freshest;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        const auto& place = table_.rows[row];
        if (!place.present || legs_[row].out) {
            continue;
        }
        if (legs_[row].first_use) {
            freshest = freshest ? freshest : row;
            continue;
        }
        records[row] = **decode_sim_record(
            *place.drive->device->read(place.metadata_offset, sim_record_bytes));
        if (!freshest || !records[*freshest] || records[row]->events > records[*freshest]->events) {
            freshest = row;
        }
    }
    if (!freshest) {
        return refuse("no member's superblock can be read");
    }
    const auto& first = records[*freshest];
    events_ = first && first->events > 0 ? first->events : 1;
    resync_offset_ = first ? first->resync_offset : max_sector;
    if (auto good = validate_counts(); !good) {
        return good;
    }
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (records[row] && has_parity() && records[row]->position != row) {
            return refuse("Cannot change device positions in raid set");
        }
    }
    if (!enough_redundancy()) {
        return refuse("Insufficient redundancy to activate array");
    }
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        auto& leg = legs_[row];
        if (!records[row]) {
            continue;
        }
        leg.recovery_offset = records[row]->recovery_offset;
        leg.in_sync = leg.recovery_offset == max_sector;
        if (first && first->failed[records[row]->position]) {
            leg.recovery_offset = 0;
            leg.in_sync = false;
            leg.partial = true;
        }
    }
    const bool rebuilds = std::any_of(table_.rows.begin(), table_.rows.end(),
                                      [](const auto& row) { return row.rebuild; });
    if (first_start_) {
        constexpr std::uint64_t whatever_lay_there = 1024;
        wrong_sectors = whatever_lay_there;
        resync_offset_ = 0;
        new_records_ = true;
    } else if (rebuilds) {
        // Whatever resync was pending is forgotten.
        resync_offset_ = max_sector;
        new_records_ = true;
    }
    return {};
}

/// super_init_validation: which members may be new beside which.
Result<void> SimArray::validate_counts() {
    std::size_t fresh = 0;
    std::size_t rebuilds = 0;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (table_.rows[row].present) {
            fresh += legs_[row].first_use ? 1 : 0;
            rebuilds += table_.rows[row].rebuild ? 1 : 0;
        }
    }
    if (fresh == legs_.size()) {
        first_start_ = true;
    } else if (rebuilds == 0 && fresh > 0) {
        return refuse(
            "New device injected into existing raid set without 'delta_disks' or 'rebuild' "
            "parameter specified");
    } else if (rebuilds != fresh) {
        return refuse(
            fmt::format("{} 'rebuild' devices cannot be injected into a raid set with "
                        "{} other first-time devices",
                        rebuilds, fresh));
    }
    return {};
}

/// validate_raid_redundancy: counts what the table says, before the records are looked at.
bool SimArray::enough_redundancy() const {
    std::vector<bool> lost;
    for (const auto& row : table_.rows) {
        lost.push_back(!row.present || row.rebuild);
    }
    return readable(shape_of(table_), lost);
}

/// The personality's own checks.
Result<void> SimArray::run() {
    if (!readable(shape_of(table_), lost_in_sync())) {
        return refuse(
            fmt::format("not enough operational devices ({}/{} failed)", degraded(), legs_.size()));
    }
    if (has_parity() && degraded() > 0 && resync_offset_ != max_sector) {
        return refuse("cannot start dirty degraded array");
    }
    if (table_.level == RaidLevel::raid1 && degraded() + 1 == legs_.size()) {
        resync_offset_ = max_sector;
    }
    return {};
}

// --- Resume and suspend.

void SimArray::load_bitmap() {
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        const auto& place = table_.rows[row];
        if (!takes_part(row) || !legs_[row].in_sync || is_stale(row)) {
            continue;
        }
        const auto record =
            place.drive->device->read(place.metadata_offset, sim_record_bytes)
                .and_then([](const Bytes& bytes) { return decode_sim_record(bytes); });
        if (record && *record) {
            dirty_ = (*record)->dirty;
            break;
        }
    }
    if (!dirty_) {
        return;
    }
    if (degraded() > 0) {
        needed_ = true;
    } else {
        // "No need to keep dirty bits": md's daemon clears them in seconds.
        dirty_ = false;
        write_bitmap();
    }
}

void SimArray::resume() {
    if (!resumed_) {
        resumed_ = true;
        if (table_.level != RaidLevel::raid0) {
            dirty_ = needed_ = first_start_;
            if (new_records_) {
                update_records(false);
            }
            if (!first_start_) {
                load_bitmap();
            }
        }
    } else if (frozen_) {
        for (std::size_t row = 0; row < legs_.size(); ++row) {
            auto& leg = legs_[row];
            const auto& place = table_.rows[row];
            if (place.present && leg.faulty && !is_stale(row) &&
                place.drive->device->check_read(place.metadata_offset, sim_page_bytes)) {
                leg.faulty = false;
                leg.in_sync = false;
                leg.partial = true;
                leg.recovery_offset = 0;
            }
        }
    }
    frozen_ = false;
    clean_ = false;
    check_recovery();
}

void SimArray::suspend() {
    if (frozen_) {
        return;
    }
    frozen_ = true;
    interrupt();
    if (table_.level == RaidLevel::raid0) {
        return;
    }
    busy_ = false;
    clear_bits();
    if (!clean_ || unrecorded_) {
        clean_ = true;
        update_records(false);
    }
}

// --- Records.

SimRecord SimArray::record_of(std::size_t row) const {
    SimRecord record;
    record.devices = static_cast<std::uint32_t>(legs_.size());
    record.position = static_cast<std::uint32_t>(row);
    record.events = events_;
    for (std::size_t other = 0; other < legs_.size(); ++other) {
        record.failed[other] = !takes_part(other);
    }
    record.recovery_offset = legs_[row].in_sync ? max_sector : legs_[row].recovery_offset;
    record.resync_offset = resync_offset_;
    const auto kernel = kernel_level(table_.level);
    record.level = kernel.level;
    record.layout = kernel.layout;
    record.strip_sectors = static_cast<std::uint32_t>(table_.strip_bytes / sector_bytes);
    record.array_sectors = table_.array_bytes / sector_bytes;
    record.member_sectors = total_sectors();
    record.dirty = dirty_;
    return record;
}

/// Writes a part of every member's record beside each other; returns who could not take it.
std::vector<std::size_t> SimArray::write_pages(std::uint64_t from, std::uint64_t length) {
    std::vector<std::size_t> failed;
    std::vector<std::unique_ptr<StagedDevice>> jobs;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        // md leaves a member alone that is to be rebuilt in part.
        if (!takes_part(row) || legs_[row].partial) {
            continue;
        }
        const auto& place = table_.rows[row];
        auto& staged = *jobs.emplace_back(std::make_unique<StagedDevice>(*place.drive->device));
        const auto bytes = encode_sim_record(record_of(row));
        if (is_stale(row) ||
            !staged.write(place.metadata_offset + from, std::span(bytes).subspan(from, length))) {
            failed.push_back(row);
        }
    }
    commit_staged(*steps_, jobs, Stepper::kernel);
    return failed;
}

/// md_update_sb. A member that cannot be written fails, and the others are written again with that.
void SimArray::update_records(bool only_clean) {
    if (table_.level == RaidLevel::raid0) {
        return;
    }
    if (hangs()) {
        waiting_ = true;
        return;
    }
    waiting_ = false;
    unrecorded_ = false;
    for (bool again = true; again; only_clean = false) {
        const bool transition = only_clean && degraded() == 0;
        if (transition && clean_ && resync_offset_ == max_sector && can_decrease_ && events_ != 1) {
            --events_;
            can_decrease_ = false;
        } else {
            ++events_;
            can_decrease_ = transition;
        }
        again = false;
        const bool was_broken = broken_;
        for (const auto row : write_pages(0, sim_record_bytes)) {
            again = mark_failed(row) || again;
        }
        if (again || broken_ != was_broken) {
            interrupt();
        }
    }
    check_recovery();
}

void SimArray::write_bitmap() {
    if (!hangs()) {
        mark_all_failed(write_pages(bitmap_page, sim_page_bytes));
    }
}

void SimArray::clear_bits() {
    if (dirty_ && !needed_) {
        dirty_ = false;
        write_bitmap();
    }
}

bool SimArray::mark_failed(std::size_t row) {
    if (!takes_part(row)) {
        return false;
    }
    auto& leg = legs_[row];
    const bool mirrors = table_.level == RaidLevel::raid1 || table_.level == RaidLevel::raid10;
    if (mirrors && leg.in_sync && !copies_without(row)) {
        broken_ = true;
        return false;
    }
    leg.faulty = true;
    leg.in_sync = false;
    broken_ = broken_ || !readable(shape_of(table_), lost_in_sync());
    return true;
}

void SimArray::mark_all_failed(const std::vector<std::size_t>& rows) {
    const bool was_broken = broken_;
    bool changed = false;
    for (const auto row : rows) {
        changed = mark_failed(row) || changed;
    }
    if (changed || broken_ != was_broken) {
        interrupt();
    }
    if (changed) {
        update_records(false);
    }
}

void SimArray::fail(std::size_t row) {
    mark_all_failed({row});
}

// --- Host I/O.

bool SimArray::write(std::uint64_t generation) {
    if (frozen_ || hangs()) {
        return false;
    }
    if (clean_) {
        clean_ = false;
        update_records(true);
    }
    if (table_.level != RaidLevel::raid0 && !dirty_) {
        dirty_ = true;
        write_bitmap();
    }
    busy_ = true;
    std::vector<std::size_t> failed;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (takes_part(row) && !works(row)) {
            failed.push_back(row);
        }
    }
    mark_all_failed(failed);
    needed_ = needed_ || (dirty_ && degraded() > 0);
    if (broken_ || !readable_now()) {
        return false;
    }
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (works(row)) {
            stamp(row, generation);
        }
    }
    return true;
}

void SimArray::idle() {
    if (frozen_ || hangs() || table_.level == RaidLevel::raid0) {
        return;
    }
    if (!clean_) {
        clean_ = true;
        update_records(true);
    }
    busy_ = false;
    clear_bits();
}

void SimArray::stamp(std::size_t row, std::uint64_t generation) const {
    const auto& place = table_.rows[row];
    const Stamp raw{stamp_magic, table_.vd, generation};
    Bytes bytes(sim_page_bytes);
    std::memcpy(bytes.data(), &raw, sizeof(raw));
    place.drive->device->store(place.data_offset, bytes);
}

std::uint64_t SimArray::stamp_of(std::size_t row) const {
    const auto& place = table_.rows[row];
    const auto bytes = place.drive->device->read(place.data_offset, sim_page_bytes);
    if (!bytes) {
        return 0;
    }
    const auto raw = perch::load<Stamp>(*bytes);
    return raw.magic == stamp_magic && raw.vd == table_.vd ? raw.generation : 0;
}

std::vector<std::size_t> SimArray::wrongly_trusted(std::uint64_t generation) const {
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (legs_[row].in_sync && works(row) && stamp_of(row) < generation) {
            rows.push_back(row);
        }
    }
    return rows;
}

// --- Tasks.

bool SimArray::active() const {
    return task_ != EngineTask::none && !frozen_ && !broken_ && !hangs();
}

std::uint64_t SimArray::remaining_sectors() const {
    return total_sectors() - std::min(position_, total_sectors());
}

/// What a stopped task had reached is kept, and recorded with the next record.
void SimArray::interrupt() {
    if (task_ == EngineTask::rebuild) {
        for (std::size_t row = 0; row < legs_.size(); ++row) {
            if (takes_part(row) && !legs_[row].in_sync && !legs_[row].partial) {
                legs_[row].recovery_offset = std::max(legs_[row].recovery_offset, position_);
            }
        }
    } else if (task_ == EngineTask::resync && !requested_) {
        resync_offset_ = position_;
    }
    unrecorded_ = unrecorded_ || task_ != EngineTask::none;
    task_ = EngineTask::none;
    requested_ = false;
}

/// md_check_recovery: what there is to do by itself.
void SimArray::check_recovery() {
    if (!resumed_ || frozen_ || broken_ || task_ != EngineTask::none ||
        table_.level == RaidLevel::raid0) {
        return;
    }
    std::optional<std::uint64_t> from;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        const auto& leg = legs_[row];
        if (takes_part(row) && !leg.in_sync) {
            const auto start = leg.partial
                                   ? total_sectors() - std::min(partial_sectors, total_sectors())
                                   : leg.recovery_offset;
            from = std::min(from.value_or(start), start);
        }
    }
    if (from) {
        task_ = EngineTask::rebuild;
        position_ = *from;
        return;
    }
    if (resync_offset_ == max_sector) {
        return;
    }
    auto lost = lost_in_sync();
    if (degraded() > 0 && survives_more(shape_of(table_), lost) <= 0 &&
        table_.level != RaidLevel::raid10) {
        // "Assert that we are finished, because there is nothing we can do."
        resync_offset_ = max_sector;
        update_records(false);
        return;
    }
    task_ = EngineTask::resync;
    position_ = resync_offset_;
}

Result<void> SimArray::request(EngineTask task) {
    if (table_.level == RaidLevel::raid0) {
        return perch::fail(Errc::io, "a striped device takes no message");
    }
    if (task_ != EngineTask::none) {
        return perch::fail(Errc::in_use, "another task runs");
    }
    mismatches_ = 0;
    if (broken_ || (has_parity() && survives_more(shape_of(table_), lost_in_sync()) <= 0)) {
        return {};  // ends at once
    }
    task_ = task;
    requested_ = true;
    position_ = 0;
    return {};
}

void SimArray::stop_check() {
    if (task_ == EngineTask::check) {
        interrupt();
        check_recovery();
    }
}

void SimArray::look_after() {
    if (waiting_ && !hangs()) {
        update_records(false);
    }
    if (!active()) {
        return;
    }
    std::vector<std::size_t> failed;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        if (takes_part(row) && !works(row)) {
            failed.push_back(row);
        }
    }
    mark_all_failed(failed);
}

void SimArray::advance(std::uint64_t sectors) {
    constexpr std::uint64_t checkpoints = 16;
    const auto total = total_sectors();
    const auto before = position_;
    position_ = std::min(total, position_ + sectors);
    if (position_ == total) {
        finish();
        return;
    }
    if (position_ / (total / checkpoints + 1) == before / (total / checkpoints + 1)) {
        return;
    }
    if (task_ == EngineTask::resync && !requested_) {
        resync_offset_ = position_;
    }
    for (std::size_t row = 0; task_ == EngineTask::rebuild && row < legs_.size(); ++row) {
        if (takes_part(row) && !legs_[row].in_sync && !legs_[row].partial) {
            legs_[row].recovery_offset = std::max(legs_[row].recovery_offset, position_);
        }
    }
    update_records(true);
}

void SimArray::finish() {
    if (task_ == EngineTask::check) {
        mismatches_ = wrong_sectors;
    } else if (task_ == EngineTask::resync) {
        resync_offset_ = max_sector;
        wrong_sectors = 0;
    } else {
        std::uint64_t newest = 0;
        for (std::size_t row = 0; row < legs_.size(); ++row) {
            if (takes_part(row) && legs_[row].in_sync) {
                newest = std::max(newest, stamp_of(row));
            }
        }
        for (std::size_t row = 0; row < legs_.size(); ++row) {
            if (takes_part(row) && !legs_[row].in_sync) {
                legs_[row] = Leg{};
                if (newest > 0) {
                    stamp(row, newest);
                }
            }
        }
        wrong_sectors = degraded() == 0 ? 0 : wrong_sectors;
    }
    if (task_ != EngineTask::check && degraded() == 0 && needed_) {
        needed_ = false;
        dirty_ = busy_;
    }
    task_ = EngineTask::none;
    requested_ = false;
    unrecorded_ = true;
}

void SimArray::record_result() {
    if (unrecorded_ && !hangs()) {
        update_records(false);
    }
}

EngineStatus SimArray::status() const {
    EngineStatus status;
    for (std::size_t row = 0; row < legs_.size(); ++row) {
        status.members.push_back(!table_.rows[row].present ? MemberHealth::absent
                                 : !takes_part(row)        ? MemberHealth::failed
                                 : legs_[row].in_sync      ? MemberHealth::in_sync
                                                           : MemberHealth::rebuilding);
    }
    status.suspended = frozen_ && resumed_;
    status.task = task_;
    status.task_total_sectors = total_sectors();
    status.task_done_sectors =
        task_ == EngineTask::none ? total_sectors() : std::min(position_, total_sectors());
    status.mismatches = mismatches_;
    return status;
}

}  // namespace perch
