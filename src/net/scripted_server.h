// For the tests of net: a server of raw sockets that does exactly what its script says, breaking off included.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cairn::net {

// Text that a script's thread and the test's exchange.
class SharedText {
 public:
  void set(std::string text) {
    std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  std::string get() const {
    std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// One accepted connection, as a script sees it.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // The next request's head with its empty line; "" when the client is gone.
  std::string read_head() {
    while (ahead_.find("\r\n\r\n") == std::string::npos) {
      if (!read_more()) return "";
    }
    size_t end = ahead_.find("\r\n\r\n") + 4;
    std::string head = ahead_.substr(0, end);
    ahead_.erase(0, end);
    return head;
  }
  std::string read_body(size_t size) {
    while (ahead_.size() < size && read_more()) {
    }
    std::string body = ahead_.substr(0, size);
    ahead_.erase(0, body.size());
    return body;
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void answer(int status, std::string_view body, std::string_view more = "") {
    send("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more) + "\r\n" + std::string(body));
  }
  // Closes with a reset instead of an end.
  void reset() {
    linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

 private:
  bool read_more() {
    char buffer[64 * 1024];
    ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    ahead_.append(buffer, static_cast<size_t>(got));
    return true;
  }
  int fd_;
  std::string ahead_;
};

// Runs `script` for each connection, one thread each.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<void(Peer&)> script)
      : script_(std::move(script)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    {
      std::lock_guard lock(mutex_);
      for (int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& connection : connections_) connection.join();
  }
  std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + std::string(path);
  }
  std::string authority() const { return "127.0.0.1:" + std::to_string(port_); }
  int accepted() const { return accepted_; }
  // Connections that the script has closed.
  int ended() const { return ended_; }

 private:
  void accept_all() {
    while (!stopping_) {
      int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      ++accepted_;
      {
        std::lock_guard lock(mutex_);
        open_.push_back(fd);
      }
      connections_.emplace_back([this, fd] {
        {
          Peer peer(fd);
          script_(peer);
          std::lock_guard lock(mutex_);
          std::erase(open_, fd);
        }
        ++ended_;
      });
    }
  }

  std::function<void(Peer&)> script_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> accepted_{0};
  std::atomic<int> ended_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> connections_;
  std::thread thread_;
};

}  // namespace cairn::net
