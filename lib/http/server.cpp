// SPDX-License-Identifier: GPL-2.0-or-later
#include "http/server.hpp"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fstream>
#include <optional>
#include <sstream>

namespace perch::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Socket = asio::local::stream_protocol;
using Stream = beast::basic_stream<Socket>;

namespace {

/// Group ids of a process: its primary group and the "Groups:" line of its status.
bool process_in_group(pid_t pid, gid_t primary, gid_t wanted) {
    if (primary == wanted) {
        return true;
    }
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("Groups:")) {
            std::istringstream words(line.substr(sizeof("Groups:") - 1));
            for (gid_t group = 0; words >> group;) {
                if (group == wanted) {
                    return true;
                }
            }
        }
    }
    return false;
}

bool peer_may_change(int fd, const std::string& group_name) {
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return false;
    }
    if (peer.uid == 0 || peer.uid == geteuid()) {
        return true;
    }
    const auto* group = getgrnam(group_name.c_str());
    return group != nullptr && process_in_group(peer.pid, peer.gid, group->gr_gid);
}

/// What the server and its sessions share; a session may outlive the server.
struct Shared {
    ServerOptions options;
    Handler handler;
    std::size_t connections = 0;
};

/// One connection: reads a request, waits for its answer, writes it, and again.
class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(Socket::socket socket, std::shared_ptr<Shared> shared, bool may_change)
        : stream_(std::move(socket)), shared_(std::move(shared)), may_change_(may_change) {
        ++shared_->connections;
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() { --shared_->connections; }

    void read() {
        parser_.emplace();
        parser_->body_limit(shared_->options.max_body_bytes);
        stream_.expires_after(shared_->options.idle_timeout);
        beast::http::async_read(stream_, buffer_, *parser_,
                                [self = shared_from_this()](beast::error_code error, std::size_t) {
                                    self->on_read(error);
                                });
    }

  private:
    void on_read(beast::error_code error) {
        if (error == beast::http::error::body_limit) {
            auto answer = redfish::error_response({Errc::limit, "the request is too large"});
            answer.status = static_cast<unsigned>(beast::http::status::payload_too_large);
            write(std::move(answer), false);
            return;
        }
        if (error) {
            return;  // closed, timed out, or not HTTP: the session ends
        }
        const auto& message = parser_->get();
        redfish::Request request{std::string(message.method_string()),
                                 std::string(message.target()), message.body(), may_change_};
        const bool keep = message.keep_alive();
        // The answer may take as long as it takes; the client's own limit ends the wait.
        stream_.expires_never();
        shared_->handler(std::move(request),
                         [self = shared_from_this(), keep](redfish::Response answer) {
                             self->write(std::move(answer), keep);
                         });
    }

    void write(redfish::Response answer, bool keep) {
        const bool head = parser_->get().method() == beast::http::verb::head;
        response_ = {};
        response_.version(11);
        response_.result(answer.status);
        response_.set("OData-Version", "4.0");
        response_.set("Cache-Control", "no-store");
        for (const auto& [name, value] : answer.headers) {
            response_.set(name, value);
        }
        response_.keep_alive(keep);
        if (head) {
            response_.content_length(answer.body.size());
        } else {
            response_.body() = std::move(answer.body);
            response_.prepare_payload();
        }
        stream_.expires_after(shared_->options.idle_timeout);
        beast::http::async_write(
            stream_, response_,
            [self = shared_from_this(), keep](beast::error_code error, std::size_t) {
                if (!error && keep) {
                    self->read();
                }
            });
    }

    Stream stream_;
    std::shared_ptr<Shared> shared_;
    bool may_change_;
    beast::flat_buffer buffer_;
    std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
    beast::http::response<beast::http::string_body> response_;
};

}  // namespace

struct Server::Impl : std::enable_shared_from_this<Server::Impl> {
    Impl(asio::io_context& loop, ServerOptions server_options, Handler server_handler)
        : acceptor(loop),
          shared(std::make_shared<Shared>(
              Shared{std::move(server_options), std::move(server_handler)})) {}

    void accept() {
        acceptor.async_accept([self = shared_from_this()](beast::error_code error,
                                                          Socket::socket socket) {
            if (error == asio::error::operation_aborted) {
                return;
            }
            if (!error) {
                const auto& options = self->shared->options;
                const bool may_change = peer_may_change(socket.native_handle(), options.group);
                // A part is kept for those who may change things, whoever else holds the rest.
                const auto limit =
                    may_change ? options.max_connections : options.max_connections * 3 / 4;
                if (self->shared->connections < limit) {
                    std::make_shared<Session>(std::move(socket), self->shared, may_change)->read();
                }
            }
            self->accept();
        });
    }

    Socket::acceptor acceptor;
    std::shared_ptr<Shared> shared;
};

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
    beast::error_code ignored;
    impl_->acceptor.close(ignored);
    ::unlink(impl_->shared->options.socket.c_str());
}

Result<std::unique_ptr<Server>> Server::listen(asio::io_context& loop, ServerOptions options,
                                               Handler handler) {
    auto impl = std::make_shared<Impl>(loop, std::move(options), std::move(handler));
    const auto& path = impl->shared->options.socket;
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
        return fail(Errc::invalid_argument,
                    "the socket's path {} has {} characters, {} are possible", path, path.size(),
                    sizeof(sockaddr_un::sun_path) - 1);
    }
    // Only one perchd runs (its lock says so): a socket that is there is a dead one's.
    ::unlink(path.c_str());
    beast::error_code error;
    impl->acceptor.open(Socket(), error);
    if (!error) {
        impl->acceptor.bind(Socket::endpoint(path), error);
    }
    if (!error) {
        impl->acceptor.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
        return fail(Errc::io, "cannot listen on {}: {}", path, error.message());
    }
    constexpr mode_t everybody = 0666;  // credentials decide, not the file's mode
    if (chmod(path.c_str(), everybody) != 0) {
        return fail(Errc::io, "cannot open {} to others: {}", path, errno_text(errno));
    }
    impl->accept();
    return std::unique_ptr<Server>(new Server(std::move(impl)));
}

}  // namespace perch::http
