// One connection's life: handshake, then request after request until one side has had enough. Knows Stream only, so
// that it runs on memory as on sockets. Every wait is under a deadline, every size under a limit, and memory is about
// one head buffer and one body piece (or one small body).
//
// Threads: lives on one loop; calls of the handler's plans run on the pools, never two at once for one session.
// Internal to http.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "http/blocking_pool.h"
#include "http/head_parser.h"
#include "http/metrics.h"
#include "http/server.h"
#include "http/stream.h"

namespace cairn::http {

// What all sessions of a server share; outlives them.
struct SessionContext {
  const ServerSettings& settings;
  Handler& handler;
  JobRunner& pool;
  JobRunner& heavy_pool;
  JobRunner& long_poll_pool;
  Metrics& metrics;
  const AccessLog& access_log;
  std::atomic<bool>& stopping;
  CancelToken requests;    // of ordinary requests
  CancelToken long_polls;  // of long polls
};

class Session {
 public:
  Session(std::unique_ptr<Stream> stream, std::string peer, SessionContext& context);
  ~Session();

  boost::asio::awaitable<void> run();
  // Nothing would be lost by ending it now.
  bool idle() const { return idle_; }
  void cancel() { stream_->cancel(); }

 private:
  struct Current;
  enum class Next { kContinue, kClose, kLinger, kAbandon };
  enum class Head { kComplete, kRefused, kTooLarge, kTimedOut, kClosed };
  enum class Body { kComplete, kTimedOut, kLost };
  using NextAwaitable = boost::asio::awaitable<Next>;

  NextAwaitable serve_one();
  boost::asio::awaitable<Head> read_head(HeadParser& parser);
  NextAwaitable serve(RoutePlan plan);
  NextAwaitable serve_call(RoutePlan plan);
  NextAwaitable serve_upload(RoutePlan plan);

  boost::asio::awaitable<bool> send_continue();
  boost::asio::awaitable<Body> read_body_text();
  boost::asio::awaitable<Body> stream_body(BodySink& sink, std::optional<Error>& sink_error);
  // At least `wanted` bytes (fewer only when ec is set) and at most `size`, of what is left of the body.
  boost::asio::awaitable<IoResult> read_body(char* data, size_t wanted, size_t size);

  NextAwaitable refuse(int status, Error error);
  NextAwaitable refuse_busy();
  NextAwaitable refuse_body(Body state);
  NextAwaitable send(Response response);
  boost::asio::awaitable<bool> send_bytes(const Response& response, std::string head);

  // What `work` returned on a thread of `runner`; nothing when it threw. `accepted` is false when the queue was full.
  template <class T>
  boost::asio::awaitable<std::optional<T>> offload(JobRunner& runner, bool always, std::function<T()> work,
                                                   bool& accepted);

  RoutePlan plan_request();
  Response internal_error();
  void count_failure(const boost::system::error_code& failure);
  void finish_request();

  std::unique_ptr<Stream> stream_;
  const std::string peer_;
  SessionContext& context_;
  const size_t buffer_size_;
  std::unique_ptr<char[]> buffer_;  // bytes received and not used yet
  size_t buffered_ = 0;
  std::unique_ptr<Current> current_;  // set from a request's first byte to its answer
  bool idle_ = true;
};

}  // namespace cairn::http
