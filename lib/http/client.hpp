// SPDX-License-Identifier: GPL-2.0-or-later
// HTTP/1.1 over a unix socket: one request, one connection, one deadline. What perchcli speaks.
#pragma once

#include <chrono>
#include <string>

#include "util/error.hpp"

namespace perch {

struct HttpRequest {
    std::string socket;  ///< path of the unix socket
    std::string method = "GET";
    std::string target;                        ///< path and query, "/redfish/v1/..."
    std::string body;                          ///< JSON; empty for none
    std::chrono::milliseconds timeout{10000};  ///< for the whole exchange
};

struct HttpResponse {
    unsigned status = 0;
    std::string location;  ///< the Location header; empty without one
    std::string body;
};

/// Sends one request and reads the whole answer. Any HTTP status is a result; an error means that
/// there was no answer: Errc::no_daemon (no socket, refused, closed half way), Errc::permission,
/// Errc::timeout, Errc::invalid_argument (a method HTTP does not know).
Result<HttpResponse> http_request(const HttpRequest& request);

}  // namespace perch
