// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "http/client.hpp"
#include "session.hpp"

namespace perch::cli {

/// perchd over its unix socket.
class HttpConnection : public Connection {
  public:
    using Transport = std::function<Result<HttpResponse>(const HttpRequest&)>;

    /// timeout is for an answer that perchd has at hand; waiting for news gets 30 s more.
    explicit HttpConnection(std::string socket,
                            std::chrono::milliseconds timeout = std::chrono::seconds(15),
                            Transport transport = http_request);

    Result<Snapshot> snapshot(std::optional<std::uint64_t> after = std::nullopt) override;
    Result<std::vector<Event>> events(std::optional<int> latest) override;
    Result<Accepted> send(std::string_view method, std::string_view target,
                          const nlohmann::json& body) override;

  private:
    Result<HttpResponse> exchange(HttpRequest request);

    std::string socket_;
    std::chrono::milliseconds timeout_;
    Transport transport_;
};

/// PERCH_SOCKET, else /run/perch/perchd.sock.
std::string default_socket();

}  // namespace perch::cli
