// SPDX-License-Identifier: GPL-2.0-or-later
#include "http/client.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace perch {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::uint64_t body_limit = 64ULL * 1024 * 1024;

/// The exchange as a chain of completions; the first error ends it.
class Exchange {
  public:
    explicit Exchange(const HttpRequest& request) : request_(request), stream_(context_) {
        parser_.body_limit(body_limit);
    }

    Result<HttpResponse> run() {
        const auto verb = http::string_to_verb(request_.method);
        if (verb == http::verb::unknown) {
            return fail(Errc::invalid_argument, "'{}' is not an HTTP method", request_.method);
        }
        if (request_.socket.empty() || request_.socket.size() > 107) {
            return fail(Errc::invalid_argument, "'{}' cannot be the path of a unix socket",
                        request_.socket);
        }
        message_.version(11);
        message_.method(verb);
        message_.target(request_.target);
        message_.set(http::field::host, "localhost");
        message_.set(http::field::accept, "application/json");
        message_.keep_alive(false);
        if (!request_.body.empty()) {
            message_.set(http::field::content_type, "application/json");
            message_.body() = request_.body;
        }
        message_.prepare_payload();

        stream_.expires_after(request_.timeout);
        stream_.async_connect(asio::local::stream_protocol::endpoint(request_.socket),
                              [this](beast::error_code error) { connected(error); });
        context_.run();
        if (error_) {
            return failure();
        }
        auto& answer = parser_.get();
        const auto location = answer[http::field::location];
        return HttpResponse{answer.result_int(), std::string(location.data(), location.size()),
                            std::move(answer.body())};
    }

  private:
    void connected(beast::error_code error) {
        error_ = error;
        if (!error_) {
            http::async_write(stream_, message_,
                              [this](beast::error_code failed, std::size_t) { written(failed); });
        }
    }
    void written(beast::error_code error) {
        // A server that refuses early may close its reading side: its answer still counts.
        if (error == beast::error::timeout) {
            error_ = error;
            return;
        }
        http::async_read(stream_, buffer_, parser_,
                         [this](beast::error_code failed, std::size_t) { error_ = failed; });
    }
    tl::unexpected<Error> failure() const {
        if (error_ == beast::error::timeout) {
            return fail(Errc::timeout, "perchd on {} did not answer within {:.3g} s",
                        request_.socket, std::chrono::duration<double>(request_.timeout).count());
        }
        if (error_ == boost::system::errc::permission_denied) {
            return fail(Errc::permission,
                        "no permission to talk to perchd on {}; run as root or join group perch",
                        request_.socket);
        }
        if (error_ == boost::system::errc::no_such_file_or_directory ||
            error_ == boost::system::errc::connection_refused ||
            error_ == boost::system::errc::not_a_directory) {
            return fail(Errc::no_daemon,
                        "perchd does not answer on {}; start it with 'systemctl start perchd'",
                        request_.socket);
        }
        return fail(Errc::no_daemon, "perchd on {} broke off: {}; see 'journalctl -u perchd'",
                    request_.socket, error_.message());
    }

    const HttpRequest& request_;
    asio::io_context context_{1};
    beast::basic_stream<asio::local::stream_protocol> stream_;
    http::request<http::string_body> message_;
    beast::flat_buffer buffer_;
    http::response_parser<http::string_body> parser_;
    beast::error_code error_;
};

}  // namespace

Result<HttpResponse> http_request(const HttpRequest& request) {
    try {
        return Exchange(request).run();
    } catch (const std::exception& error) {
        return fail(Errc::internal, "HTTP request to {}: {}", request.socket, error.what());
    }
}

}  // namespace perch
