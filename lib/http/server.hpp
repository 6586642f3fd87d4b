// SPDX-License-Identifier: GPL-2.0-or-later
// HTTP/1.1 on a unix socket, asynchronous, for one thread's loop. Who the peer is comes from its
// socket credentials: root and group `perch` may change things, others may look.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "redfish/service.hpp"
#include "util/error.hpp"

namespace perch::http {

/// What answers. `respond` may be called later, once, on the loop's thread.
using Handler = std::function<void(redfish::Request, std::function<void(redfish::Response)>)>;

struct ServerOptions {
    std::string socket;
    std::string group = "perch";
    std::size_t max_body_bytes = 1024ULL * 1024;
    std::size_t max_connections = 128;
    std::chrono::seconds idle_timeout{60};
};

class Server {
  public:
    /// Binds and listens; the loop does the rest. Errc::io with the reason.
    static Result<std::unique_ptr<Server>> listen(boost::asio::io_context& loop,
                                                  ServerOptions options, Handler handler);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

  private:
    struct Impl;
    explicit Server(std::shared_ptr<Impl> impl);
    std::shared_ptr<Impl> impl_;
};

}  // namespace perch::http
