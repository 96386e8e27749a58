// The seam between sockets and everything above: a Handler looks at the head of a request and says how to treat it.
//
//   RoutePlan Api::route(const RequestHead& head) {
//     if (head.method == "POST") return RoutePlan::buffered("create", [this](const Request& r) { return create(r); });
//     return RoutePlan::answer("unknown", Response::text(404, "no such page\n"));
//   }
//
// Threads: route() and error_response() run on the loop threads, several at once, and must not block (no disk, no
// catalog, no lock held over either). Everything a plan carries runs on pool threads, where it may block until the
// request's deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "base/limits.h"
#include "base/result.h"
#include "http/message.h"

namespace cairn::http {

// Takes the body of one upload, piece by piece and in order. Calls never overlap. Destroyed without finish() when the
// upload was cut short, refused or failed: the destructor undoes what was begun. It may run on a loop thread and must
// be quick.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // Pieces are 256 to 512 KiB but for the last. An error ends the upload with that error as the answer.
  virtual Status write(std::span<const uint8_t> piece) = 0;
  // All `content_length` bytes were written; makes them durable and answers. Runs on a pool thread. Called at most
  // once.
  virtual Response finish() = 0;
  // True: write() goes to the page cache or memory and runs on the loop thread, which is quicker. False: on a pool
  // thread.
  virtual bool writes_are_quick() const { return true; }
};

struct RoutePlan {
  // Blocking; must not throw (what it throws becomes a 500).
  using Call = std::function<Response(const Request&)>;
  // Blocking; the request has no body yet. May refuse, before a byte of the body is read.
  using Open = std::function<Result<std::unique_ptr<BodySink>>(const Request&)>;

  enum class Kind { kAnswer, kBuffered, kHeavy, kLongPoll, kUpload };

  static constexpr uint64_t kSmallBodyBytes = 1 * limits::kMiB;
  static constexpr uint64_t kBufferedBodyBytesMax = 64 * limits::kMiB;

  // Answers from the head alone.
  static RoutePlan answer(std::string name, Response response);
  // Reads the body into memory, then calls on the pool. A longer body is refused with 413 unread.
  static RoutePlan buffered(std::string name, Call call, uint64_t body_bytes_max = kSmallBodyBytes);
  // As buffered, for calls that may work for minutes: on a pool of their own, so that however many of them there are,
  // the others find a thread.
  static RoutePlan heavy(std::string name, Call call, Duration time_limit, uint64_t body_bytes_max = kSmallBodyBytes);
  // As buffered, for calls that wait for an event: on a pool of their own.
  static RoutePlan long_poll(std::string name, Call call, Duration time_limit = seconds(40));
  // Opens on the pool, streams the body into the sink, finishes on the pool.
  static RoutePlan upload(std::string name, Open open, uint64_t body_bytes_max);

  // A short constant name of the route for logs and metrics; never made from user input.
  std::string name;
  Kind kind = Kind::kAnswer;
  uint64_t body_bytes_max = 0;
  // How long the calls may take: the deadline a request carries.
  Duration time_limit = minutes(5);
  std::optional<Response> response;
  Call call;
  Open open;
};

class Handler {
 public:
  virtual ~Handler() = default;
  virtual RoutePlan route(const RequestHead& head) = 0;
  // The answer to what the sockets refuse themselves: a malformed head, a body too large, a full queue, a sink's error.
  // The default is {"error":{"code","message","hint"}} with that status.
  virtual Response error_response(int status, const Error& error);
};

}  // namespace cairn::http
