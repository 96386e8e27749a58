// What the sessions of one server count together. Relaxed atomics: read for graphs, never for decisions, but for the
// body memory, which is a budget.
//
// Thread-safe. Internal to http.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cairn::http {

struct Metrics {
  static constexpr int kStatusEnd = 600;
  std::array<std::atomic<uint64_t>, kStatusEnd> requests_by_status{};
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> bytes_sent{0};
  std::atomic<uint64_t> connections_accepted{0};
  std::atomic<uint64_t> connections_refused{0};
  std::atomic<uint64_t> accept_failures{0};
  std::atomic<uint64_t> handshake_failures{0};
  std::atomic<uint64_t> timeouts{0};
  std::atomic<uint64_t> queue_refusals{0};
  std::atomic<uint64_t> connections_active{0};
  std::atomic<uint64_t> requests_active{0};
  std::atomic<uint64_t> body_memory_bytes{0};
};

// A share of the memory for bodies, given back at its end.
class BodyMemory {
 public:
  explicit BodyMemory(Metrics& metrics) : metrics_(metrics) {}
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;
  ~BodyMemory() { metrics_.body_memory_bytes -= held_; }

  bool take(uint64_t bytes, uint64_t bytes_max) {
    uint64_t before = metrics_.body_memory_bytes.fetch_add(bytes);
    held_ += bytes;
    return before + bytes <= bytes_max;
  }

 private:
  Metrics& metrics_;
  uint64_t held_ = 0;
};

}  // namespace cairn::http
