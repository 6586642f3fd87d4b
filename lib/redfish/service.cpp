// SPDX-License-Identifier: GPL-2.0-or-later
#include "redfish/service.hpp"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <regex>

#include "redfish/resources.hpp"
#include "util/json_depth.hpp"

namespace perch::redfish {

using nlohmann::json;

namespace {

constexpr const char* drives_prefix = "/redfish/v1/Systems/1/Storage/c0/Drives/";

std::string path_of(const std::string& target) {
    auto path = target.substr(0, target.find('?'));
    // "/redfish/v1" and "/redfish/v1/" are one resource, and so is every other pair.
    while (path.size() > 1 && path.back() == '/') {
        path.pop_back();
    }
    return path;
}

/// A non-negative number from the query; nullopt when absent. Errc::invalid_argument otherwise.
Result<std::optional<std::uint64_t>> query_number(const std::string& target,
                                                  std::string_view name) {
    const auto mark = target.find('?');
    if (mark == std::string::npos) {
        return std::optional<std::uint64_t>();
    }
    std::string_view query(target);
    query.remove_prefix(mark + 1);
    while (!query.empty()) {
        const auto end = std::min(query.find('&'), query.size());
        const auto pair = query.substr(0, end);
        query.remove_prefix(std::min(end + 1, query.size()));
        const auto equals = pair.find('=');
        if (pair.substr(0, equals) != name || equals == std::string_view::npos) {
            continue;
        }
        const auto text = pair.substr(equals + 1);
        std::uint64_t value = 0;
        const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc() || rest != text.data() + text.size()) {
            return fail(Errc::invalid_argument, "'{}' is not a number for {}", text, name);
        }
        return std::optional(value);
    }
    return std::optional<std::uint64_t>();
}

Response json_response(const json& body, unsigned status = 200) {
    Response response;
    response.status = status;
    response.headers["Content-Type"] = "application/json; charset=utf-8";
    // Labels and mount points of others need not be UTF-8.
    response.body = body.dump(-1, ' ', false, json::error_handler_t::replace);
    return response;
}

Response not_allowed(const std::string& allow, const std::string& path) {
    auto response =
        error_response({Errc::unsupported, fmt::format("{} allows only {}", path, allow)});
    response.status = 405;
    response.headers["Allow"] = allow;
    return response;
}

Response accepted(std::uint64_t task_id, const std::string& name) {
    auto response = json_response(task(TaskInfo{task_id, name, "Running", "", "", ""}), 202);
    response.headers["Location"] = fmt::format("/redfish/v1/TaskService/TaskMonitors/{}", task_id);
    response.headers.emplace("Retry-After", "1");
    return response;
}

Result<json> parse_body(const Request& request) {
    constexpr int max_depth = 16;
    if (!json_depth_within(request.body, max_depth)) {
        return fail(Errc::syntax, "the request's body is nested too deeply");
    }
    auto body = json::parse(request.body.empty() ? "{}" : request.body, nullptr, false);
    if (!body.is_object()) {
        return fail(Errc::syntax, "the request's body is not a JSON object");
    }
    return body;
}

/// "e0s3" from {"@odata.id": "…/Drives/e0s3"}.
std::string drive_of_link(const json& item) {
    const auto uri = path_of(item.at("@odata.id").get<std::string>());
    const std::string_view prefix(drives_prefix);
    if (!uri.starts_with(prefix)) {
        throw std::invalid_argument(uri + " is not a drive of this controller");
    }
    return uri.substr(prefix.size());
}

Result<CreateRequest> parse_create(const json& body) {
    try {
        CreateRequest request;
        const auto level = body.value("RAIDType", "");
        if (level.empty()) {
            return fail(Errc::invalid_argument, "RAIDType is missing");
        }
        if (level != "RAID5") {
            return fail(Errc::unsupported, "{} is not in this version; RAID5 is", level);
        }
        request.name = body.value("Name", "");
        request.strip_bytes = body.value("StripSizeBytes", default_strip_bytes);
        // DMTF's place and Dell's.
        const auto& links =
            body.contains("Drives") ? body.at("Drives") : body.at("Links").at("Drives");
        for (const auto& item : links) {
            request.drives.push_back(drive_of_link(item));
        }
        request.force = body.contains("Oem") && body.at("Oem").at("Perch").value("Force", false);
        return request;
    } catch (const json::exception& error) {
        return fail(Errc::invalid_argument, "the request cannot be used: {}", error.what());
    } catch (const std::invalid_argument& error) {
        return fail(Errc::invalid_argument, "{}", error.what());
    }
}

/// A number that must not be cut to fit an int.
int small_number(const json& body, const char* name) {
    constexpr std::int64_t most = 4096;
    const auto value = body.at(name).get<std::int64_t>();
    if (!body.at(name).is_number_integer() || value < 0 || value > most) {
        throw std::invalid_argument(fmt::format("{} is a number from 0 to {}", name, most));
    }
    return static_cast<int>(value);
}

Result<InsertRequest> parse_insert(const std::string& drive, const json& body) {
    try {
        InsertRequest request;
        request.drive = drive;
        request.group = small_number(body, "DriveGroup");
        request.array = small_number(body, "Array");
        request.row = small_number(body, "Row");
        request.force = body.value("Force", false);
        return request;
    } catch (const json::exception& error) {
        return fail(Errc::invalid_argument, "the request cannot be used: {}", error.what());
    } catch (const std::invalid_argument& error) {
        return fail(Errc::invalid_argument, "{}", error.what());
    }
}

/// A request for something under a drive's Oem actions.
struct DriveAction {
    std::string name;
    Backend::Operation operation;
};

Backend::Operation done_with(std::function<Result<void>(Controller&)> action) {
    return [action = std::move(action)](Controller& controller) -> Result<std::string> {
        return action(controller).map([] { return std::string(); });
    };
}

Result<DriveAction> drive_action(const std::string& drive, const std::string& action,
                                 const json& body) {
    if (action == "SetState") {
        const auto given = body.value("State", json());
        const auto state = given.is_string() ? given.get<std::string>() : "";
        if (state == "Offline") {
            return DriveAction{"Set " + drive + " offline",
                               done_with([drive](Controller& c) { return c.set_offline(drive); })};
        }
        if (state == "Online") {
            return DriveAction{"Set " + drive + " online",
                               done_with([drive](Controller& c) { return c.set_online(drive); })};
        }
        return fail(Errc::invalid_argument, "State is Offline or Online, not '{}'", state);
    }
    if (action == "InsertMember") {
        return parse_insert(drive, body).map([&](const InsertRequest& request) {
            return DriveAction{"Insert " + drive, done_with([request](Controller& c) {
                                   return c.insert_member(request);
                               })};
        });
    }
    if (action == "StartRebuild") {
        return DriveAction{"Start rebuild of " + drive,
                           done_with([drive](Controller& c) { return c.start_rebuild(drive); })};
    }
    if (action == "StopRebuild") {
        return DriveAction{"Stop rebuild of " + drive,
                           done_with([drive](Controller& c) { return c.stop_rebuild(drive); })};
    }
    return fail(Errc::not_found, "a drive has no action '{}'", action);
}

Response post_drive_action(Backend& backend, const Request& request, const std::string& drive,
                           const std::string& action) {
    const auto body = parse_body(request);
    const auto parsed =
        body.and_then([&](const json& object) { return drive_action(drive, action, object); });
    if (!parsed) {
        return error_response(parsed.error());
    }
    return accepted(backend.submit(parsed->name, parsed->operation), parsed->name);
}

Response post_volume(Backend& backend, const Request& request) {
    const auto create = parse_body(request).and_then(parse_create);
    if (!create) {
        return error_response(create.error());
    }
    const std::string name = "Create a VD";
    return accepted(backend.submit(name,
                                   [create = *create](Controller& controller) {
                                       return controller.create_vd(create).map([](int id) {
                                           return fmt::format("{}/Volumes/{}", storage_uri, id);
                                       });
                                   }),
                    name);
}

Response delete_volume(Backend& backend, int id) {
    if (find_vd(*backend.snapshot(), id) == nullptr) {
        return error_response({Errc::not_found, fmt::format("no VD {}", id)});
    }
    const auto name = fmt::format("Delete v{}", id);
    return accepted(
        backend.submit(name, done_with([id](Controller& c) { return c.delete_vd(id); })), name);
}

Response monitor(const Snapshot& snapshot, std::uint64_t id) {
    for (const auto& row : snapshot.tasks) {
        if (row.id != id) {
            continue;
        }
        if (row.state == "Running") {
            return accepted(row.id, row.name);
        }
        if (row.state == "Exception") {
            return error_response({errc_from_name(row.error), row.message});
        }
        auto response = json_response(task(row));
        if (!row.target.empty()) {
            response.headers["Location"] = row.target;
        }
        return response;
    }
    return error_response({Errc::not_found, fmt::format("no task {}", id)});
}

Response events(Backend& backend, const Request& request) {
    constexpr std::uint64_t no_limit = 0;
    const auto after = query_number(request.target, "after");
    const auto latest = query_number(request.target, "latest");
    if (!after || !latest) {
        return error_response(!after ? after.error() : latest.error());
    }
    auto list = json::array();
    for (const auto& event : backend.events(after->value_or(0), latest->value_or(no_limit))) {
        list.push_back(event_to_json(event));
    }
    return json_response({{"Events", list}});
}

/// DSP0266 7.3: query options that are not offered answer 501, others that are not known are
/// ignored.
std::optional<Response> check_query(const std::string& target) {
    const auto mark = target.find('?');
    if (mark == std::string::npos) {
        return std::nullopt;
    }
    const auto query = target.substr(mark);
    if (query.find("?$") != std::string::npos || query.find("&$") != std::string::npos) {
        return error_response(
            {Errc::unsupported, "query options beginning with $ are not offered"});
    }
    if (const auto after = query_number(target, "after"); !after) {
        return error_response(after.error());
    }
    return std::nullopt;
}

/// GET of everything that has no number in its path.
std::optional<json> fixed_resource(const std::string& path, const Snapshot& snapshot) {
    const std::string storage_path = storage_uri;
    if (path == "/redfish") {
        return json{{"v1", "/redfish/v1/"}};
    }
    if (path == "/redfish/v1") {
        return service_root(snapshot);
    }
    if (path == "/redfish/v1/Systems") {
        return systems();
    }
    if (path == "/redfish/v1/Systems/1") {
        return system(snapshot);
    }
    if (path == "/redfish/v1/Systems/1/Storage") {
        return storage_collection();
    }
    if (path == storage_path) {
        return storage(snapshot);
    }
    if (path == storage_path + "/Controllers") {
        return controller_collection();
    }
    if (path == storage_path + "/Controllers/0") {
        return storage_controller(snapshot);
    }
    if (path == storage_path + "/Volumes") {
        return volume_collection(snapshot);
    }
    if (path == "/redfish/v1/TaskService") {
        return task_service();
    }
    if (path == "/redfish/v1/TaskService/Tasks") {
        return task_collection(snapshot);
    }
    if (path == snapshot_uri) {
        return snapshot_to_json(snapshot);
    }
    return std::nullopt;
}

std::optional<json> numbered_resource(const std::string& path, const Snapshot& snapshot) {
    static const std::regex volume_path("/redfish/v1/Systems/1/Storage/c0/Volumes/([0-9]{1,4})");
    static const std::regex drive_path("/redfish/v1/Systems/1/Storage/c0/Drives/([A-Za-z0-9_.-]+)");
    static const std::regex task_path("/redfish/v1/TaskService/Tasks/([0-9]{1,18})");
    std::smatch match;
    if (std::regex_match(path, match, volume_path)) {
        const auto* vd = find_vd(snapshot, std::stoi(match[1]));
        return vd == nullptr ? std::nullopt : std::optional(volume(snapshot, *vd));
    }
    if (std::regex_match(path, match, drive_path)) {
        const auto* row = find_drive(snapshot, match[1]);
        return row == nullptr ? std::nullopt : std::optional(drive(snapshot, *row));
    }
    if (std::regex_match(path, match, task_path)) {
        for (const auto& row : snapshot.tasks) {
            if (std::to_string(row.id) == match[1]) {
                return task(row);
            }
        }
    }
    return std::nullopt;
}

Response get(Backend& backend, const Request& request, const std::string& path) {
    static const std::regex monitor_path("/redfish/v1/TaskService/TaskMonitors/([0-9]{1,18})");
    const auto snapshot = backend.snapshot();
    std::smatch match;
    if (path == "/redfish/v1/Oem/Perch/Events") {
        return events(backend, request);
    }
    if (std::regex_match(path, match, monitor_path)) {
        return monitor(*snapshot, std::stoull(match[1]));
    }
    if (auto body = fixed_resource(path, *snapshot)) {
        return json_response(*body);
    }
    if (auto body = numbered_resource(path, *snapshot)) {
        return json_response(*body);
    }
    return error_response({Errc::not_found, fmt::format("no resource {}", path)});
}

}  // namespace

Response error_response(const Error& error) {
    const auto& info = errc_info(error.code);
    const auto id = fmt::format("Perch.1.0.{}", info.name);
    auto response = json_response(
        {{"error",
          {{"code", id},
           {"message", error.message},
           {"@Message.ExtendedInfo", json::array({{{"@odata.type", "#Message.v1_1_1.Message"},
                                                   {"MessageId", id},
                                                   {"Message", error.message},
                                                   {"Severity", "Critical"}}})}}}},
        info.http_status);
    return response;
}

std::optional<std::uint64_t> Service::awaited_generation(const Request& request) {
    if (request.method != "GET" || path_of(request.target) != snapshot_uri) {
        return std::nullopt;
    }
    return query_number(request.target, "after")
        .map([](const std::optional<std::uint64_t>& after) {
            return std::optional(after.value_or(0));
        })
        .value_or(std::nullopt);
}

Response Service::handle(const Request& request) {
    if (auto refused = check_query(request.target)) {
        return *refused;
    }
    // Before anything else: who may not change things learns nothing by trying.
    if (!request.may_change && (request.method == "POST" || request.method == "DELETE")) {
        return error_response(
            {Errc::permission, "only root and members of group perch may change things"});
    }
    static const std::regex action_path(
        "/redfish/v1/Systems/1/Storage/c0/Drives/([A-Za-z0-9_.-]+)/Actions/Oem/PerchDrive\\."
        "([A-Za-z]+)");
    static const std::regex volume_path("/redfish/v1/Systems/1/Storage/c0/Volumes/([0-9]{1,4})");
    const auto path = path_of(request.target);
    const auto volumes = std::string(storage_uri) + "/Volumes";
    std::smatch match;
    std::string allow = "GET, HEAD";
    std::function<Response()> change;
    if (std::regex_match(path, match, action_path)) {
        allow = "POST";
        change = [&] { return post_drive_action(backend_, request, match[1], match[2]); };
    } else if (path == volumes + "/Members") {
        allow = "POST";
        change = [&] { return post_volume(backend_, request); };
    } else {
        // What exists can be read; what does not exist is not found, whatever the method.
        auto readable = get(backend_, request, path);
        if (request.method == "GET" || request.method == "HEAD" || readable.status == 404) {
            return readable;
        }
        if (path == volumes) {
            allow += ", POST";
            change = [&] { return post_volume(backend_, request); };
        } else if (std::regex_match(path, match, volume_path)) {
            allow += ", DELETE";
            change = [&] { return delete_volume(backend_, std::stoi(match[1])); };
        }
    }
    if (!change || request.method != (allow.ends_with("DELETE") ? "DELETE" : "POST")) {
        return not_allowed(allow, path);
    }
    return change();
}

}  // namespace perch::redfish
