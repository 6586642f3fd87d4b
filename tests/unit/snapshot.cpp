// SPDX-License-Identifier: GPL-2.0-or-later
#include "model/snapshot.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "perchcli_fakes.hpp"

using namespace perch;
using nlohmann::json;

namespace {

/// Something of everything, each optional once there and once absent.
Snapshot full() {
    auto snapshot = cli::test::degraded_snapshot();
    snapshot.controller_uuid = "c0c0c0c0-0001-4002-8003-000000000004";
    snapshot.daemon = false;
    snapshot.generation = UINT64_MAX;
    auto& drive = snapshot.drives[0];
    drive.uuid = "d0000000-0000-4000-8000-000000000000";
    drive.identity = "nguid.1";
    drive.link_speed = "32.0 GT/s PCIe";
    drive.link_width = 4;
    drive.operation = Operation{OperationKind::rebuild, 41.25, 600, 1500 * MiB};
    snapshot.vds[0].operation = Operation{OperationKind::resync, 0, std::nullopt, 0};
    snapshot.tasks = {{1, "Create v1", "Completed", "Done.", "", "/redfish/v1/x"},
                      {2, "Delete v9", "Exception", "no VD 9", "not_found", ""}};
    return snapshot;
}

}  // namespace

TEST_CASE("snapshot: survives its way through JSON whole") {
    const auto snapshot = full();
    const auto text = snapshot_to_json(snapshot).dump();
    const auto again = snapshot_from_json(json::parse(text));
    REQUIRE(again);
    CHECK(*again == snapshot);
    CHECK(*snapshot_from_json(snapshot_to_json({})) == Snapshot{});
}

TEST_CASE("snapshot: a newer daemon's extra fields and missing ones do not stop an older client") {
    auto text = snapshot_to_json(full());
    text["colour"] = "green";
    text["drives"][0]["wear"] = {{"level", 3}};
    text["vds"][0].erase("state_reason");
    const auto snapshot = snapshot_from_json(text);
    REQUIRE(snapshot);
    CHECK(snapshot->drives.size() == full().drives.size());
    CHECK(snapshot->vds[0].state_reason.empty());
}

TEST_CASE("snapshot: a state that is not known is read as the worst, never as good") {
    auto text = snapshot_to_json(full());
    text["drives"][1]["state"] = "Dreaming";
    text["drives"][1]["status"] = "Dreaming";
    text["vds"][0]["state"] = "Dreaming";
    const auto snapshot = snapshot_from_json(text);
    REQUIRE(snapshot);
    CHECK(snapshot->drives[1].state == DriveState::unusable);
    CHECK(snapshot->drives[1].status == DriveStatus::failed);
    CHECK(snapshot->vds[0].state == VdState::offline);
}

TEST_CASE("snapshot: what cannot be read is said, not guessed") {
    for (const auto* text : {"null", "[]", "7", R"({"drives": 7})", R"({"drives": [7]})",
                             R"({"vds": [{"id": "one"}]})", R"({"generation": "x"})",
                             R"({"drives": [{"health": {"temperature_celsius": "hot"}}]})"}) {
        INFO(text);
        const auto snapshot = snapshot_from_json(json::parse(text));
        CHECK_FALSE(snapshot);
        if (!snapshot) {
            CHECK(snapshot.error().code == Errc::corrupt);
        }
    }
}

TEST_CASE("snapshot: the controller is as well as its worst part") {
    Snapshot snapshot;
    CHECK(controller_status(snapshot) == "Optimal");
    snapshot.problems.push_back({});
    CHECK(controller_status(snapshot) == "Needs Attention");
    VirtualDrive vd;
    vd.state = VdState::optimal;
    snapshot.vds.push_back(vd);
    CHECK(controller_status(snapshot) == "Needs Attention");
    vd.state = VdState::degraded;
    snapshot.vds.push_back(vd);
    CHECK(controller_status(snapshot) == "Degraded");
    vd.state = VdState::offline;
    snapshot.vds.push_back(vd);
    CHECK(controller_status(snapshot) == "Failed");
}

TEST_CASE("events: survive their way through JSON") {
    const Event event{17,
                      "2026-11-30T15:05:16Z",
                      0xfb,
                      Severity::critical,
                      "StorageDevice.1.2.VolumeDegraded",
                      "v1 (data) is Degraded."};
    const auto again = event_from_json(json::parse(event_to_json(event).dump()));
    REQUIRE(again);
    CHECK(*again == event);
    CHECK_FALSE(event_from_json(json::parse(R"({"sequence": "x"})")));
}
