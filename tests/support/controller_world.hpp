// SPDX-License-Identifier: GPL-2.0-or-later
// A controller on simulated drives and the simulated kernel, with a clock that tests turn by hand.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/sim/sim_engine.hpp"
#include "operations/controller.hpp"
#include "util/units.hpp"

namespace perch::test {

class RecordedEvents final : public EventSink {
  public:
    void emit(EventKind kind, const std::string& text) override {
        kinds.push_back(kind);
        texts.push_back(text);
    }
    [[nodiscard]] auto count(EventKind kind) const {
        return std::count(kinds.begin(), kinds.end(), kind);
    }
    /// The text of the newest event of that kind; empty when there is none.
    [[nodiscard]] std::string last(EventKind kind) const {
        for (std::size_t i = kinds.size(); i > 0; --i) {
            if (kinds[i - 1] == kind) {
                return texts[i - 1];
            }
        }
        return "";
    }
    void clear() {
        kinds.clear();
        texts.clear();
    }
    std::vector<EventKind> kinds;
    std::vector<std::string> texts;
};

/// Eight blank drives of 3 GiB in slots 0 to 7, and what runs on them. The kernel's tasks take as
/// long as the test wants: settle() and the engine's finish_…() end them.
struct ControllerWorld {
    static constexpr std::uint64_t drive_bytes = 3 * GiB;

    explicit ControllerWorld(int slots = 8) {
        for (int slot = 0; slot < slots; ++slot) {
            drives.add(slot, drive_bytes);
        }
        // Stops are kills, unless a test says otherwise: the kernel ends what it has begun.
        steps.set_counts_kernel(false);
        boot();
    }

    /// A fresh controller on what the drives and the kernel hold, past any wait.
    void boot() {
        start();
        now += 60;
        controller->refresh();
    }
    /// The same at the moment of the start. What an earlier program did itself has ended with it.
    void start() {
        engine.kill_program();
        controller = std::make_unique<Controller>(
            drives, engine, events, Clock{[this] { return now; }, [] { return 1796050000; }});
        if (auto done = controller->start(); !done) {
            throw std::runtime_error(done.error().message);
        }
    }
    void power_cycle() {
        engine.power_cut();
        boot();
    }
    /// Looks until a fresh VD's parity is known and nothing is left to do.
    void settle() {
        constexpr int enough = 4;
        for (int i = 0; i < enough; ++i) {
            controller->refresh();
            if (engine.finish_all(EngineTask::resync) == 0) {
                return;
            }
        }
    }
    /// Takes the drive out and lets Perch notice; the kernel does at its next access.
    void pull(int slot) {
        drives.pull(slot);
        controller->refresh();
    }
    void put_back(int slot) {
        drives.insert(slot);
        controller->refresh();
    }

    [[nodiscard]] Snapshot shown() const { return controller->snapshot(); }
    [[nodiscard]] VirtualDrive vd(std::size_t index = 0) const {
        return controller->snapshot().vds.at(index);
    }
    [[nodiscard]] DriveStatus member(std::size_t row) const { return vd().members.at(row).status; }
    [[nodiscard]] Drive drive(const std::string& id) const {
        const auto snapshot = controller->snapshot();
        const auto* found = find_drive(snapshot, id);
        if (found == nullptr) {
            throw std::out_of_range("no drive " + id);
        }
        return *found;
    }
    [[nodiscard]] Uuid uuid(std::size_t index = 0) const { return *Uuid::parse(vd(index).uuid); }

    StepCounter steps;
    SimDrives drives{steps};
    SimEngine engine{drives, steps};
    RecordedEvents events;
    double now = 0;
    std::unique_ptr<Controller> controller;
};

/// A RAID5 request over those slots.
inline CreateRequest raid5(const std::vector<int>& slots, const std::string& name = "data") {
    CreateRequest request;
    for (const int slot : slots) {
        request.drives.push_back(fmt::format("e0s{}", slot));
    }
    request.name = name;
    return request;
}

}  // namespace perch::test
