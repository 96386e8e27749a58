// What a session knows of the request it serves. Internal to http; included by session*.cc alone.
#pragma once

#include <chrono>
#include <string>

#include "http/session.h"

namespace cairn::http {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kUploadPieceWanted = 256 * 1024;  // a TLS read gives at most 16 KiB: gather before writing
constexpr size_t kUploadPieceMax = 512 * 1024;

struct Session::Current {
  explicit Current(Metrics& metrics) : memory(metrics), started(SteadyClock::now()) {}

  Request request;
  bool keep_alive = false;
  bool expects_continue = false;
  bool has_length = false;
  bool refused = false;
  std::string route;
  uint64_t body_left = 0;
  uint64_t body_got = 0;
  uint64_t bytes_sent = 0;
  int status = 0;  // once the whole answer is out
  BodyMemory memory;
  const Stream::Instant started;
  Stream::Instant body_started;
};

}  // namespace cairn::http
