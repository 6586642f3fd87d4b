// SPDX-License-Identifier: GPL-2.0-or-later
#include "redfish/service.hpp"

#include <algorithm>
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

/// Runs a parser; what nlohmann's accessors throw at a wrong type becomes a refusal.
template <typename Parser>
auto understand(Parser parser) -> decltype(parser()) {
    try {
        return parser();
    } catch (const json::exception& error) {
        return fail(Errc::invalid_argument, "the request cannot be used: {}", error.what());
    } catch (const std::invalid_argument& error) {
        return fail(Errc::invalid_argument, "{}", error.what());
    }
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

/// The items of a list; nlohmann would walk through anything.
const json& items_of(const json& list, const char* name) {
    if (!list.is_array()) {
        throw std::invalid_argument(fmt::format("{} is a list", name));
    }
    return list;
}

std::vector<std::string> drives_of_links(const json& links, const char* name) {
    std::vector<std::string> drives;
    for (const auto& item : items_of(links, name)) {
        drives.push_back(drive_of_link(item));
    }
    return drives;
}

/// A number that must not be cut to fit an int.
int small_number(const json& value, const char* name) {
    constexpr std::int64_t most = 4096;
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
        value.get<std::int64_t>() > most) {
        throw std::invalid_argument(fmt::format("{} is a number from 0 to {}", name, most));
    }
    return value.get<int>();
}

/// Bytes; nlohmann would take a negative or a broken number for some other one.
std::optional<std::uint64_t> bytes_of(const json& body, const char* name) {
    if (!body.contains(name)) {
        return std::nullopt;
    }
    if (!body.at(name).is_number_unsigned()) {
        throw std::invalid_argument(fmt::format("{} is a whole number of bytes", name));
    }
    return body.at(name).get<std::uint64_t>();
}

/// Members of one span: Perch's own word, or DMTF's number of spans.
int per_span_of(const json& body, const json& oem, std::size_t drives) {
    if (oem.contains("PerSpan")) {
        return small_number(oem.at("PerSpan"), "PerSpan");
    }
    if (!body.contains("MediaSpanCount")) {
        return 0;
    }
    const auto spans = small_number(body.at("MediaSpanCount"), "MediaSpanCount");
    if (spans == 0 || drives % static_cast<std::size_t>(spans) != 0) {
        throw std::invalid_argument(
            fmt::format("{} drives cannot be split into {} equal spans", drives, spans));
    }
    return static_cast<int>(drives) / spans;
}

Result<RaidLevel> parse_level(const json& body) {
    const auto name = body.value("RAIDType", "");
    if (name.empty()) {
        return fail(Errc::invalid_argument, "RAIDType is missing");
    }
    const auto level = parse_raid_level(name);
    // Redfish's enumerations have one spelling.
    if (!level || to_string(*level) != name) {
        return fail(Errc::unsupported, "{} is not in this version; {} are", name,
                    fmt::join(raid_types(), ", "));
    }
    return *level;
}

Result<CreateRequest> parse_create(const json& body) {
    return understand([&]() -> Result<CreateRequest> {
        const auto level = parse_level(body);
        if (!level) {
            return tl::make_unexpected(level.error());
        }
        const auto oem =
            body.contains("Oem") ? body.at("Oem").value("Perch", json::object()) : json::object();
        const auto links = body.value("Links", json::object());
        CreateRequest request;
        request.level = *level;
        request.name = body.value("Name", "");
        request.size_bytes = bytes_of(body, "CapacityBytes");
        request.strip_bytes = bytes_of(body, "StripSizeBytes").value_or(default_strip_bytes);
        // DMTF's place and Dell's.
        request.drives = drives_of_links(
            body.contains("Drives") ? body.at("Drives") : links.at("Drives"), "Drives");
        request.per_span = per_span_of(body, oem, request.drives.size());
        request.spares = drives_of_links(links.value("DedicatedSpareDrives", json::array()),
                                         "DedicatedSpareDrives");
        request.force = oem.value("Force", false);
        if (oem.contains("Engine")) {
            request.engine = parse_engine_kind(oem.at("Engine").get<std::string>());
            if (!request.engine) {
                return fail(Errc::invalid_argument, "Engine is 'perch' or 'dm-raid'");
            }
        }
        return request;
    });
}

/// A change that was understood: what its task is called and what it does.
struct Change {
    std::string name;
    Backend::Operation operation;
};

Backend::Operation done_with(std::function<Result<void>(Controller&)> action) {
    return [action = std::move(action)](Controller& controller) -> Result<std::string> {
        return action(controller).map([] { return std::string(); });
    };
}

Response submit(Backend& backend, const Result<Change>& change) {
    if (!change) {
        return error_response(change.error());
    }
    return accepted(backend.submit(change->name, change->operation), change->name);
}

/// An action by its name. Adding one is adding a row here and its name in resources.cpp.
template <typename Target>
struct Action {
    std::string_view name;
    Result<Change> (*understand)(const Target& target, const json& body);
};

template <typename Target, std::size_t count>
Response post_action(Backend& backend, const Request& request, const Target& target,
                     const std::string& name, const std::array<Action<Target>, count>& actions) {
    const auto action = std::find_if(actions.begin(), actions.end(),
                                     [&](const auto& row) { return row.name == name; });
    if (action == actions.end()) {
        return error_response({Errc::not_found, fmt::format("there is no action '{}'", name)});
    }
    return submit(backend, parse_body(request).and_then([&](const json& body) {
        return understand([&] { return action->understand(target, body); });
    }));
}

// --- drives

Result<Change> set_drive_state(const std::string& drive, const json& body) {
    struct State {
        std::string_view name;
        std::function<Result<void>(Controller&)> change;
    };
    const bool force = body.value("Force", false);
    const std::array<State, 5> states{{
        {"Offline", [drive](Controller& c) { return c.set_offline(drive); }},
        {"Online", [drive](Controller& c) { return c.set_online(drive); }},
        {"Missing", [drive](Controller& c) { return c.set_missing(drive); }},
        {"Unconfigured",
         [drive, force](Controller& c) { return c.set_unconfigured(drive, force); }},
        {"JBOD", [drive, force](Controller& c) { return c.set_jbod(drive, force); }},
    }};
    const auto given = body.value("State", json());
    const auto wanted = given.is_string() ? given.get<std::string>() : "";
    const auto* const state = std::find_if(states.begin(), states.end(),
                                           [&](const auto& row) { return row.name == wanted; });
    if (state == states.end()) {
        return fail(Errc::invalid_argument, "State is one of {}, not '{}'",
                    fmt::join(drive_states(), ", "), wanted);
    }
    return Change{fmt::format("Set {} to {}", drive, wanted), done_with(state->change)};
}

Result<Change> insert_member(const std::string& drive, const json& body) {
    InsertRequest request;
    request.drive = drive;
    request.group = small_number(body.at("DriveGroup"), "DriveGroup");
    request.array = small_number(body.at("Array"), "Array");
    request.row = small_number(body.at("Row"), "Row");
    request.force = body.value("Force", false);
    return Change{"Insert " + drive,
                  done_with([request](Controller& c) { return c.insert_member(request); })};
}

Result<Change> start_rebuild(const std::string& drive, const json& /*body*/) {
    return Change{"Start rebuild of " + drive,
                  done_with([drive](Controller& c) { return c.start_rebuild(drive); })};
}

Result<Change> stop_rebuild(const std::string& drive, const json& /*body*/) {
    return Change{"Stop rebuild of " + drive,
                  done_with([drive](Controller& c) { return c.stop_rebuild(drive); })};
}

Result<Change> add_spare(const std::string& drive, const json& body) {
    std::vector<int> groups;
    const auto list = body.value("DriveGroups", json::array());
    for (const auto& item : items_of(list, "DriveGroups")) {
        groups.push_back(small_number(item, "a drive group"));
    }
    return Change{fmt::format("Make {} a hot spare", drive),
                  done_with([drive, groups](Controller& c) { return c.add_spare(drive, groups); })};
}

Result<Change> delete_spare(const std::string& drive, const json& /*body*/) {
    return Change{fmt::format("Make {} no hot spare", drive),
                  done_with([drive](Controller& c) { return c.delete_spare(drive); })};
}

constexpr std::array<Action<std::string>, 6> drive_actions{{
    {"SetState", set_drive_state},
    {"InsertMember", insert_member},
    {"StartRebuild", start_rebuild},
    {"StopRebuild", stop_rebuild},
    {"AddSpare", add_spare},
    {"DeleteSpare", delete_spare},
}};

// --- VDs

Result<Change> start_init(const int& id, const json& body) {
    // It destroys data, so there is no default.
    const auto type = body.at("InitializeType").get<std::string>();
    if (type != "Fast" && type != "Slow") {
        return fail(Errc::invalid_argument, "InitializeType is Fast or Slow, not '{}'", type);
    }
    const bool full = type == "Slow";
    return Change{fmt::format("Initialize v{}", id),
                  done_with([id, full](Controller& c) { return c.start_init(id, full); })};
}

Result<Change> stop_init(const int& id, const json& /*body*/) {
    return Change{fmt::format("Stop the initialization of v{}", id),
                  done_with([id](Controller& c) { return c.stop_init(id); })};
}

Result<Change> start_check(const int& id, const json& /*body*/) {
    return Change{fmt::format("Check v{}", id),
                  done_with([id](Controller& c) { return c.start_check(id); })};
}

Result<Change> stop_check(const int& id, const json& /*body*/) {
    return Change{fmt::format("Stop the check of v{}", id),
                  done_with([id](Controller& c) { return c.stop_check(id); })};
}

constexpr std::array<Action<int>, 4> volume_actions{{
    {"Volume.Initialize", start_init},
    {"Volume.CheckConsistency", start_check},
    {"Oem/PerchVolume.StopInitialize", stop_init},
    {"Oem/PerchVolume.StopCheckConsistency", stop_check},
}};

Response post_volume(Backend& backend, const Request& request) {
    return submit(backend,
                  parse_body(request).and_then(parse_create).map([](const CreateRequest& create) {
                      return Change{"Create a VD", [create](Controller& controller) {
                                        return controller.create_vd(create).map([](int id) {
                                            return fmt::format("{}/Volumes/{}", storage_uri, id);
                                        });
                                    }};
                  }));
}

Response delete_volume(Backend& backend, int id) {
    return submit(backend, Change{fmt::format("Delete v{}", id),
                                  done_with([id](Controller& c) { return c.delete_vd(id); })});
}

/// All or nothing: a body that also holds what cannot be changed changes nothing.
Result<Change> rename_volume(int id, const json& body) {
    return understand([&]() -> Result<Change> {
        for (const auto& [key, value] : body.items()) {
            // DSP0266 7.7: OData annotations are ignored.
            if (key != "Name" && !key.starts_with("@odata.")) {
                return fail(Errc::invalid_argument,
                            "{} cannot be changed; of a VD, Name can. Nothing was changed", key);
            }
        }
        const auto name = body.at("Name").get<std::string>();
        return Change{fmt::format("Rename v{}", id),
                      done_with([id, name](Controller& c) { return c.rename_vd(id, name); })};
    });
}

// --- the controller

/// A foreign drive group as a request names it: by its number, and, if the client says so, by what
/// it was when the client looked. Numbers change when drives come and go.
struct ForeignChoice {
    int id = 0;
    std::string history;
    std::optional<int> original_group;
};

std::vector<ForeignChoice> foreign_choices(const json& list) {
    std::vector<ForeignChoice> choices;
    for (const auto& item : items_of(list, "Groups")) {
        ForeignChoice choice;
        choice.id = small_number(item.is_object() ? item.at("Id") : item, "a foreign group");
        if (item.is_object()) {
            choice.history = item.value("History", "");
            if (item.contains("OriginalGroup")) {
                choice.original_group = small_number(item.at("OriginalGroup"), "OriginalGroup");
            }
        }
        choices.push_back(std::move(choice));
    }
    return choices;
}

/// The numbers, if they still name what the client saw.
Result<std::vector<int>> foreign_ids(const Snapshot& snapshot,
                                     const std::vector<ForeignChoice>& choices) {
    std::vector<int> ids;
    for (const auto& choice : choices) {
        const auto group = std::find_if(snapshot.foreign.begin(), snapshot.foreign.end(),
                                        [&](const auto& row) { return row.id == choice.id; });
        if (group == snapshot.foreign.end()) {
            return fail(Errc::not_found, "there is no foreign drive group f{}", choice.id);
        }
        if ((!choice.history.empty() && choice.history != group->history) ||
            choice.original_group.value_or(group->original_group) != group->original_group) {
            return fail(Errc::wrong_state,
                        "f{} is another drive group by now: drives have come or gone. Look again "
                        "with 'perchcli /c0/fall show all'",
                        choice.id);
        }
        ids.push_back(choice.id);
    }
    return ids;
}

using ForeignRequest = Result<void> (Controller::*)(const std::vector<int>&);

Change foreign_change(std::string name, std::vector<ForeignChoice> choices,
                      ForeignRequest request) {
    return {std::move(name),
            done_with([choices = std::move(choices), request](Controller& c) -> Result<void> {
                c.refresh();
                const auto ids = foreign_ids(c.snapshot(), choices);
                return ids ? (c.*request)(*ids) : tl::make_unexpected(ids.error());
            })};
}

Result<Change> import_foreign(const Snapshot& /*snapshot*/, const json& body) {
    return foreign_change("Import foreign configurations",
                          foreign_choices(body.value("Groups", json::array())),
                          &Controller::import_foreign);
}

Result<Change> clear_foreign(const Snapshot& /*snapshot*/, const json& body) {
    // It destroys data: "all of them" must be said, by an empty list.
    return foreign_change("Clear foreign configurations", foreign_choices(body.at("Groups")),
                          &Controller::clear_foreign);
}

Result<Change> set_coercion(const Snapshot& /*snapshot*/, const json& body) {
    const auto word = body.at("Coercion").get<std::string>();
    const auto coercion = parse_coercion(word);
    if (!coercion) {
        return fail(Errc::invalid_argument, "Coercion is None, 128M or 1G, not '{}'", word);
    }
    return Change{"Set coercion to " + word,
                  done_with([mode = *coercion](Controller& c) { return c.set_coercion(mode); })};
}

constexpr std::array<Action<Snapshot>, 3> storage_actions{{
    {"ImportForeign", import_foreign},
    {"ClearForeign", clear_foreign},
    {"SetCoercion", set_coercion},
}};

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

/// What can be done with a path beside reading it, by method.
struct Routes {
    bool readable = true;  ///< false: an action's target
    bool exists = true;    ///< of an action's target: the resource it belongs to is there
    std::map<std::string, std::function<Response()>> changes;
};

Routes changes_of(Backend& backend, const Request& request, const std::string& path) {
    static const std::regex drive_action_path(
        "/redfish/v1/Systems/1/Storage/c0/Drives/([A-Za-z0-9_.-]+)/Actions/Oem/PerchDrive\\."
        "([A-Za-z]+)");
    static const std::regex volume_path("/redfish/v1/Systems/1/Storage/c0/Volumes/([0-9]{1,4})");
    static const std::regex volume_action_path(
        "/redfish/v1/Systems/1/Storage/c0/Volumes/([0-9]{1,4})/Actions/((Oem/)?[A-Za-z.]+)");
    static const std::regex storage_action_path(
        "/redfish/v1/Systems/1/Storage/c0/Actions/Oem/PerchStorage\\.([A-Za-z]+)");
    const auto volumes = std::string(storage_uri) + "/Volumes";
    Routes routes;
    std::smatch match;
    if (std::regex_match(path, match, drive_action_path)) {
        routes.readable = false;
        routes.changes["POST"] = [&backend, &request, drive = match.str(1), name = match.str(2)] {
            return post_action(backend, request, drive, name, drive_actions);
        };
    } else if (std::regex_match(path, match, volume_action_path)) {
        const auto id = std::stoi(match[1]);
        routes.readable = false;
        routes.exists = find_vd(*backend.snapshot(), id) != nullptr;
        routes.changes["POST"] = [&backend, &request, id, name = match.str(2)] {
            return post_action(backend, request, id, name, volume_actions);
        };
    } else if (std::regex_match(path, match, storage_action_path)) {
        routes.readable = false;
        routes.changes["POST"] = [&backend, &request, name = match.str(1)] {
            return post_action(backend, request, *backend.snapshot(), name, storage_actions);
        };
    } else if (path == volumes + "/Members") {
        routes.readable = false;
        routes.changes["POST"] = [&] { return post_volume(backend, request); };
    } else if (path == volumes) {
        routes.changes["POST"] = [&] { return post_volume(backend, request); };
    } else if (std::regex_match(path, match, volume_path)) {
        const auto id = std::stoi(match[1]);
        routes.changes["DELETE"] = [&backend, id] { return delete_volume(backend, id); };
        routes.changes["PATCH"] = [&backend, &request, id] {
            return submit(backend, parse_body(request).and_then(
                                       [id](const json& body) { return rename_volume(id, body); }));
        };
    }
    return routes;
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
    const bool reads = request.method == "GET" || request.method == "HEAD";
    // Before anything else: who may not change things learns nothing by trying.
    if (!request.may_change && !reads) {
        return error_response(
            {Errc::permission, "only root and members of group perch may change things"});
    }
    const auto path = path_of(request.target);
    auto resource = changes_of(backend_, request, path);
    if (resource.readable) {
        // What exists can be read; what does not exist is not found, whatever the method.
        auto answer = get(backend_, request, path);
        if (reads || answer.status == 404) {
            return answer;
        }
    } else if (!resource.exists) {
        return error_response({Errc::not_found, fmt::format("no resource {}", path)});
    }
    const auto change = resource.changes.find(request.method);
    if (change != resource.changes.end()) {
        return change->second();
    }
    std::vector<std::string> allowed;
    if (resource.readable) {
        allowed = {"GET", "HEAD"};
    }
    for (const auto& [method, run] : resource.changes) {
        allowed.push_back(method);
    }
    return not_allowed(fmt::format("{}", fmt::join(allowed, ", ")), path);
}

}  // namespace perch::redfish
