// SPDX-License-Identifier: GPL-2.0-or-later
#include "redfish/resources.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/raid_level.hpp"
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
        case VdState::partially_degraded:
        case VdState::degraded:
            return status(vd.operation ? "Updating" : "Enabled", "Warning");
        case VdState::offline:
            break;
    }
    return status("UnavailableOffline", "Critical");
}

bool is_spare(const Drive& drive) {
    return drive.state == DriveState::global_spare || drive.state == DriveState::dedicated_spare;
}

json drive_status(const Drive& drive) {
    if (is_spare(drive) && drive.status == DriveStatus::good) {
        return status("StandbySpare", "OK");
    }
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

/// Operation is DMTF's word, OperationName ours (and what Dell's modules read).
json operations(const std::optional<Operation>& operation) {
    auto list = json::array();
    if (operation) {
        const auto* word = "Initialize";  // a fresh VD's resync, and zeroing
        if (operation->kind == OperationKind::rebuild) {
            word = "Rebuild";
        } else if (operation->kind == OperationKind::check) {
            word = "CheckConsistency";
        }
        list.push_back({{"Operation", word},
                        {"OperationName", to_string(operation->kind)},
                        {"PercentageComplete", static_cast<int>(operation->percent)}});
    }
    return list;
}

std::string hotspare_type(const Drive& drive) {
    switch (drive.state) {
        case DriveState::global_spare:
            return "Global";
        case DriveState::dedicated_spare:
            return "Dedicated";
        default:
            return "None";
    }
}

/// The shape as far as the snapshot tells; nullopt for a level that this version does not know.
std::optional<RaidShape> shape_of(const VirtualDrive& vd) {
    const auto level = parse_raid_level(vd.level);
    if (!level || vd.members.empty()) {
        return std::nullopt;
    }
    const auto members = static_cast<int>(vd.members.size());
    return RaidShape{*level, members, vd.per_span > 0 ? vd.per_span : members};
}

/// {"#PerchDrive.SetState": {"target": ".../Actions/Oem/PerchDrive.SetState"}, ...}
json oem_actions(const std::string& uri, const std::string& type,
                 const std::vector<std::string>& names) {
    auto actions = json::object();
    for (const auto& name : names) {
        actions[fmt::format("#{}.{}", type, name)] = {
            {"target", fmt::format("{}/Actions/Oem/{}.{}", uri, type, name)}};
    }
    return actions;
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

/// The foreign configurations, as `perchcli /c0/fall show all` shows them.
json foreign_groups(const Snapshot& snapshot) {
    auto list = json::array();
    for (const auto& group : snapshot.foreign) {
        auto vds = json::array();
        for (const auto& vd : group.vds) {
            vds.push_back({{"UUID", vd.uuid},
                           {"Name", vd.name},
                           {"NameAfterImport", vd.import_name},
                           {"CapacityBytes", vd.size_bytes},
                           {"StateAfterImport", vd.state},
                           {"Reason", vd.reason}});
        }
        std::vector<std::string> uris;
        for (const auto& drive : group.drives) {
            uris.push_back(child("Drives", drive));
        }
        list.push_back({{"Id", group.id},
                        {"History", group.history},
                        {"OriginalGroup", group.original_group},
                        {"RAIDType", group.level},
                        {"Complete", group.complete},
                        {"Note", group.note},
                        {"Volumes", vds},
                        {"Drives", links(uris)},
                        {"MissingDrives", group.missing}});
    }
    return list;
}

}  // namespace

std::vector<std::string> raid_types() {
    std::vector<std::string> types;
    for (const auto level : raid_levels()) {
        types.push_back(to_string(level));
    }
    return types;
}

std::vector<std::string> drive_states() {
    return {"Offline", "Online", "Missing", "Unconfigured", "JBOD"};
}

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
    auto actions =
        oem_actions(storage_uri, "PerchStorage", {"ImportForeign", "ClearForeign", "SetCoercion"});
    actions["#PerchStorage.SetCoercion"]["Coercion@Redfish.AllowableValues"] = {"None", "128M",
                                                                                "1G"};
    body["Actions"]["Oem"] = std::move(actions);
    body["Oem"]["Perch"] = {{"@odata.type", "#PerchStorage.v1_0_0.Storage"},
                            {"Coercion", snapshot.coercion},
                            {"ForeignGroups", foreign_groups(snapshot)}};
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
    body["SupportedRAIDTypes"] = raid_types();
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
    const auto uri = child("Volumes", std::to_string(vd.id));
    auto body = resource(uri, "#Volume.v1_9_0.Volume", std::to_string(vd.id), vd.name);
    std::vector<std::string> members;
    for (const auto& member : vd.members) {
        if (find_drive(snapshot, member.drive) != nullptr) {
            members.push_back(child("Drives", member.drive));
        }
    }
    std::vector<std::string> spares;
    for (const auto& drive : snapshot.drives) {
        const auto& groups = drive.spare_for;
        if (drive.state == DriveState::dedicated_spare &&
            std::find(groups.begin(), groups.end(), vd.group) != groups.end()) {
            spares.push_back(child("Drives", drive.id));
        }
    }
    body["RAIDType"] = vd.level;
    body["CapacityBytes"] = vd.size_bytes;
    body["BlockSizeBytes"] = vd.block_bytes;
    body["StripSizeBytes"] = vd.strip_bytes;
    if (const auto shape = shape_of(vd)) {
        body["OptimumIOSizeBytes"] =
            vd.strip_bytes * static_cast<std::uint64_t>(shape->data_members());
        body["MediaSpanCount"] = shape->spans();
    }
    body["WriteCachePolicy"] = "WriteThrough";
    body["WriteHoleProtectionPolicy"] = "Off";
    body["Identifiers"] = json::array({{{"DurableName", vd.uuid}, {"DurableNameFormat", "UUID"}}});
    body["Status"] = vd_status(vd);
    body["Operations"] = operations(vd.operation);
    body["Links"]["Drives"] = links(members);
    body["Links"]["Drives@odata.count"] = members.size();
    body["Links"]["DedicatedSpareDrives"] = links(spares);
    body["Links"]["DedicatedSpareDrives@odata.count"] = spares.size();
    body["Actions"] = {
        {"#Volume.Initialize",
         {{"target", uri + "/Actions/Volume.Initialize"},
          {"InitializeType@Redfish.AllowableValues", {"Fast", "Slow"}}}},
        {"#Volume.CheckConsistency", {{"target", uri + "/Actions/Volume.CheckConsistency"}}},
        {"Oem", oem_actions(uri, "PerchVolume", {"StopInitialize", "StopCheckConsistency"})}};
    auto& oem = body["Oem"]["Perch"];
    oem = {{"@odata.type", "#PerchVolume.v1_0_0.Volume"},
           {"DriveGroup", vd.group},
           {"PerSpan", vd.per_span},
           {"State", to_string(vd.state)},
           {"SurvivesFailures", vd.survives},
           {"StateReason", vd.state_reason},
           {"Consistent", vd.consistent},
           {"Engine", vd.engine},
           {"Device", vd.device},
           {"UsedBy", vd.users}};
    if (vd.mismatches) {
        oem["MismatchedSectors"] = *vd.mismatches;
    }
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
    body["HotspareType"] = hotspare_type(drive);
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
    auto actions = oem_actions(
        uri, "PerchDrive",
        {"SetState", "InsertMember", "StartRebuild", "StopRebuild", "AddSpare", "DeleteSpare"});
    actions["#PerchDrive.SetState"]["State@Redfish.AllowableValues"] = drive_states();
    body["Actions"]["Oem"] = std::move(actions);
    body["Oem"]["Perch"] = {{"@odata.type", "#PerchDrive.v1_0_0.Drive"},
                            {"State", to_string(drive.state)},
                            {"Status", to_string(drive.status)},
                            {"SpareFor", drive.spare_for},
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
