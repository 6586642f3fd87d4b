// SPDX-License-Identifier: GPL-2.0-or-later
// The Redfish service without its socket. Rules: DSP0266 (Redfish specification 1.20).
#include <nlohmann/json.hpp>
#include <set>

#include "catch.hpp"
#include "perchcli_fakes.hpp"
#include "redfish/service.hpp"
#include "support/controller_world.hpp"

using namespace perch;
using namespace perch::redfish;
using nlohmann::json;

namespace {

const std::string root = "/redfish/v1";
const std::string storage = storage_uri;
const std::string volumes = storage + "/Volumes";
const std::string drives = storage + "/Drives";

/// Answers from one snapshot and keeps what is asked of it.
class FakeBackend final : public Backend {
  public:
    FakeBackend() {
        shown = cli::test::degraded_snapshot();
        shown.tasks = {
            {1, "Create a VD", "Running", "", "", ""},
            {2, "Create a VD", "Completed", "Done.", "", volumes + "/1"},
            {3, "Delete v1", "Exception", "v1 is in use (mounted on /srv)", "in_use", ""}};
    }
    [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const override {
        return std::make_shared<Snapshot>(shown);
    }
    [[nodiscard]] std::vector<Event> events(std::uint64_t after, std::size_t latest) override {
        asked_after = after;
        asked_latest = latest;
        return {{after + 1, "2026-11-30T15:05:16Z", 0, Severity::info, "x.1.0.y", "text"}};
    }
    std::uint64_t submit(const std::string& name, Operation operation) override {
        names.push_back(name);
        operations.push_back(std::move(operation));
        return 40 + names.size();
    }

    Snapshot shown;
    std::uint64_t asked_after = 0;
    std::size_t asked_latest = 0;
    std::vector<std::string> names;
    std::vector<Operation> operations;
};

struct Fixture {
    Response ask(const std::string& method, const std::string& target, const std::string& body = "",
                 bool may_change = true) {
        return service.handle({method, target, body, may_change});
    }
    Response get(const std::string& target) { return ask("GET", target, "", false); }
    json body_of(const std::string& target) {
        const auto response = get(target);
        INFO(target);
        REQUIRE(response.status == 200);
        return json::parse(response.body);
    }

    FakeBackend backend;
    Service service{backend};
};

void collect_links(const json& value, std::set<std::string>& links) {
    if (value.is_object()) {
        for (const auto& [key, inner] : value.items()) {
            if (key == "@odata.id") {
                links.insert(inner.get<std::string>());
            } else {
                collect_links(inner, links);
            }
        }
    } else if (value.is_array()) {
        for (const auto& inner : value) {
            collect_links(inner, links);
        }
    }
}

/// Every resource that can be reached from the root, with its body.
std::map<std::string, json> walk(Fixture& fixture) {
    std::map<std::string, json> seen;
    std::set<std::string> open{"/redfish/v1/"};
    while (!open.empty()) {
        const auto uri = *open.begin();
        open.erase(open.begin());
        if (seen.contains(uri)) {
            continue;
        }
        INFO(uri);
        const auto response = fixture.get(uri);
        REQUIRE(response.status == 200);
        CHECK(response.headers.at("Content-Type").starts_with("application/json"));
        seen[uri] = json::parse(response.body);
        collect_links(seen[uri], open);
    }
    return seen;
}

/// The methods in an Allow header.
std::set<std::string> allowed(const Response& response) {
    std::set<std::string> methods;
    std::istringstream words(response.headers.at("Allow"));
    for (std::string word; words >> word;) {
        methods.insert(word.substr(0, word.find(',')));
    }
    return methods;
}

void check_error(const Response& response, unsigned status, const std::string& code) {
    CHECK(response.status == status);
    const auto body = json::parse(response.body);
    CHECK(body["error"]["code"] == "Perch.1.0." + code);
    CHECK_FALSE(body["error"]["message"].get<std::string>().empty());
    const auto& info = body["error"]["@Message.ExtendedInfo"];
    REQUIRE(info.is_array());
    CHECK(info[0]["MessageId"] == "Perch.1.0." + code);
    CHECK(info[0]["Message"] == body["error"]["message"]);
}

json create_body() {
    return json::parse(R"({"RAIDType": "RAID5", "Name": "data", "StripSizeBytes": 131072,
        "Links": {"Drives": [
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e0s4"},
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e0s5"},
            {"@odata.id": "/redfish/v1/Systems/1/Storage/c0/Drives/e0s6"}]}})");
}

/// The targets of all actions of a resource, Oem ones too.
std::vector<std::string> targets_of(const json& actions) {
    std::vector<std::string> targets;
    for (const auto& [name, action] : actions.items()) {
        if (name == "Oem") {
            const auto inner = targets_of(action);
            targets.insert(targets.end(), inner.begin(), inner.end());
        } else {
            targets.push_back(action["target"].get<std::string>());
        }
    }
    return targets;
}

}  // namespace

TEST_CASE("redfish: every link from the root leads somewhere, and resources know themselves") {
    Fixture fixture;
    const auto all = walk(fixture);
    for (const auto* expected :
         {"/redfish/v1/Systems/1", "/redfish/v1/Systems/1/Storage/c0",
          "/redfish/v1/Systems/1/Storage/c0/Controllers/0",
          "/redfish/v1/Systems/1/Storage/c0/Volumes/1",
          "/redfish/v1/Systems/1/Storage/c0/Drives/e0s3",
          "/redfish/v1/Systems/1/Storage/c0/Drives/x", "/redfish/v1/TaskService/Tasks/2"}) {
        INFO(expected);
        CHECK(all.contains(expected));
    }
    for (const auto& [uri, body] : all) {
        INFO(uri);
        if (uri.starts_with(root + "/Oem/")) {
            continue;  // Perch's own shape
        }
        CHECK(body.value("@odata.id", "") == uri);
        CHECK(body.value("@odata.type", "").starts_with("#"));
        CHECK_FALSE(body.value("Name", "").empty());
        if (body.contains("Members")) {
            CHECK(body["Members@odata.count"] == body["Members"].size());
        } else {
            CHECK_FALSE(body.value("Id", "").empty());
            // A member's Id is the last part of its URI, as clients take it.
            if (uri.find("/Volumes/") != std::string::npos ||
                uri.find("/Drives/") != std::string::npos) {
                CHECK(uri.substr(uri.rfind('/') + 1) == body.value("Id", ""));
            }
        }
    }
}

TEST_CASE("redfish: the version object, and a slash more or less") {
    Fixture fixture;
    CHECK(fixture.body_of("/redfish")["v1"] == "/redfish/v1/");
    CHECK(fixture.body_of("/redfish/v1") == fixture.body_of("/redfish/v1/"));
    CHECK(fixture.body_of(volumes) == fixture.body_of(volumes + "/"));
    // Query parameters without '$' that nobody knows are ignored.
    CHECK(fixture.body_of(volumes + "?colour=green") == fixture.body_of(volumes));
}

TEST_CASE("redfish: query options that are not offered are refused, not ignored (DSP0266 7.3)") {
    Fixture fixture;
    for (const auto* query : {"$select=Name", "$filter=Id%20eq%201", "$expand=*"}) {
        INFO(query);
        CHECK(fixture.get(volumes + "?" + query).status == 501);
    }
}

TEST_CASE("redfish: HEAD answers as GET does") {
    Fixture fixture;
    for (const auto& [uri, body] : walk(fixture)) {
        const auto response = fixture.ask("HEAD", uri, "", false);
        CHECK(response.status == 200);
        CHECK(response.headers == fixture.get(uri).headers);
    }
    CHECK(fixture.ask("HEAD", volumes + "/77", "", false).status == 404);
}

TEST_CASE("redfish: what does not exist is not found, whatever is asked of it") {
    Fixture fixture;
    for (const auto& uri :
         {std::string("/"), std::string(), std::string("/redfish/v2"), root + "/Chassis",
          volumes + "/2", volumes + "/01x", volumes + "/99999999999999999999", volumes + "/-1",
          drives + "/e0s77", drives + "/..", root + "/TaskService/Tasks/9",
          root + "/TaskService/Tasks/99999999999999999999", root + "/TaskService/TaskMonitors/9",
          std::string("/nonsense/c0/Volumes/1"), std::string("/x/c0/Drives/e0s0"),
          root + "/Systems/1/Storage/c1", std::string("redfish/v1"),
          std::string("http://localhost/redfish/v1")}) {
        for (const auto* method : {"GET", "HEAD", "POST", "DELETE", "PATCH", "PUT"}) {
            INFO(method << " " << uri);
            const auto status = fixture.ask(method, uri, "{}").status;
            const bool known = method[1] != 'A' && method[1] != 'U';
            CHECK((status == 404 || (!known && status == 405)));
        }
    }
    check_error(fixture.get(volumes + "/2"), 404, "not_found");
    CHECK(fixture.backend.names.empty());
}

TEST_CASE("redfish: methods that a resource has not are 405, and Allow tells the truth") {
    Fixture fixture;
    auto uris = walk(fixture);
    uris[drives + "/e0s0/Actions/Oem/PerchDrive.SetState"] = {};
    uris[volumes + "/1/Actions/Volume.Initialize"] = {};
    uris[volumes + "/1/Actions/Oem/PerchVolume.StopInitialize"] = {};
    uris[storage + "/Actions/Oem/PerchStorage.ImportForeign"] = {};
    uris[volumes + "/Members"] = {};
    std::set<std::string> lies;
    for (const auto& [uri, body] : uris) {
        for (const auto* method : {"POST", "DELETE", "PATCH", "PUT", "OPTIONS"}) {
            const auto response = fixture.ask(method, uri, "{}");
            if (response.status != 405) {
                continue;
            }
            INFO(method << " " << uri);
            REQUIRE(response.headers.contains("Allow"));
            const auto methods = allowed(response);
            CHECK_FALSE(methods.contains(method));
            for (const auto* other : {"GET", "HEAD", "POST", "DELETE", "PATCH", "PUT"}) {
                const bool works = fixture.ask(other, uri, "{}").status != 405;
                if (works != methods.contains(other)) {
                    lies.insert(fmt::format("{} {}: Allow {} {}", method, uri,
                                            works ? "lacks" : "names", other));
                }
            }
        }
    }
    INFO(fmt::format("{} of them, such as {}", lies.size(), lies.empty() ? "" : *lies.begin()));
    CHECK(lies.empty());
    CHECK(fixture.ask("PATCH", storage, "{}").status == 405);
    CHECK(fixture.ask("PUT", volumes + "/1", "{}").headers.at("Allow") ==
          "GET, HEAD, DELETE, PATCH");
    CHECK(fixture.ask("POST", root, "{}").status == 405);
    CHECK(fixture.ask("DELETE", volumes, "{}").status == 405);
    CHECK(fixture.ask("GET", drives + "/e0s0/Actions/Oem/PerchDrive.SetState").status == 405);
}

TEST_CASE("redfish: who may only look gets 403 for every change, and nothing is queued") {
    Fixture fixture;
    const auto action = drives + "/e0s0/Actions/Oem/PerchDrive.";
    for (const auto& [method, target, body] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"POST", volumes, create_body().dump()},
             {"POST", volumes + "/Members", create_body().dump()},
             {"POST", volumes, "not even JSON"},
             {"DELETE", volumes + "/1", ""},
             {"PATCH", volumes + "/1", R"({"Name": "x"})"},
             {"PUT", volumes + "/1", "{}"},
             {"POST", volumes + "/1/Actions/Volume.Initialize", R"({"InitializeType": "Fast"})"},
             {"POST", volumes + "/1/Actions/Volume.CheckConsistency", "{}"},
             {"POST", volumes + "/9/Actions/Volume.CheckConsistency", "{}"},
             {"POST", storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": []})"},
             {"POST", storage + "/Actions/Oem/PerchStorage.SetCoercion", R"({"Coercion": "1G"})"},
             {"POST", action + "AddSpare", "{}"},
             {"POST", action + "SetState", R"({"State": "Offline"})"},
             {"POST", action + "StartRebuild", ""},
             {"POST", action + "StopRebuild", ""},
             {"POST", action + "InsertMember", R"({"DriveGroup":0,"Array":0,"Row":3})"}}) {
        INFO(method << " " << target);
        check_error(fixture.ask(method, target, body, false), 403, "permission");
    }
    CHECK(fixture.backend.names.empty());
}

TEST_CASE("redfish: a VD is created by POST, in each of the shapes that clients send") {
    test::ControllerWorld world;
    Fixture fixture;
    auto dmtf = create_body();
    auto dell = create_body();
    dell["Drives"] = dell["Links"]["Drives"];
    dell.erase("Links");
    dell["@Redfish.OperationApplyTime"] = "Immediate";
    for (const auto& [target, body] :
         {std::pair{volumes, dmtf}, std::pair{volumes, dell}, std::pair{volumes + "/Members", dmtf},
          std::pair{volumes + "/", dmtf}}) {
        const auto response = fixture.ask("POST", target, body.dump());
        REQUIRE(response.status == 202);
        CHECK(response.headers.at("Location").starts_with(root + "/TaskService/TaskMonitors/4"));
        CHECK(response.headers.contains("Retry-After"));
        const auto task = json::parse(response.body);
        CHECK(task["TaskState"] == "Running");
        CHECK(task["TaskMonitor"] == response.headers.at("Location"));
        // What was queued does what was asked for, and says where to find it.
        const auto made = fixture.backend.operations.back()(*world.controller);
        REQUIRE(made);
        CHECK(*made == volumes + "/1");
        CHECK(world.vd().name == "data");
        CHECK(world.vd().strip_bytes == 128 * KiB);
        CHECK(world.vd().members.at(0).drive == "e0s4");
    }
    CHECK(world.shown().vds.size() == 1);
}

TEST_CASE("redfish: force goes to the controller only when it was asked for") {
    test::ControllerWorld world;
    SimDrives::set_content(world.drives.in_slot(4), "ext4 filesystem 'old'");
    Fixture fixture;
    auto body = create_body();
    CHECK(fixture.ask("POST", volumes, body.dump()).status == 202);
    CHECK(fixture.backend.operations.back()(*world.controller).error().code == Errc::data_found);
    body["Oem"]["Perch"]["Force"] = true;
    CHECK(fixture.ask("POST", volumes, body.dump()).status == 202);
    CHECK(fixture.backend.operations.back()(*world.controller));
}

TEST_CASE("redfish: bodies that are no request are 400, and nothing is queued") {
    Fixture fixture;
    const auto action = drives + "/e0s0/Actions/Oem/PerchDrive.";
    const std::vector<std::pair<std::string, std::string>> requests{
        {volumes, "{"},
        {volumes, "[]"},
        {volumes, "null"},
        {volumes, "7"},
        {volumes, "\xff\xfe"},
        {volumes, ""},
        {volumes, "{}"},
        {volumes, R"({"RAIDType": 5})"},
        {volumes, R"({"RAIDType": null})"},
        {volumes, R"({"RAIDType": "RAID5"})"},
        {volumes, R"({"RAIDType": "RAID5", "Links": 7})"},
        {volumes, R"({"RAIDType": "RAID5", "Links": {"Drives": 7}})"},
        {volumes, R"({"RAIDType": "RAID5", "Links": {"Drives": ["e0s0"]}})"},
        {volumes, R"({"RAIDType": "RAID5", "Links": {"Drives": [{}]}})"},
        {volumes, R"({"RAIDType": "RAID5", "Links": {"Drives": [{"@odata.id": 7}]}})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [{"@odata.id": "/somewhere/else"}]})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Name": 7})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "StripSizeBytes": "64k"})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Oem": 7})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Oem": {"Perch": {"Force": "yes"}}})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Oem": {"Perch": {"Engine": "md"}}})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Oem": {"Perch": {"Engine": 5}}})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "CapacityBytes": -1})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "CapacityBytes": 1.5})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "CapacityBytes": "1G"})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "StripSizeBytes": -65536})"},
        {volumes, R"({"RAIDType": "RAID50", "Drives": [], "Oem": {"Perch": {"PerSpan": "3"}}})"},
        {volumes, R"({"RAIDType": "RAID50", "Drives": [], "Oem": {"Perch": {"PerSpan": -3}}})"},
        {volumes, R"({"RAIDType": "RAID50", "Drives": [], "Oem": {"Perch": 7}})"},
        {volumes, R"({"RAIDType": "RAID10", "Drives": [], "MediaSpanCount": 0})"},
        {volumes, R"({"RAIDType": "RAID5", "Drives": [], "Links": {"DedicatedSpareDrives": 7}})"},
        {volumes + "/1/Actions/Volume.Initialize", "{}"},
        {volumes + "/1/Actions/Volume.Initialize", R"({"InitializeType": "Quick"})"},
        {volumes + "/1/Actions/Volume.Initialize", R"({"InitializeType": 7})"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", "{}"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": 0})"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": [-1]})"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": [1.5]})"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": ["0"]})"},
        {storage + "/Actions/Oem/PerchStorage.ClearForeign", R"({"Groups": [{}]})"},
        {storage + "/Actions/Oem/PerchStorage.ImportForeign",
         R"({"Groups": [{"Id": 0, "History": 7}]})"},
        {storage + "/Actions/Oem/PerchStorage.SetCoercion", "{}"},
        {storage + "/Actions/Oem/PerchStorage.SetCoercion", R"({"Coercion": "2G"})"},
        {storage + "/Actions/Oem/PerchStorage.SetCoercion", R"({"Coercion": 1})"},
        {action + "AddSpare", R"({"DriveGroups": ["a"]})"},
        {action + "AddSpare", R"({"DriveGroups": 0})"},
        {action + "AddSpare", R"({"DriveGroups": {"a": 0}})"},
        {action + "AddSpare", R"({"DriveGroups": [4097]})"},
        {action + "SetState", R"({"State": "JBOD", "Force": "yes"})"},
        {action + "SetState", "["},
        {action + "SetState", ""},
        {action + "SetState", R"({"State": "Shiny"})"},
        {action + "SetState", R"({"State": 7})"},
        {action + "SetState", R"({"State": null})"},
        {action + "InsertMember", "{}"},
        {action + "InsertMember", R"({"DriveGroup": 0, "Array": 0})"},
        {action + "InsertMember", R"({"DriveGroup": "x", "Array": 0, "Row": 0})"},
        {action + "InsertMember", R"({"DriveGroup": 0, "Array": 0, "Row": 0, "Force": 1})"},
    };
    for (const auto& [target, body] : requests) {
        INFO(target << " " << body);
        Response response;
        REQUIRE_NOTHROW(response = fixture.ask("POST", target, body));
        CHECK(response.status == 400);
    }
    CHECK(fixture.backend.names.empty());
}

TEST_CASE("redfish: a deeply nested body is no way to stop the daemon") {
    Fixture fixture;
    constexpr std::size_t depth = 500000;  // fits the 1 MiB that the server takes
    const auto nest = std::string(depth, '[') + std::string(depth, ']');
    for (const auto& body : {nest, "{\"RAIDType\":" + nest + "}", "{\"Name\":" + nest + "}"}) {
        CHECK(fixture.ask("POST", volumes, body).status == 400);
    }
}

TEST_CASE("redfish: levels and actions that are not in this version say so") {
    Fixture fixture;
    for (const auto* level : {"RAID3", "RAID00", "RAID6TP", "raid5", "None"}) {
        auto body = create_body();
        body["RAIDType"] = level;
        const auto response = fixture.ask("POST", volumes, body.dump());
        check_error(response, 501, "unsupported");
        CHECK(response.body.find(level) != std::string::npos);
    }
    for (const auto& target :
         {drives + "/e0s0/Actions/Oem/PerchDrive.Explode",
          volumes + "/1/Actions/Volume.ChangeRAIDLayout",
          volumes + "/1/Actions/Oem/PerchVolume.Explode", volumes + "/9/Actions/Volume.Initialize",
          storage + "/Actions/Oem/PerchStorage.Explode"}) {
        INFO(target);
        check_error(fixture.ask("POST", target, "{}"), 404, "not_found");
    }
    CHECK(fixture.backend.names.empty());
}

TEST_CASE("redfish: every level and every part of a request reaches the controller") {
    Fixture fixture;
    for (const auto* level : {"RAID0", "RAID1", "RAID5", "RAID6", "RAID10", "RAID50", "RAID60"}) {
        INFO(level);
        auto body = create_body();
        body["RAIDType"] = level;
        CHECK(fixture.ask("POST", volumes, body.dump()).status == 202);
    }
    CHECK(fixture.body_of(storage + "/Controllers/0")["SupportedRAIDTypes"] ==
          json({"RAID0", "RAID1", "RAID10", "RAID5", "RAID6", "RAID50", "RAID60"}));
    // What was queued for RAID10 of four drives is a VD of that size with a spare.
    test::ControllerWorld world;
    auto body = create_body();
    body["RAIDType"] = "RAID10";
    body["CapacityBytes"] = 256 * MiB;
    body["MediaSpanCount"] = 2;
    body["Links"] = {{"Drives", json::array()},
                     {"DedicatedSpareDrives", json::array({{{"@odata.id", drives + "/e0s7"}}})}};
    for (const int slot : {0, 1, 2, 3}) {
        body["Links"]["Drives"].push_back({{"@odata.id", drives + fmt::format("/e0s{}", slot)}});
    }
    REQUIRE(fixture.ask("POST", volumes, body.dump()).status == 202);
    REQUIRE(fixture.backend.operations.back()(*world.controller));
    CHECK(world.vd().level == "RAID10");
    CHECK(world.vd().per_span == 2);
    CHECK(world.vd().size_bytes == 256 * MiB);
    CHECK(world.drive("e0s7").state == DriveState::dedicated_spare);
    // The same in Perch's own word; spans that the drives do not make are refused at once.
    body.erase("MediaSpanCount");
    body["Oem"]["Perch"]["PerSpan"] = 3;
    REQUIRE(fixture.ask("POST", volumes, body.dump()).status == 202);
    CHECK_FALSE(fixture.backend.operations.back()(*world.controller));
    body.erase("Oem");
    body["MediaSpanCount"] = 3;
    CHECK(fixture.ask("POST", volumes, body.dump()).status == 400);
}

TEST_CASE("redfish: a VD is renamed by PATCH, which changes all it is asked to or nothing") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    Fixture fixture;
    const auto response =
        fixture.ask("PATCH", volumes + "/1", R"({"Name": "backup", "@odata.etag": "7"})");
    REQUIRE(response.status == 202);
    CHECK(response.headers.contains("Location"));
    REQUIRE(fixture.backend.operations.back()(*world.controller));
    CHECK(world.vd().name == "backup");
    const auto queued = fixture.backend.names.size();
    for (const auto* body :
         {"{}", R"({"@odata.id": "x"})", R"({"Name": 7})", R"({"RAIDType": "RAID6"})",
          R"({"Name": "x", "CapacityBytes": 1})", R"({"Name": null})", "[]"}) {
        INFO(body);
        CHECK(fixture.ask("PATCH", volumes + "/1", body).status == 400);
    }
    check_error(fixture.ask("PATCH", volumes + "/9", R"({"Name": "x"})"), 404, "not_found");
    CHECK(fixture.backend.names.size() == queued);
}

TEST_CASE("redfish: actions of a VD do what they say") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    world.settle();
    Fixture fixture;
    const auto act = [&](const std::string& action, const json& body) {
        const auto response = fixture.ask("POST", volumes + "/1/Actions/" + action, body.dump());
        REQUIRE(response.status == 202);
        return fixture.backend.operations.back()(*world.controller);
    };
    // The controller's own words tell which of its requests was called.
    CHECK(act("Volume.Initialize", {{"InitializeType", "Fast"}}));
    CHECK(
        act("Volume.Initialize", {{"InitializeType", "Slow"}, {"InitializeMethod", "Background"}}));
    CHECK(fixture.backend.names.back() == "Initialize v1");
    act("Oem/PerchVolume.StopInitialize", json::object());
    CHECK(fixture.backend.names.back() == "Stop the initialization of v1");
    act("Volume.CheckConsistency", json::object());
    CHECK(fixture.backend.names.back() == "Check v1");
    act("Oem/PerchVolume.StopCheckConsistency", json::object());
    CHECK(fixture.backend.names.back() == "Stop the check of v1");
}

TEST_CASE("redfish: spares and states of drives") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    world.settle();
    Fixture fixture;
    const auto act = [&](const std::string& drive, const std::string& action, const json& body) {
        const auto response = fixture.ask(
            "POST", drives + "/" + drive + "/Actions/Oem/PerchDrive." + action, body.dump());
        REQUIRE(response.status == 202);
        const auto done = fixture.backend.operations.back()(*world.controller);
        INFO(action << ": " << (done ? "" : done.error().message));
        REQUIRE(done);
    };
    act("e0s5", "AddSpare", {{"DriveGroups", {0}}});
    CHECK(world.drive("e0s5").state == DriveState::dedicated_spare);
    CHECK(world.drive("e0s5").spare_for == std::vector<int>{0});
    act("e0s6", "AddSpare", json::object());
    CHECK(world.drive("e0s6").state == DriveState::global_spare);
    fixture.backend.shown = world.shown();
    CHECK(fixture.body_of(drives + "/e0s5")["HotspareType"] == "Dedicated");
    CHECK(fixture.body_of(drives + "/e0s5")["Status"]["State"] == "StandbySpare");
    CHECK(fixture.body_of(drives + "/e0s6")["HotspareType"] == "Global");
    CHECK(fixture.body_of(drives + "/e0s0")["HotspareType"] == "None");
    CHECK(fixture.body_of(volumes + "/1")["Links"]["DedicatedSpareDrives"] ==
          json::array({{{"@odata.id", drives + "/e0s5"}}}));
    act("e0s6", "DeleteSpare", json::object());
    CHECK(world.drive("e0s6").state == DriveState::unconfigured);
    act("e0s7", "SetState", {{"State", "JBOD"}});
    CHECK(world.drive("e0s7").state == DriveState::jbod);
    act("e0s7", "SetState", {{"State", "Unconfigured"}, {"Force", true}});
    CHECK(world.drive("e0s7").state == DriveState::unconfigured);
    act("e0s1", "SetState", {{"State", "Offline"}});
    act("e0s1", "SetState", {{"State", "Missing"}});
    CHECK(world.vd().members.at(1).drive.empty());
}

TEST_CASE("redfish: coercion, and foreign groups that are not what the client saw") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    world.settle();
    Fixture fixture;
    const auto action = storage + "/Actions/Oem/PerchStorage.";
    REQUIRE(fixture.ask("POST", action + "SetCoercion", R"({"Coercion": "128M"})").status == 202);
    REQUIRE(fixture.backend.operations.back()(*world.controller));
    CHECK(world.shown().coercion == "128M");
    for (const auto* name : {"ImportForeign", "ClearForeign"}) {
        INFO(name);
        for (const auto* groups : {"[0]", R"([{"Id": 0, "History": "x", "OriginalGroup": 1}])"}) {
            const auto body = fmt::format(R"({{"Groups": {}}})", groups);
            REQUIRE(fixture.ask("POST", action + name, body).status == 202);
            const auto done = fixture.backend.operations.back()(*world.controller);
            REQUIRE_FALSE(done);
            CHECK(done.error().code == Errc::not_found);
        }
    }
    CHECK(world.shown().vds.size() == 1);
    // Foreign groups are shown where a client finds the numbers and what they mean.
    fixture.backend.shown = cli::test::spans_snapshot();
    const auto oem = fixture.body_of(storage)["Oem"]["Perch"];
    CHECK(oem["Coercion"] == "128M");
    REQUIRE(oem["ForeignGroups"].size() == 2);
    CHECK(oem["ForeignGroups"][0]["OriginalGroup"] == 4);
    CHECK(oem["ForeignGroups"][0]["Volumes"][0]["NameAfterImport"] == "one-2");
    CHECK(oem["ForeignGroups"][0]["Drives"][0]["@odata.id"] == drives + "/e0s9");
}

TEST_CASE("redfish: actions of a drive do what they say") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    world.settle();
    Fixture fixture;
    const auto act = [&](const std::string& drive, const std::string& action, const json& body) {
        const auto response = fixture.ask(
            "POST", drives + "/" + drive + "/Actions/Oem/PerchDrive." + action, body.dump());
        REQUIRE(response.status == 202);
        const auto done = fixture.backend.operations.back()(*world.controller);
        INFO(action << ": " << (done ? "" : done.error().message));
        REQUIRE(done);
        CHECK(done->empty());
    };
    act("e0s1", "SetState", {{"State", "Offline"}});
    CHECK(world.member(1) == DriveStatus::offline);
    act("e0s1", "StartRebuild", json::object());
    CHECK(world.member(1) == DriveStatus::rebuild);
    act("e0s1", "StopRebuild", json::object());
    CHECK(world.member(1) == DriveStatus::offline);
    act("e0s1", "SetState", {{"State", "Online"}});
    CHECK(world.member(1) == DriveStatus::rebuild);
    act("e0s1", "StopRebuild", json::object());
    act("e0s6", "InsertMember", {{"DriveGroup", 0}, {"Array", 0}, {"Row", 1}});
    CHECK(world.vd().members.at(1).drive == "e0s6");
}

TEST_CASE("redfish: the actions that resources offer exist") {
    Fixture fixture;
    std::size_t count = 0;
    for (const auto& uri : {drives + "/e0s0", volumes + "/1", storage}) {
        for (const auto& target : targets_of(fixture.body_of(uri)["Actions"])) {
            INFO(target);
            const auto status = fixture.ask("POST", target, "{}").status;
            CHECK((status == 202 || status == 400));
            ++count;
        }
    }
    CHECK(count == 6 + 4 + 3);
}

TEST_CASE("redfish: deleting a VD") {
    test::ControllerWorld world;
    REQUIRE(world.controller->create_vd(test::raid5({0, 1, 2, 3})));
    Fixture fixture;
    check_error(fixture.ask("DELETE", volumes + "/9"), 404, "not_found");
    REQUIRE(fixture.ask("DELETE", volumes + "/1").status == 202);
    CHECK(fixture.backend.operations.back()(*world.controller));
    CHECK(world.shown().vds.empty());
}

TEST_CASE("redfish: a task monitor answers 202 until the task ends, then as the task did") {
    Fixture fixture;
    const auto monitor = root + "/TaskService/TaskMonitors/";
    const auto running = fixture.get(monitor + "1");
    CHECK(running.status == 202);
    CHECK(running.headers.at("Location") == monitor + "1");
    CHECK(running.headers.contains("Retry-After"));
    const auto done = fixture.get(monitor + "2");
    CHECK(done.status == 200);
    CHECK(done.headers.at("Location") == volumes + "/1");
    const auto failed = fixture.get(monitor + "3");
    check_error(failed, 409, "in_use");
    CHECK(failed.body.find("mounted on /srv") != std::string::npos);
    // The task itself can be read all along.
    CHECK(fixture.body_of(root + "/TaskService/Tasks/1")["TaskState"] == "Running");
    CHECK(fixture.body_of(root + "/TaskService/Tasks/2")["TaskStatus"] == "OK");
    const auto task = fixture.body_of(root + "/TaskService/Tasks/3");
    CHECK(task["TaskState"] == "Exception");
    CHECK(task["TaskStatus"] == "Critical");
    CHECK(task["Messages"][0]["MessageId"] == "Perch.1.0.in_use");
}

TEST_CASE("redfish: what monitoring reads of volumes and drives") {
    Fixture fixture;
    auto& vd = fixture.backend.shown.vds[0];
    auto volume = fixture.body_of(volumes + "/1");
    CHECK(volume["RAIDType"] == "RAID5");
    CHECK(volume["CapacityBytes"] == 21 * GiB);
    CHECK(volume["StripSizeBytes"] == 64 * KiB);
    CHECK(volume["OptimumIOSizeBytes"] == 192 * KiB);
    CHECK(volume["Status"] == json::parse(R"({"State": "Enabled", "Health": "Warning"})"));
    CHECK(volume["Links"]["Drives"].size() == 4);
    CHECK(volume["Operations"].empty());
    CHECK(volume["MediaSpanCount"] == 1);
    CHECK(volume["Oem"]["Perch"]["State"] == "Degraded");
    vd.operation = Operation{OperationKind::rebuild, 41.7, 60, 0};
    volume = fixture.body_of(volumes + "/1");
    CHECK(volume["Operations"][0]["Operation"] == "Rebuild");
    CHECK(volume["Operations"][0]["PercentageComplete"] == 41);
    for (const auto& [kind, word] : {std::pair{OperationKind::check, "CheckConsistency"},
                                     std::pair{OperationKind::init, "Initialize"},
                                     std::pair{OperationKind::resync, "Initialize"}}) {
        vd.operation->kind = kind;
        CHECK(fixture.body_of(volumes + "/1")["Operations"][0]["Operation"] == word);
        CHECK(fixture.body_of(volumes + "/1")["Operations"][0]["OperationName"] == to_string(kind));
    }
    vd.operation.reset();
    vd.state = VdState::partially_degraded;
    CHECK(fixture.body_of(volumes + "/1")["Status"] ==
          json::parse(R"({"State": "Enabled", "Health": "Warning"})"));
    CHECK(fixture.body_of(storage)["Status"]["Health"] == "Warning");
    vd.state = VdState::offline;
    CHECK(fixture.body_of(volumes + "/1")["Status"]["Health"] == "Critical");
    CHECK(fixture.body_of(storage)["Status"]["Health"] == "Critical");
    vd.state = VdState::optimal;
    vd.operation.reset();
    CHECK(fixture.body_of(volumes + "/1")["Status"]["Health"] == "OK");
    // A missing member is a resource too (failures 52).
    const auto missing = fixture.body_of(drives + "/e0s3");
    CHECK(missing["Status"]["State"] == "Absent");
    CHECK(missing["SerialNumber"] == "SN3");
    CHECK(missing["Links"]["Volumes"][0]["@odata.id"] == volumes + "/1");
    const auto worn = fixture.body_of(drives + "/e0s0");
    CHECK(worn["PredictedMediaLifeLeftPercent"] == 99);
    CHECK(worn["FailurePredicted"] == false);
}

TEST_CASE("redfish: what a row of each level holds") {
    Fixture fixture;
    fixture.backend.shown = cli::test::spans_snapshot();
    auto& vd = fixture.backend.shown.vds[0];
    const auto shown = [&](const std::string& level, int members, int per_span) {
        vd.level = level;
        vd.per_span = per_span;
        vd.members.resize(static_cast<std::size_t>(members));
        const auto body = fixture.body_of(volumes + "/1");
        CHECK(body["RAIDType"] == level);
        return std::pair(body["OptimumIOSizeBytes"].get<std::uint64_t>() / (64 * KiB),
                         body["MediaSpanCount"].get<int>());
    };
    CHECK(shown("RAID0", 4, 4) == std::pair(std::uint64_t{4}, 1));
    CHECK(shown("RAID1", 3, 3) == std::pair(std::uint64_t{1}, 1));
    CHECK(shown("RAID10", 6, 2) == std::pair(std::uint64_t{3}, 3));
    CHECK(shown("RAID5", 5, 5) == std::pair(std::uint64_t{4}, 1));
    CHECK(shown("RAID6", 5, 5) == std::pair(std::uint64_t{3}, 1));
    CHECK(shown("RAID50", 6, 3) == std::pair(std::uint64_t{4}, 2));
    CHECK(shown("RAID60", 8, 4) == std::pair(std::uint64_t{4}, 2));
    // An empty place is no link; a level of a newer version is shown as it is.
    vd.level = "RAID77";
    CHECK_FALSE(fixture.body_of(volumes + "/1").contains("OptimumIOSizeBytes"));
    CHECK(fixture.body_of(volumes + "/2")["Links"]["Drives"].size() == 3);
}

TEST_CASE("redfish: text that is no UTF-8 is shown somehow, and stops nothing") {
    // A label written by an old system in Latin-1, a mount point of any bytes, a serial of 0xff.
    Fixture fixture;
    fixture.backend.shown.drives[5].content = "ext4 filesystem 'M\xfcller'";
    fixture.backend.shown.drives[5].serial = "SN\xff\xff";
    fixture.backend.shown.vds[0].users = {"mounted on /srv/\xe9t\xe9"};
    for (const auto& uri : {std::string(snapshot_uri), volumes + "/1", drives + "/e0s7"}) {
        INFO(uri);
        Response response;
        REQUIRE_NOTHROW(response = fixture.get(uri));
        CHECK(response.status == 200);
        CHECK(json::accept(response.body));
    }
    // And what a client sends comes back in no error text that cannot be written.
    Response response;
    REQUIRE_NOTHROW(response = fixture.get("/redfish/v1/\xff\xfe"));
    CHECK(response.status == 404);
}

TEST_CASE("redfish: the snapshot is the one that perchcli reads") {
    Fixture fixture;
    const auto snapshot = snapshot_from_json(fixture.body_of(snapshot_uri));
    REQUIRE(snapshot);
    CHECK(*snapshot == fixture.backend.shown);
}

TEST_CASE("redfish: ?after= is the generation to wait for") {
    const std::string uri = snapshot_uri;
    const auto awaited = [](const std::string& method, const std::string& target) {
        return Service::awaited_generation({method, target, "", false});
    };
    CHECK(awaited("GET", uri) == 0);
    CHECK(awaited("GET", uri + "?after=7") == 7);
    CHECK(awaited("GET", uri + "/?after=7") == 7);
    CHECK(awaited("GET", uri + "?x=1&after=7&y=2") == 7);
    CHECK(awaited("GET", uri + "?after=18446744073709551615") == UINT64_MAX);
    CHECK(awaited("GET", uri + "?afterwards=7") == 0);
    CHECK(awaited("GET", uri + "?&&=&") == 0);
    // Nothing else waits.
    CHECK_FALSE(awaited("HEAD", uri + "?after=7"));
    CHECK_FALSE(awaited("POST", uri + "?after=7"));
    CHECK_FALSE(awaited("GET", root + "?after=7"));
    CHECK_FALSE(awaited("GET", root + "/Oem/Perch/Events?after=7"));
}

TEST_CASE("redfish: an ?after= that is no number is refused, and not waited for") {
    Fixture fixture;
    for (const auto* value : {"", "x", "-1", "7x", "0x7", "1.5", "18446744073709551616", "%37"}) {
        for (const auto& uri : {std::string(snapshot_uri), root + "/Oem/Perch/Events"}) {
            INFO(uri << " after=" << value);
            const Request request{"GET", uri + "?after=" + value, "", false};
            CHECK_FALSE(Service::awaited_generation(request));
            CHECK(fixture.service.handle(request).status == 400);
        }
    }
}

TEST_CASE("redfish: events after a number, and only the latest") {
    Fixture fixture;
    const auto events = fixture.body_of(root + "/Oem/Perch/Events?after=41&latest=5");
    CHECK(fixture.backend.asked_after == 41);
    CHECK(fixture.backend.asked_latest == 5);
    CHECK(events["Events"][0]["sequence"] == 42);
    fixture.body_of(root + "/Oem/Perch/Events");
    CHECK(fixture.backend.asked_after == 0);
    CHECK(fixture.backend.asked_latest == 0);
    CHECK(fixture.get(root + "/Oem/Perch/Events?latest=all").status == 400);
}

TEST_CASE("redfish: each error code becomes its status, with DMTF's error object") {
    for (int i = 0; i <= static_cast<int>(Errc::internal); ++i) {
        const auto code = static_cast<Errc>(i);
        const auto& info = errc_info(code);
        INFO(info.name);
        check_error(error_response({code, "why"}), info.http_status, std::string(info.name));
    }
}
