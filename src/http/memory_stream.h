// A connection in memory: reads give the pieces it was made with, then the end; writes are collected. With it a session
// runs on bytes from a test or a fuzzer, on one thread, without a socket.
#pragma once

#include <unistd.h>

#include <cstring>
#include <deque>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>

#include "http/session.h"

namespace cairn::http {

class MemoryStream final : public Stream {
 public:
  MemoryStream(std::deque<std::string> pieces, std::string& output) : pieces_(std::move(pieces)), output_(output) {}

  boost::asio::awaitable<IoResult> handshake() override { co_return IoResult(); }
  boost::asio::awaitable<IoResult> read_some(char* data, size_t size) override {
    IoResult result;
    if (pieces_.empty()) {
      result.ec = boost::asio::error::eof;
      co_return result;
    }
    std::string& piece = pieces_.front();
    result.n = std::min(size, piece.size());
    std::memcpy(data, piece.data(), result.n);
    piece.erase(0, result.n);
    if (piece.empty()) pieces_.pop_front();
    co_return result;
  }
  boost::asio::awaitable<IoResult> write_all(const char* data, size_t size, Duration) override {
    output_.append(data, size);
    IoResult result;
    result.n = size;
    co_return result;
  }
  boost::asio::awaitable<IoResult> send_file(int fd, uint64_t offset, uint64_t length, Duration) override {
    std::string bytes(length, '\0');
    IoResult result;
    result.n = static_cast<size_t>(std::max<ssize_t>(0, ::pread(fd, bytes.data(), length, static_cast<off_t>(offset))));
    output_.append(bytes, 0, result.n);
    if (result.n < length) result.ec = boost::asio::error::broken_pipe;
    co_return result;
  }
  boost::asio::awaitable<void> shutdown(bool) override { co_return; }
  void expires_at(Instant) override {}
  void cancel() override { pieces_.clear(); }

 private:
  std::deque<std::string> pieces_;  // none of them empty
  std::string& output_;
};

// Runs jobs at once, on the caller's thread.
class InlineRunner final : public JobRunner {
 public:
  bool submit(std::function<void()> job) override { return job(), true; }
  void submit_always(std::function<void()> job) override { job(); }
};

// What a session with this handler answers to these bytes, received in these pieces.
inline std::string answer_in_memory(Handler& handler, std::deque<std::string> pieces, ServerSettings settings = {}) {
  std::string output;
  Metrics metrics;
  InlineRunner runner;
  AccessLog no_log;
  std::atomic<bool> stopping{false};
  SessionContext context{settings, handler, runner,   runner,        runner,
                         metrics,  no_log,  stopping, CancelToken(), CancelToken()};
  boost::asio::io_context io(1);
  Session session(std::make_unique<MemoryStream>(std::move(pieces), output), "memory", context);
  std::exception_ptr thrown;
  boost::asio::co_spawn(io, session.run(), [&](std::exception_ptr failure) { thrown = failure; });
  io.run();
  if (thrown) std::rethrow_exception(thrown);
  return output;
}

}  // namespace cairn::http
