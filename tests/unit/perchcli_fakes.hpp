// SPDX-License-Identifier: GPL-2.0-or-later
// A perchd and a terminal for perchcli's tests, and a snapshot with something of everything.
#pragma once

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app.hpp"
#include "session.hpp"
#include "util/units.hpp"

namespace perch::cli::test {

inline Drive make_drive(int slot) {
    Drive drive;
    drive.id = fmt::format("e0s{}", slot);
    drive.slot = slot;
    drive.pid = 10 + slot;
    drive.device = fmt::format("/dev/nvme{}n1", slot);
    drive.serial = fmt::format("SN{}", slot);
    drive.model = "QEMU NVMe Ctrl";
    drive.firmware = "7.2";
    drive.size_bytes = 8 * GiB;
    drive.usable_bytes = 7 * GiB;
    return drive;
}

/// v1 (data), RAID5 of slots 0..3 with slot 3 missing; slot 4 blank; slot 7 with ext4; one foreign
/// drive without slot; a blank drive in e1s4.
inline Snapshot degraded_snapshot() {
    Snapshot snapshot;
    snapshot.generation = 7;
    snapshot.version = "0.1.0";
    snapshot.host = "guest";
    snapshot.operating_system = "Linux6.1.0";
    snapshot.time = "2026-11-30T15:05:16Z";
    DriveGroup group;
    group.level = "RAID5";
    group.per_span = 4;
    group.state = VdState::degraded;
    group.size_bytes = 21 * GiB;
    group.vds = {1};
    for (int slot = 0; slot < 4; ++slot) {
        auto drive = make_drive(slot);
        drive.state = DriveState::configured;
        drive.status = slot == 3 ? DriveStatus::missing : DriveStatus::online;
        drive.group = 0;
        drive.row = slot;
        drive.safe_to_pull = false;
        drive.pull_reason = "v1 survives 0 more failures";
        group.members.push_back({slot, 0, drive.id, drive.status});
        snapshot.drives.push_back(drive);
    }
    snapshot.drives[3].device.clear();
    snapshot.drives[0].health = DriveHealth{40, 1, 100, 0, 2};
    snapshot.drives.push_back(make_drive(4));
    auto jbod = make_drive(7);
    jbod.state = DriveState::jbod;
    jbod.content = "ext4 filesystem 'old' on the whole drive";
    snapshot.drives.push_back(jbod);
    auto foreign = make_drive(9);
    foreign.id = "x";
    foreign.slot = -1;
    foreign.state = DriveState::foreign;
    snapshot.drives.push_back(foreign);
    auto other = make_drive(4);
    other.id = "e1s4";
    other.enclosure = 1;
    other.pid = 40;
    other.logical_block_bytes = 4096;
    snapshot.drives.push_back(other);
    VirtualDrive vd;
    vd.id = 1;
    vd.uuid = "11111111-2222-4333-8444-555555555555";
    vd.name = "data";
    vd.per_span = 4;
    vd.state = VdState::degraded;
    vd.state_reason = "s3 (SN3) is missing";
    vd.size_bytes = 21 * GiB;
    vd.strip_bytes = 64 * KiB;
    vd.consistent = true;
    vd.device = "/dev/perch/data";
    vd.kernel_device = "/dev/dm-8";
    vd.created = "2026/11/30 15:05:16";
    vd.users = {"mounted on /mnt"};
    vd.members = group.members;
    snapshot.groups.push_back(group);
    snapshot.vds.push_back(vd);
    snapshot.problems = {{Severity::critical, "v1 (data) is Degraded: s3 (SN3) is missing.",
                          "Waiting for s3 to come back.", "Put a drive into slot 3."},
                         {Severity::warning, "s7 carries data.", "", ""}};
    return snapshot;
}

/// A VD of drive group 0 with the group's members.
inline VirtualDrive make_vd(const DriveGroup& group, int id, const std::string& name) {
    VirtualDrive vd;
    vd.id = id;
    vd.group = group.id;
    vd.uuid = fmt::format("11111111-2222-4333-8444-{:012}", id);
    vd.name = name;
    vd.level = group.level;
    vd.per_span = group.per_span;
    vd.state = group.state;
    vd.size_bytes = 2 * GiB;
    vd.strip_bytes = 64 * KiB;
    vd.consistent = true;
    vd.survives = 0;
    vd.device = "/dev/perch/" + name;
    vd.kernel_device = fmt::format("/dev/dm-{}", id);
    vd.members = group.members;
    return vd;
}

/// DG 0: RAID10 of slots 0..2 and an empty place, two VDs, 8 GiB free in two pieces; slot 4 a
/// dedicated and slot 5 a global spare; slots 6, 7 and 8 blank; slot 9 foreign (f0, which would be
/// Degraded, and f1, which is incomplete).
inline Snapshot spans_snapshot() {
    Snapshot snapshot;
    snapshot.generation = 3;
    snapshot.version = "0.1.0";
    snapshot.host = "guest";
    snapshot.operating_system = "Linux6.1.0";
    snapshot.time = "2026-11-30T15:05:16Z";
    snapshot.coercion = "128M";
    for (int slot = 0; slot < 10; ++slot) {
        if (slot != 3) {
            snapshot.drives.push_back(make_drive(slot));
        }
    }
    DriveGroup group;
    group.level = "RAID10";
    group.per_span = 2;
    group.state = VdState::partially_degraded;
    group.size_bytes = 4 * GiB;
    group.vds = {1, 2};
    group.free_bytes = {6 * GiB, 2 * GiB};
    for (int row = 0; row < 3; ++row) {
        auto& drive = snapshot.drives[static_cast<std::size_t>(row)];
        drive.state = DriveState::configured;
        drive.status = DriveStatus::online;
        drive.group = 0;
        drive.row = row;
        group.members.push_back({row, row / 2, drive.id, drive.status});
    }
    group.members.push_back({3, 1, "", DriveStatus::missing});
    snapshot.groups = {group};
    snapshot.vds = {make_vd(group, 1, "one"), make_vd(group, 2, "two")};
    snapshot.drives[3].state = DriveState::dedicated_spare;
    snapshot.drives[3].spare_for = {0};
    snapshot.drives[4].state = DriveState::global_spare;
    snapshot.drives[8].state = DriveState::foreign;
    ForeignGroup foreign;
    foreign.source = "99999999-0000-4000-8000-000000000000";
    foreign.history = "aaaaaaaa-0000-4000-8000-000000000000";
    foreign.original_group = 4;
    foreign.level = "RAID1";
    foreign.complete = true;
    foreign.note = "It belongs to another controller.";
    foreign.vds = {{"22222222-2222-4333-8444-000000000001", "one", "one-2", 3 * GiB, "Degraded",
                    "s3 (SN X) is missing"}};
    foreign.drives = {"e0s9"};
    foreign.missing = {"s3 (SN X)"};
    snapshot.foreign = {foreign};
    foreign.id = 1;
    foreign.original_group = 5;
    foreign.level = "RAID5";
    foreign.complete = false;
    foreign.note = "It belongs to another controller, and too few of its drives are here.";
    foreign.vds = {{"22222222-2222-4333-8444-000000000002", "far", "far", 5 * GiB, "Offline",
                    "two drives are missing"}};
    foreign.missing = {"s4 (SN Y)", "s5 (SN Z)"};
    snapshot.foreign.push_back(foreign);
    return snapshot;
}

/// Plays back snapshots (the last one for ever) and records what is asked for.
class FakeConnection : public Connection {
  public:
    struct Sent {
        std::string method;
        std::string target;
        nlohmann::json body;
    };

    explicit FakeConnection(Snapshot first) { snapshots.push_back(std::move(first)); }

    Result<Snapshot> snapshot(std::optional<std::uint64_t> after) override {
        if (error) {
            return tl::make_unexpected(*error);
        }
        if (after && snapshots.size() > 1) {
            snapshots.pop_front();
        }
        return snapshots.front();
    }
    Result<std::vector<Event>> events(std::optional<int> latest) override {
        asked_latest = latest;
        return event_list;
    }
    Result<Accepted> send(std::string_view method, std::string_view target,
                          const nlohmann::json& body) override {
        sent.push_back({std::string(method), std::string(target), body});
        if (refusal && sent.size() > granted) {
            return tl::make_unexpected(*refusal);
        }
        if (created) {
            ++*created;
            return Accepted{std::nullopt, fmt::format("/redfish/v1/x/Volumes/{}", *created)};
        }
        return accepted;
    }

    std::deque<Snapshot> snapshots;
    std::vector<Event> event_list;
    std::vector<Sent> sent;
    std::optional<int> asked_latest;
    std::optional<Error> error;    ///< of every snapshot
    std::optional<Error> refusal;  ///< of every change after the first `granted`
    std::size_t granted = 0;
    std::optional<int> created;  ///< set: changes create VDs, numbered from this one on
    Accepted accepted;           ///< done at once unless a test sets a task
};

class FakeTerminal : public Terminal {
  public:
    [[nodiscard]] bool interactive() const override { return answer.has_value(); }
    [[nodiscard]] bool moving_output() const override { return moving; }
    void out(std::string_view text) override { output += text; }
    void err(std::string_view text) override { errors += text; }
    std::optional<std::string> ask(std::string_view question) override {
        errors += question;
        return answer;
    }

    std::optional<std::string> answer;  ///< set: a person sits there and types this
    bool moving = false;
    std::string output;
    std::string errors;
};

/// One command line against the fakes.
struct Run {
    int status = 0;
    std::string output;
    std::string errors;

    [[nodiscard]] bool says(std::string_view text) const {
        return output.find(text) != std::string::npos;
    }
    [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(output); }
    /// The first controller's answer.
    [[nodiscard]] nlohmann::json answer() const { return json()["Controllers"][0]; }
};

inline Run run_with(FakeConnection& connection, FakeTerminal& terminal, const std::string& line) {
    terminal.output.clear();
    terminal.errors.clear();
    const int status = run({connection, terminal, "Linux6.1.0"}, {line});
    return {status, terminal.output, terminal.errors};
}

inline Run run_line(const std::string& line, Snapshot snapshot = degraded_snapshot()) {
    FakeConnection connection(std::move(snapshot));
    FakeTerminal terminal;
    return run_with(connection, terminal, line);
}

}  // namespace perch::cli::test
