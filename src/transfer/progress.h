// What a running transfer tells its watcher: counters that only grow within a phase, a phase, and notices (things a user
// should read: a skipped device, a file that kept changing). The transfer writes, a progress bar or an event printer reads.
//
// Thread-safe. Notices come from any thread, one at a time; the sink must not block for long and must not call back in.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::transfer {

enum class Phase { kStarting, kWaiting, kScanning, kMoving, kPublishing, kDone };

// "starting", "waiting", "scanning", "moving", "publishing", "done"
constexpr std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kStarting: return "starting";
    case Phase::kWaiting: return "waiting";
    case Phase::kScanning: return "scanning";
    case Phase::kMoving: return "moving";
    case Phase::kPublishing: return "publishing";
    case Phase::kDone: return "done";
  }
  return "done";
}

struct Notice {
  enum class Kind {
    kSkippedSpecial,  // a device, socket or pipe
    kSkippedLink,     // a symlink that leaves the tree
    kSkippedName,     // a name the volume cannot hold
    kChanging,        // a file that changed during each of three readings
    kUnreadable,      // a file or folder that could not be opened or read
    kWaiting,         // what the transfer waits for
    kNote,
  };
  Kind kind = Kind::kNote;
  std::string path;  // raw bytes; empty when it is about no single path
  std::string text;
};

using NoticeSink = std::function<void(const Notice&)>;

class Progress {
 public:
  Progress() = default;
  explicit Progress(NoticeSink sink) : sink_(std::move(sink)) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What has to be looked at; final once the phase is kMoving.
  std::atomic<uint64_t> files_total{0};
  std::atomic<uint64_t> bytes_total{0};
  // What is finished (unchanged files count as finished).
  std::atomic<uint64_t> files_done{0};
  std::atomic<uint64_t> bytes_done{0};
  // Bytes that really went over the wire (in either direction).
  std::atomic<uint64_t> bytes_moved{0};
  std::atomic<uint64_t> chunks_new{0};
  std::atomic<uint64_t> chunks_reused{0};

  Phase phase() const { return phase_.load(); }
  void set_phase(Phase phase) { phase_.store(phase); }

  void notice(Notice notice) {
    std::lock_guard lock(mutex_);
    if (sink_) sink_(notice);
  }
  void notice(Notice::Kind kind, std::string path, std::string text) {
    notice(Notice{kind, std::move(path), std::move(text)});
  }

 private:
  std::atomic<Phase> phase_{Phase::kStarting};
  std::mutex mutex_;
  NoticeSink sink_;
};

}  // namespace cairn::transfer
