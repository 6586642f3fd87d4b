// SPDX-License-Identifier: GPL-2.0-or-later
// The HTTP client against a server that says exactly what the test wants.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "catch.hpp"
#include "http/client.hpp"
#include "util/unique_fd.hpp"

using namespace perch;

namespace {

/// Accepts one connection, reads until the request is whole, sends the answer and closes.
class OneShotServer {
  public:
    explicit OneShotServer(std::string answer, bool hang = false)
        : answer_(std::move(answer)), hang_(hang) {
        char pattern[] = "/tmp/perch-http-XXXXXX";
        REQUIRE(mkdtemp(pattern) != nullptr);
        directory_ = pattern;
        path_ = directory_ + "/s";
        listener_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
        REQUIRE(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
                0);
        REQUIRE(::listen(listener_.get(), 1) == 0);
        thread_ = std::thread([this] { serve(); });
    }
    OneShotServer(const OneShotServer&) = delete;
    OneShotServer& operator=(const OneShotServer&) = delete;
    ~OneShotServer() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
        ::unlink(path_.c_str());
        ::rmdir(directory_.c_str());
    }
    [[nodiscard]] const std::string& path() const { return path_; }
    /// What came in; whole once the client has its answer.
    [[nodiscard]] const std::string& request() const { return request_; }

  private:
    void serve() {
        const UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
        if (!client.valid()) {
            return;
        }
        char buffer[4096];
        while (!whole()) {
            const auto got = ::read(client.get(), buffer, sizeof(buffer));
            if (got <= 0) {
                return;
            }
            request_.append(buffer, static_cast<std::size_t>(got));
        }
        if (hang_) {
            // Until the client gives up and closes.
            while (::read(client.get(), buffer, sizeof(buffer)) > 0) {
            }
            return;
        }
        [[maybe_unused]] const auto sent =
            ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
    }
    [[nodiscard]] bool whole() const {
        const auto end = request_.find("\r\n\r\n");
        const auto length = request_.find("Content-Length: ");
        if (end == std::string::npos || length == std::string::npos) {
            return end != std::string::npos;
        }
        return request_.size() >= end + 4 + std::stoul(request_.substr(length + 16));
    }

    std::string answer_;
    bool hang_;
    std::string directory_;
    std::string path_;
    std::string request_;
    UniqueFd listener_;
    std::thread thread_;
};

}  // namespace

TEST_CASE("http client: one exchange") {
    std::string request;
    {
        OneShotServer server(
            "HTTP/1.1 202 Accepted\r\nLocation: /tasks/4\r\nContent-Length: 2\r\n\r\n{}");
        const auto response =
            http_request({server.path(), "POST", "/a?b=1", "{\"x\":1}", std::chrono::seconds(5)});
        REQUIRE(response);
        CHECK(response->status == 202);
        CHECK(response->location == "/tasks/4");
        CHECK(response->body == "{}");
        request = server.request();
    }
    CHECK(request.rfind("POST /a?b=1 HTTP/1.1\r\n", 0) == 0);
    CHECK(request.find("\r\n\r\n{\"x\":1}") != std::string::npos);
}

TEST_CASE("http client: chunked answers and answers that end with the connection") {
    OneShotServer chunked(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    CHECK(http_request({chunked.path(), "GET", "/", "", std::chrono::seconds(5)})->body == "abcde");
    OneShotServer closing("HTTP/1.1 200 OK\r\n\r\nxyz");
    CHECK(http_request({closing.path(), "GET", "/", "", std::chrono::seconds(5)})->body == "xyz");
    OneShotServer empty("HTTP/1.1 204 No Content\r\n\r\n");
    CHECK(http_request({empty.path(), "DELETE", "/", "", std::chrono::seconds(5)})->status == 204);
}

TEST_CASE("http client: a large body") {
    const std::string body(3000000, 'x');
    OneShotServer server("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
                         "\r\n\r\n" + body);
    CHECK(http_request({server.path(), "GET", "/", "", std::chrono::seconds(20)})->body == body);
}

TEST_CASE("http client: no socket, nobody behind it, a broken answer") {
    const auto absent = http_request({"/nonexistent/s", "GET", "/", "", std::chrono::seconds(1)});
    REQUIRE_FALSE(absent);
    CHECK(absent.error().code == Errc::no_daemon);
    CHECK(absent.error().message ==
          "perchd does not answer on /nonexistent/s; start it with "
          "'systemctl start perchd'");
    OneShotServer broken("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    const auto half = http_request({broken.path(), "GET", "/", "", std::chrono::seconds(5)});
    REQUIRE_FALSE(half);
    CHECK(half.error().code == Errc::no_daemon);
    OneShotServer garbage("what?\r\n\r\n");
    CHECK(http_request({garbage.path(), "GET", "/", "", std::chrono::seconds(5)}).error().code ==
          Errc::no_daemon);
    CHECK(http_request({std::string(200, 'x'), "GET", "/", "", std::chrono::seconds(1)})
              .error()
              .code == Errc::invalid_argument);
    CHECK(http_request({"/s", "FLY", "/", "", std::chrono::seconds(1)}).error().code ==
          Errc::invalid_argument);
}

TEST_CASE("http client: a socket that nobody listens on any more") {
    std::string stale;
    char pattern[] = "/tmp/perch-http-XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    stale = std::string(pattern) + "/s";
    {
        const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, stale.c_str(), sizeof(address.sun_path) - 1);
        REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    }
    CHECK(http_request({stale, "GET", "/", "", std::chrono::seconds(1)}).error().code ==
          Errc::no_daemon);
    ::unlink(stale.c_str());
    ::rmdir(pattern);
}

TEST_CASE("http client: the deadline holds") {
    OneShotServer server("", true);
    const auto begin = std::chrono::steady_clock::now();
    const auto late = http_request({server.path(), "GET", "/", "", std::chrono::milliseconds(200)});
    REQUIRE_FALSE(late);
    CHECK(late.error().code == Errc::timeout);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}
