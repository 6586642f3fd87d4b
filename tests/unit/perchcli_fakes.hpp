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
    DriveGroup group{0, "RAID5", 21 * GiB, {}};
    for (int slot = 0; slot < 4; ++slot) {
        auto drive = make_drive(slot);
        drive.state = DriveState::configured;
        drive.status = slot == 3 ? DriveStatus::missing : DriveStatus::online;
        drive.group = 0;
        drive.row = slot;
        drive.safe_to_pull = false;
        drive.pull_reason = "v1 survives 0 more failures";
        group.members.push_back({slot, drive.id, drive.status});
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
        if (refusal) {
            return tl::make_unexpected(*refusal);
        }
        return accepted;
    }

    std::deque<Snapshot> snapshots;
    std::vector<Event> event_list;
    std::vector<Sent> sent;
    std::optional<int> asked_latest;
    std::optional<Error> error;    ///< of every snapshot
    std::optional<Error> refusal;  ///< of every change
    Accepted accepted;             ///< done at once unless a test sets a task
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

inline Run run_line(const std::string& line) {
    FakeConnection connection(degraded_snapshot());
    FakeTerminal terminal;
    return run_with(connection, terminal, line);
}

}  // namespace perch::cli::test
