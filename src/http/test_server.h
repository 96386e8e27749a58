// For the tests of http: a handler made of functions, and a client of raw sockets that says exactly what goes over the
// wire.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "http/server.h"

namespace cairn::http {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class FunctionHandler final : public Handler {
 public:
  explicit FunctionHandler(std::function<RoutePlan(const RequestHead&)> route) : route_(std::move(route)) {}
  RoutePlan route(const RequestHead& head) override { return route_(head); }

 private:
  std::function<RoutePlan(const RequestHead&)> route_;
};

// GET answers at once with the path; everything else echoes its body from the pool.
inline RoutePlan echo(const RequestHead& head) {
  if (head.method == "GET") return RoutePlan::answer("get", Response::text(200, "path " + head.raw_path + "\n"));
  return RoutePlan::buffered("echo", [](const Request& request) { return Response::text(200, request.body); });
}

// Deadlines short enough to wait for.
inline ServerSettings quick_settings() {
  ServerSettings settings;
  settings.loops = 2;
  settings.timeouts.handshake = milliseconds(300);
  settings.timeouts.idle = milliseconds(400);
  settings.timeouts.header = milliseconds(300);
  settings.timeouts.body_stall = milliseconds(300);
  settings.timeouts.body_start = milliseconds(500);
  settings.timeouts.write = milliseconds(500);
  settings.timeouts.linger = milliseconds(300);
  return settings;
}

// The same limits, but patient: for tests that are not about time.
inline ServerSettings patient_settings() {
  ServerSettings settings;
  settings.loops = 2;
  return settings;
}

// A handler and its running server.
class TestServer {
 public:
  explicit TestServer(std::function<RoutePlan(const RequestHead&)> route,
                      const ServerSettings& settings = patient_settings(), AccessLog log = {})
      : handler_(std::move(route)) {
    auto started = Server::start(settings, handler_, std::move(log));
    if (!started) ADD_FAILURE() << started.error().to_string();
    server_ = *std::move(started);
  }
  Server* operator->() { return server_.get(); }
  uint16_t port() const { return server_->local_port(); }

 private:
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  RawClient(RawClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { close(); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }

  // False when the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Everything until the server closes; fails the test after `limit_s`.
  std::string read_to_end(double limit_s = 20) {
    std::string got = std::exchange(ahead_, "");
    auto start = std::chrono::steady_clock::now();
    while (read_more(got, limit_s - seconds_since(start))) {
    }
    return got;
  }

  struct Answer {
    int status = 0;
    std::string head;
    std::string body;
  };
  // One answer with a Content-Length. Status 0 when the server closed first.
  Answer read_answer(bool to_head = false) {
    Answer answer;
    std::string& got = ahead_;
    size_t end;
    while ((end = got.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(got, 20)) return answer;
    }
    answer.head = got.substr(0, end + 2);
    got.erase(0, end + 4);
    answer.status = std::stoi(answer.head.substr(9, 3));
    size_t at = answer.head.find("\r\nContent-Length: ");
    size_t length = at == std::string::npos || to_head ? 0 : std::stoul(answer.head.substr(at + 18));
    while (got.size() < length) {
      if (!read_more(got, 20)) return Answer();
    }
    answer.body = got.substr(0, length);
    got.erase(0, length);
    return answer;
  }

 private:
  bool read_more(std::string& into, double limit_s) {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, std::max(1, static_cast<int>(limit_s * 1000))) <= 0) {
      ADD_FAILURE() << "the server neither answered nor closed";
      return false;
    }
    char buffer[64 * 1024];
    ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    into.append(buffer, static_cast<size_t>(got));
    return true;
  }

  int fd_;
  bool connected_ = false;
  std::string ahead_;
};

inline std::string get(std::string_view target, std::string_view more = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n" + std::string(more) + "\r\n";
}
inline std::string put(std::string_view target, size_t length, std::string_view more = "") {
  return "PUT " + std::string(target) + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(length) +
         "\r\n" + std::string(more) + "\r\n";
}

// Waits until a counter has the value that another thread is about to give it.
template <class Predicate>
bool eventually(Predicate predicate, double limit_s = 10) {
  auto start = std::chrono::steady_clock::now();
  while (!predicate()) {
    if (seconds_since(start) > limit_s) return false;
    ::usleep(2000);
  }
  return true;
}

}  // namespace cairn::http
