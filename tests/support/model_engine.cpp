// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/model_engine.hpp"

#include <algorithm>

#include "layout/drive_layout.hpp"

namespace perch::test {

namespace {

constexpr std::uint64_t record_magic = 0x4d4f44454c524543;
constexpr std::size_t record_unit = 4096;

struct RawRecord {
    std::uint64_t magic;
    std::uint64_t events;
    std::uint64_t failed;
    std::uint64_t rebuilt;
    std::uint64_t dirty;
};

std::uint64_t record_place(const MemoryDrive& drive, const EngineMember& member) {
    return partition_layout(drive.identity.size_bytes)->offset + member.metadata_offset;
}

}  // namespace

Result<std::optional<MemberRecord>> ModelEngine::decode_record(
    std::span<const std::byte> metadata) const {
    const auto raw = load<RawRecord>(metadata);
    if (raw.magic == 0) {
        return std::optional<MemberRecord>();
    }
    if (raw.magic != record_magic) {
        return fail(Errc::corrupt, "no record");
    }
    MemberRecord record;
    record.events = raw.events;
    record.rebuilt = raw.rebuilt != 0;
    record.dirty = raw.dirty != 0;
    for (int row = 0; row < 64; ++row) {
        if ((raw.failed >> row & 1U) != 0) {
            record.failed_rows.push_back(row);
        }
    }
    return std::optional(record);
}

Result<std::optional<MemberRecord>> ModelEngine::read_record(const EngineMember& member) {
    auto* drive = drives_.by_partition(member.partition);
    if (drive == nullptr) {
        return fail(Errc::io, "{} is gone", member.partition);
    }
    return drive->device->read(record_place(*drive, member), record_unit)
        .and_then([&](const Bytes& bytes) { return decode_record(bytes); });
}

Result<void> ModelEngine::write_records(Array& array) {
    RawRecord raw{record_magic, ++array.events, 0, 1, array.dirty ? 1U : 0U};
    for (std::size_t row = 0; row < array.members.size(); ++row) {
        const auto health = array.members[row].health;
        if (health == MemberHealth::failed || health == MemberHealth::absent) {
            raw.failed |= 1ULL << row;
        }
    }
    for (auto& member : array.members) {
        if (member.health == MemberHealth::failed || member.health == MemberHealth::absent) {
            continue;
        }
        auto* drive = drives_.by_partition(member.config.partition);
        if (drive == nullptr) {
            continue;
        }
        raw.rebuilt = member.health == MemberHealth::in_sync ? 1 : 0;
        Bytes bytes(record_unit);
        std::memcpy(bytes.data(), &raw, sizeof(raw));
        if (auto done = drive->device->write(record_place(*drive, member.config), bytes); !done) {
            return done;
        }
    }
    return {};
}

bool ModelEngine::same_members(const Array& array, const EngineVd& vd) {
    return std::equal(array.members.begin(), array.members.end(), vd.members.begin(),
                      vd.members.end(), [](const Member& a, const EngineMember& b) {
                          const bool absent = a.config.role == MemberRole::absent;
                          return absent == (b.role == MemberRole::absent) &&
                                 (absent || a.config.instance == b.instance);
                      });
}

Result<void> ModelEngine::apply(const EngineVd& vd) {
    const auto found = running_.find(vd.uuid);
    const bool running = found != running_.end();
    if (running && same_members(found->second, vd)) {
        return {};
    }
    Array array;
    array.vd = vd;
    std::size_t known = 0;
    std::size_t unknown = 0;
    for (const auto& member : vd.members) {
        Member row{member, MemberHealth::absent};
        if (member.role != MemberRole::absent) {
            const auto record = read_record(member);
            if (!record) {
                return tl::make_unexpected(record.error());
            }
            if (*record) {
                array.events = std::max(array.events, (*record)->events);
            }
            const bool rebuild = member.role != MemberRole::in_sync;
            if (!rebuild) {
                ++(*record ? known : unknown);
            }
            row.health = rebuild ? MemberHealth::rebuilding : MemberHealth::in_sync;
        }
        array.members.push_back(row);
    }
    if (known > 0 && unknown > 0) {
        return fail(Errc::io, "new device injected into existing raid set");
    }
    steps_.step();  // loaded
    if (running) {
        array.open = found->second.open;
        found->second.suspended = true;
        steps_.step();  // suspended, not yet resumed
    }
    running_[vd.uuid] = array;
    return write_records(running_[vd.uuid]);
}

Result<void> ModelEngine::stop(const Uuid& vd) {
    const auto found = running_.find(vd);
    if (found == running_.end()) {
        return {};
    }
    if (found->second.open) {
        return fail(Errc::in_use, "open");
    }
    steps_.step();
    found->second.dirty = false;
    const auto recorded = write_records(found->second);
    running_.erase(vd);
    return recorded;
}

Result<std::optional<EngineStatus>> ModelEngine::status(const Uuid& vd) {
    const auto found = running_.find(vd);
    if (found == running_.end()) {
        return std::optional<EngineStatus>();
    }
    EngineStatus status;
    status.kernel_name = "dm-0";
    status.kernel_device = "/dev/dm-0";
    status.suspended = found->second.suspended;
    for (const auto& member : found->second.members) {
        status.members.push_back(member.health);
        if (member.health == MemberHealth::rebuilding) {
            status.task = EngineTask::rebuild;
            status.task_total_sectors = 100;
        }
    }
    if (found->second.resync_looks > 0) {
        --found->second.resync_looks;
        status.task = EngineTask::resync;
    }
    return std::optional(status);
}

Result<void> ModelEngine::request_resync(const Uuid& vd) {
    steps_.step();
    running_.at(vd).resync_looks = 1;
    return {};
}

void ModelEngine::write(const Uuid& vd) {
    auto& array = running_.at(vd);
    array.dirty = true;
    if (auto done = write_records(array); !done) {
        throw std::runtime_error(done.error().message);
    }
}

Result<std::vector<Uuid>> ModelEngine::running() {
    std::vector<Uuid> vds;
    for (const auto& [uuid, array] : running_) {
        vds.push_back(uuid);
    }
    return vds;
}

Result<int> ModelEngine::resume_suspended() {
    int resumed = 0;
    for (auto& [uuid, array] : running_) {
        resumed += array.suspended ? 1 : 0;
        array.suspended = false;
    }
    return resumed;
}

void ModelEngine::finish_rebuild(const Uuid& vd) {
    auto& array = running_.at(vd);
    for (auto& member : array.members) {
        if (member.health == MemberHealth::rebuilding) {
            member.health = MemberHealth::in_sync;
        }
    }
    if (auto done = write_records(array); !done) {
        throw std::runtime_error(done.error().message);
    }
}

void ModelEngine::fail_member(const Uuid& vd, std::size_t row) {
    auto& array = running_.at(vd);
    array.members.at(row).health = MemberHealth::failed;
    if (auto done = write_records(array); !done) {
        throw std::runtime_error(done.error().message);
    }
}

}  // namespace perch::test
