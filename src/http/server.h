// The server's sockets: listens, speaks HTTP/1.1 (plain or TLS >= 1.2), holds every connection to its deadlines and
// limits, and calls a Handler. Knows nothing of Cairn's domain.
//
// start() returns once the port is open. stop() refuses new connections, lets running requests finish within the drain
// time, cancels the rest, and returns when every thread is gone; the destructor calls stop(0). Calls on the pool must
// honour their request's deadline, since stop() waits for them.
//
// Threads: all members may be called from any thread. The handler and the hooks must outlive the server.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "http/handler.h"

namespace cairn::http {

// How long a client may take. Every wait on a socket is under one of these.
struct Timeouts {
  Duration handshake = seconds(10);
  Duration idle = seconds(60);        // between requests, until the first byte
  Duration header = seconds(10);      // from the first byte to the end of the head
  Duration body_stall = seconds(30);  // between two reads of a body
  Duration body_start = seconds(10);  // head start before the minimum rate counts
  uint64_t body_bytes_per_second_min = 64 * limits::kKiB;
  Duration write = seconds(30);  // for each 256 KiB of an answer
  Duration linger = seconds(2);  // for a refused client to read its answer
};

struct ServerSettings {
  std::string host = "127.0.0.1";  // an address, or a name that resolves to one
  uint16_t port = 0;               // 0: the system chooses, see Server::local_port()
  // PEM files; both or neither. With them the server speaks TLS only.
  std::string certificate_file;
  std::string private_key_file;

  uint32_t loops = 0;  // 0: one a core, at most 4
  uint32_t pool_threads = 16;
  uint32_t pool_queue_max = 512;
  uint32_t heavy_threads = 32;
  uint32_t heavy_queue_max = 512;
  uint32_t long_poll_threads = 256;
  uint32_t long_poll_queue_max = 64;

  uint32_t connections_max = 4096;
  uint32_t header_bytes_max = 16 * 1024;
  // Request bodies held in memory by all connections together; more is refused with 503.
  uint64_t body_memory_bytes_max = 512 * limits::kMiB;
  Timeouts timeouts;
};

// One finished request. Without the query: it may hold a signature.
struct AccessRecord {
  std::string peer;
  std::string method;
  std::string path;
  std::string route;  // RoutePlan::name; "" when the request never reached the handler
  int status = 0;     // 0: the connection ended before an answer
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
  Duration duration{0};
};
// Called on loop threads, several at once; must not block.
using AccessLog = std::function<void(const AccessRecord&)>;

struct ServerCounters {
  std::map<int, uint64_t> requests_by_status;
  uint64_t bytes_received = 0;  // bodies
  uint64_t bytes_sent = 0;      // bodies
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;  // over connections_max
  uint64_t accept_failures = 0;      // mostly: out of file descriptors
  uint64_t handshake_failures = 0;
  uint64_t timeouts = 0;        // connections ended by a deadline
  uint64_t queue_refusals = 0;  // 503 because a pool's queue or the body memory was full
  uint64_t connections_active = 0;
  uint64_t requests_active = 0;
  uint64_t body_memory_bytes = 0;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> start(const ServerSettings& settings, Handler& handler,
                                               AccessLog access_log = {});
  ~Server();

  uint16_t local_port() const;
  ServerCounters counters() const;
  // Safe to call more than once; later calls wait for the first.
  void stop(Duration drain);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::http
