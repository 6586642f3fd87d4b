// SPDX-License-Identifier: GPL-2.0-or-later
#include "http_connection.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "object_path.hpp"

namespace perch::cli {

namespace {

constexpr std::chrono::seconds longest_wait{30};

using Json = nlohmann::json;

Result<Json> parse_body(const HttpResponse& response) {
    auto json = Json::parse(response.body, nullptr, false);
    if (json.is_discarded()) {
        return fail(Errc::corrupt, "perchd's answer (HTTP {}) is not JSON", response.status);
    }
    return json;
}

std::string text_at(const Json& json, const Json::json_pointer& place) {
    if (!json.is_object() || !json.contains(place)) {
        return {};
    }
    const auto& value = json.at(place);
    return value.is_string() ? value.get<std::string>() : std::string();
}

/// The error in a body {"error":{"code":"Perch.1.0.in_use","message":"..."}}.
Error error_of(const HttpResponse& response) {
    const auto json = parse_body(response);
    const auto code = json ? text_at(*json, "/error/code"_json_pointer) : std::string();
    auto message = json ? text_at(*json, "/error/message"_json_pointer) : std::string();
    if (code.empty() || message.empty()) {
        // Not perchd's own words: go by the status.
        const auto errc = response.status == 404   ? Errc::not_found
                          : response.status == 403 ? Errc::permission
                                                   : Errc::internal;
        return {errc, fmt::format("perchd answered HTTP {}{}{}", response.status,
                                  message.empty() ? "" : ": ", message)};
    }
    return {errc_from_name(code.substr(code.rfind('.') + 1)), std::move(message)};
}

/// The task's number, from the body's Id or the monitor's URI.
std::optional<std::uint64_t> task_id(const HttpResponse& response) {
    const auto json = parse_body(response);
    auto text = json ? text_at(*json, "/Id"_json_pointer) : std::string();
    if (text.empty()) {
        text = response.location.substr(response.location.rfind('/') + 1);
    }
    const auto number = parse_number(text);
    return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

}  // namespace

std::string default_socket() {
    const char* socket = std::getenv("PERCH_SOCKET");
    return socket != nullptr && *socket != '\0' ? socket : "/run/perch/perchd.sock";
}

HttpConnection::HttpConnection(std::string socket, std::chrono::milliseconds timeout,
                               Transport transport)
    : socket_(std::move(socket)), timeout_(timeout), transport_(std::move(transport)) {}

Result<HttpResponse> HttpConnection::exchange(HttpRequest request) {
    request.socket = socket_;
    auto response = transport_(request);
    if (response && response->status >= 400) {
        return tl::make_unexpected(error_of(*response));
    }
    return response;
}

Result<Snapshot> HttpConnection::snapshot(std::optional<std::uint64_t> after) {
    HttpRequest request;
    request.target = "/redfish/v1/Oem/Perch/Snapshot";
    request.timeout = timeout_;
    if (after) {
        request.target += fmt::format("?after={}", *after);
        request.timeout += longest_wait;
    }
    const auto response = exchange(std::move(request));
    if (!response) {
        return tl::make_unexpected(response.error());
    }
    const auto json = parse_body(*response);
    return json ? snapshot_from_json(*json) : tl::make_unexpected(json.error());
}

Result<std::vector<Event>> HttpConnection::events(std::optional<int> latest) {
    HttpRequest request;
    request.target = "/redfish/v1/Oem/Perch/Events";
    request.timeout = timeout_;
    if (latest) {
        request.target += fmt::format("?latest={}", *latest);
    }
    const auto response = exchange(std::move(request));
    if (!response) {
        return tl::make_unexpected(response.error());
    }
    const auto json = parse_body(*response);
    if (!json) {
        return tl::make_unexpected(json.error());
    }
    if (!json->is_object() || !json->contains("Events") || !json->at("Events").is_array()) {
        return fail(Errc::corrupt, "perchd's answer holds no Events");
    }
    std::vector<Event> events;
    for (const auto& item : json->at("Events")) {
        auto event = event_from_json(item);
        if (!event) {
            return tl::make_unexpected(event.error());
        }
        events.push_back(std::move(*event));
    }
    return events;
}

Result<Accepted> HttpConnection::send(std::string_view method, std::string_view target,
                                      const nlohmann::json& body) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    request.timeout = timeout_;
    if (!body.is_null()) {
        request.body = body.dump();
    }
    const auto response = exchange(std::move(request));
    if (!response) {
        return tl::make_unexpected(response.error());
    }
    if (response->status != 202) {
        return Accepted{std::nullopt, response->location};
    }
    const auto id = task_id(*response);
    if (!id) {
        return fail(Errc::corrupt, "perchd accepted the change but named no task");
    }
    return Accepted{id, {}};
}

}  // namespace perch::cli
