// SPDX-License-Identifier: GPL-2.0-or-later
#include "redfish/resources.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/raid_layout.hpp"
#include "redfish/service.hpp"

namespace perch::redfish {

using nlohmann::json;

namespace {

json link(const std::string& uri) {
    return {{"@odata.id", uri}};
}

std::string child(const std::string& name, const std::string& id) {
    return fmt::format("{}/{}/{}", storage_uri, name, id);
}

json collection(const std::string& uri, const std::string& type, const std::string& name,
                const std::vector<std::string>& members) {
    auto list = json::array();
    for (const auto& member : members) {
        list.push_back(link(member));
    }
    return {{"@odata.id", uri},
            {"@odata.type", fmt::format("#{0}.{0}", type)},
            {"Name", name},
            {"Members", list},
            {"Members@odata.count", members.size()}};
}

json resource(const std::string& uri, const std::string& type, const std::string& id,
              const std::string& name) {
    return {{"@odata.id", uri}, {"@odata.type", type}, {"Id", id}, {"Name", name}};
}

json status(const std::string& state, const std::string& health) {
    return {{"State", state}, {"Health", health}};
}

std::string controller_health(const Snapshot& snapshot) {
    const auto word = controller_status(snapshot);
    if (word == "Optimal") {
        return "OK";
    }
    return word == "Failed" ? "Critical" : "Warning";
}

json vd_status(const VirtualDrive& vd) {
    switch (vd.state) {
        case VdState::optimal:
            return status("Enabled", "OK");
        case VdState::degraded:
            return status(vd.operation ? "Updating" : "Enabled", "Warning");
        case VdState::offline:
            break;
    }
    return status("UnavailableOffline", "Critical");
}

json drive_status(const Drive& drive) {
    switch (drive.status) {
        case DriveStatus::good:
        case DriveStatus::online:
            return status("Enabled", drive.state == DriveState::unusable ? "Critical" : "OK");
        case DriveStatus::rebuild:
            return status("Updating", "OK");
        case DriveStatus::offline:
            return status("StandbyOffline", "Warning");
        case DriveStatus::missing:
            return status("Absent", "Critical");
        case DriveStatus::failed:
            break;
    }
    return status("Enabled", "Critical");
}

json operations(const std::optional<Operation>& operation) {
    auto list = json::array();
    if (operation) {
        const bool rebuild = operation->kind == OperationKind::rebuild;
        list.push_back({{"Operation", rebuild ? "Rebuild" : "Initialize"},
                        {"OperationName", rebuild ? "Rebuild" : "Resync"},
                        {"PercentageComplete", static_cast<int>(operation->percent)}});
    }
    return list;
}

std::vector<std::string> drive_uris(const Snapshot& snapshot) {
    std::vector<std::string> uris;
    for (const auto& drive : snapshot.drives) {
        uris.push_back(child("Drives", drive.id));
    }
    return uris;
}

json links(const std::vector<std::string>& uris) {
    auto list = json::array();
    for (const auto& uri : uris) {
        list.push_back(link(uri));
    }
    return list;
}

}  // namespace

json service_root(const Snapshot& snapshot) {
    auto body = resource("/redfish/v1/", "#ServiceRoot.v1_15_0.ServiceRoot", "RootService",
                         "Perch storage service");
    body["RedfishVersion"] = "1.17.0";
    body["Product"] = "Perch " + snapshot.version;
    body["ProtocolFeaturesSupported"] = {{"ExcerptQuery", false},
                                         {"FilterQuery", false},
                                         {"OnlyMemberQuery", false},
                                         {"SelectQuery", false}};
    body["Systems"] = link("/redfish/v1/Systems");
    body["Tasks"] = link("/redfish/v1/TaskService");
    body["Oem"]["Perch"] = {{"@odata.type", "#PerchServiceRoot.v1_0_0.ServiceRoot"},
                            {"Snapshot", link(snapshot_uri)},
                            {"Events", link("/redfish/v1/Oem/Perch/Events")}};
    return body;
}

json systems() {
    return collection("/redfish/v1/Systems", "ComputerSystemCollection", "Systems",
                      {"/redfish/v1/Systems/1"});
}

json system(const Snapshot& snapshot) {
    auto body = resource("/redfish/v1/Systems/1", "#ComputerSystem.v1_20_0.ComputerSystem", "1",
                         snapshot.host);
    body["HostName"] = snapshot.host;
    body["SystemType"] = "OS";
    body["Storage"] = link("/redfish/v1/Systems/1/Storage");
    body["Status"] = status("Enabled", controller_health(snapshot));
    return body;
}

json storage_collection() {
    return collection("/redfish/v1/Systems/1/Storage", "StorageCollection", "Storage",
                      {storage_uri});
}

json storage(const Snapshot& snapshot) {
    auto body = resource(storage_uri, "#Storage.v1_15_0.Storage", "c0", "Perch controller 0");
    body["Status"] = status("Enabled", controller_health(snapshot));
    body["Drives"] = links(drive_uris(snapshot));
    body["Drives@odata.count"] = snapshot.drives.size();
    body["Volumes"] = link(fmt::format("{}/Volumes", storage_uri));
    body["Controllers"] = link(fmt::format("{}/Controllers", storage_uri));
    return body;
}

json controller_collection() {
    return collection(fmt::format("{}/Controllers", storage_uri), "StorageControllerCollection",
                      "Controllers", {child("Controllers", "0")});
}

json storage_controller(const Snapshot& snapshot) {
    auto body = resource(child("Controllers", "0"), "#StorageController.v1_7_0.StorageController",
                         "0", "Perch controller 0");
    body["Manufacturer"] = "Perch";
    body["Model"] = "Perch software RAID controller";
    body["FirmwareVersion"] = snapshot.version;
    body["SupportedRAIDTypes"] = {"RAID5"};
    body["SupportedDeviceProtocols"] = {"NVMe"};
    body["Status"] = status("Enabled", controller_health(snapshot));
    return body;
}

json volume_collection(const Snapshot& snapshot) {
    std::vector<std::string> uris;
    for (const auto& vd : snapshot.vds) {
        uris.push_back(child("Volumes", std::to_string(vd.id)));
    }
    auto body =
        collection(fmt::format("{}/Volumes", storage_uri), "VolumeCollection", "Volumes", uris);
    body["@Redfish.OperationApplyTimeSupport"] = {
        {"@odata.type", "#Settings.v1_3_0.OperationApplyTimeSupport"},
        {"SupportedValues", {"Immediate"}}};
    return body;
}

json volume(const Snapshot& snapshot, const VirtualDrive& vd) {
    auto body = resource(child("Volumes", std::to_string(vd.id)), "#Volume.v1_9_0.Volume",
                         std::to_string(vd.id), vd.name);
    std::vector<std::string> uris;
    for (const auto& member : vd.members) {
        if (find_drive(snapshot, member.drive) != nullptr) {
            uris.push_back(child("Drives", member.drive));
        }
    }
    body["RAIDType"] = vd.level;
    body["CapacityBytes"] = vd.size_bytes;
    body["BlockSizeBytes"] = vd.block_bytes;
    body["StripSizeBytes"] = vd.strip_bytes;
    body["OptimumIOSizeBytes"] = vd.strip_bytes * (vd.members.size() - 1);
    body["WriteCachePolicy"] = "WriteThrough";
    body["WriteHoleProtectionPolicy"] = "Off";
    body["Identifiers"] = json::array({{{"DurableName", vd.uuid}, {"DurableNameFormat", "UUID"}}});
    body["Status"] = vd_status(vd);
    body["Operations"] = operations(vd.operation);
    body["Links"]["Drives"] = links(uris);
    body["Oem"]["Perch"] = {{"@odata.type", "#PerchVolume.v1_0_0.Volume"},
                            {"SurvivesFailures", vd.survives},
                            {"StateReason", vd.state_reason},
                            {"Engine", vd.engine},
                            {"Device", vd.device},
                            {"UsedBy", vd.users}};
    return body;
}

json drive(const Snapshot& snapshot, const Drive& drive) {
    const auto uri = child("Drives", drive.id);
    auto body = resource(uri, "#Drive.v1_17_0.Drive", drive.id, fmt::format("Slot {}", drive.slot));
    body["Protocol"] = "NVMe";
    body["MediaType"] = "SSD";
    body["Model"] = drive.model;
    body["SerialNumber"] = drive.serial;
    body["Revision"] = drive.firmware;
    body["CapacityBytes"] = drive.size_bytes;
    body["BlockSizeBytes"] = drive.logical_block_bytes;
    body["Status"] = drive_status(drive);
    body["ReadyToRemove"] = drive.safe_to_pull;
    body["HotspareType"] = "None";
    body["PhysicalLocation"]["PartLocation"] = {{"LocationType", "Slot"},
                                                {"LocationOrdinalValue", drive.slot}};
    body["Operations"] = operations(drive.operation);
    if (drive.health) {
        constexpr int full = 100;
        body["PredictedMediaLifeLeftPercent"] = std::max(0, full - drive.health->percentage_used);
        body["FailurePredicted"] = drive.health->critical_warning != 0;
    }
    auto volumes = json::array();
    for (const auto& vd : snapshot.vds) {
        if (std::any_of(vd.members.begin(), vd.members.end(),
                        [&](const auto& member) { return member.drive == drive.id; })) {
            volumes.push_back(link(child("Volumes", std::to_string(vd.id))));
        }
    }
    body["Links"]["Volumes"] = volumes;
    for (const auto* action : {"SetState", "InsertMember", "StartRebuild", "StopRebuild"}) {
        body["Actions"]["Oem"][fmt::format("#PerchDrive.{}", action)] = {
            {"target", fmt::format("{}/Actions/Oem/PerchDrive.{}", uri, action)}};
    }
    body["Oem"]["Perch"] = {{"@odata.type", "#PerchDrive.v1_0_0.Drive"},
                            {"State", to_string(drive.state)},
                            {"Status", to_string(drive.status)},
                            {"Content", drive.content}};
    return body;
}

json task_service() {
    auto body = resource("/redfish/v1/TaskService", "#TaskService.v1_2_0.TaskService",
                         "TaskService", "Tasks");
    body["ServiceEnabled"] = true;
    body["Tasks"] = link("/redfish/v1/TaskService/Tasks");
    return body;
}

json task_collection(const Snapshot& snapshot) {
    std::vector<std::string> uris;
    for (const auto& row : snapshot.tasks) {
        uris.push_back(fmt::format("/redfish/v1/TaskService/Tasks/{}", row.id));
    }
    return collection("/redfish/v1/TaskService/Tasks", "TaskCollection", "Tasks", uris);
}

json task(const TaskInfo& task) {
    const auto id = std::to_string(task.id);
    auto body = resource("/redfish/v1/TaskService/Tasks/" + id, "#Task.v1_7_0.Task", id, task.name);
    const bool failed = task.state == "Exception";
    body["TaskState"] = task.state;
    body["TaskStatus"] = failed ? "Critical" : "OK";
    body["TaskMonitor"] = "/redfish/v1/TaskService/TaskMonitors/" + id;
    auto messages = json::array();
    if (!task.message.empty()) {
        messages.push_back({{"MessageId", "Perch.1.0." + (failed ? task.error : "Success")},
                            {"Message", task.message}});
    }
    body["Messages"] = messages;
    return body;
}

}  // namespace perch::redfish
