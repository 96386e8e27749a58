// The captured output of a run. Lines are numbered from 1 within the attempt and appended to a spool file, from which they are
// sent to the server in bounded batches, again and again until acknowledged, also by the executor that comes after a kill. The
// same bytes go to one plain file a component, on the volume, where the run can read them.
//
// A line is at most api::kLogTextBytesMax bytes; longer ones are cut into several. What is no UTF-8 is shown by U+FFFD in the
// spool and kept as it is in the plain file. Bounded: after `bytes_max` a line says so and the rest is dropped.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/result.h"
#include "os/fd.h"

namespace cairn::agent {

struct LogBatch {
  uint64_t first_sequence = 0;
  std::vector<api::LogRecord> records;
};

class LogSpool {
 public:
  static constexpr uint64_t kBytesMax = uint64_t{1} << 30;

  // Opens or creates the spool; a torn last record (a kill) is cut off.
  static Result<std::unique_ptr<LogSpool>> open(const std::string& path, Clock& clock, uint64_t bytes_max = kBytesMax);

  // Where a component's bytes also go from now on; a failure there (no space) never stops the capture.
  void tee(const std::string& component, os::Fd file);
  void untee();
  // Bytes as they came; unfinished lines wait for their end or for close_component.
  void write(const std::string& component, std::string_view bytes);
  void close_component(const std::string& component);
  // A whole line of Cairn's own ("cairn").
  void note(std::string_view line);
  // The server has lines up to `sequence`, more than the spool: a power loss took its end. The next line follows that one. The
  // lines between are gone here; a server that asks for them is told so in their places.
  void go_on_after(uint64_t sequence);

  // Lines after `acknowledged`, at most kLogRecordsPerHeartbeatMax and about 1 MiB of JSON. REQUIRES: acknowledged never falls.
  Result<LogBatch> batch_after(uint64_t acknowledged);
  uint64_t last_sequence() const;
  // Bytes of each component so far.
  uint64_t component_bytes(const std::string& component) const;
  std::vector<std::string> components() const;
  // Writes a component's whole log anew from the spool (when the run removed or cut its plain file).
  Status rewrite(const std::string& component, int fd) const;

 private:
  LogSpool(os::Fd fd, Clock& clock, uint64_t bytes_max) : clock_(&clock), fd_(std::move(fd)), bytes_max_(bytes_max) {}
  void append_line(const std::string& component, std::string_view line, bool cut);
  Status append(const std::string& component, std::string_view line, uint8_t flags);
  Status recover();

  Clock* clock_;
  mutable std::mutex mutex_;
  os::Fd fd_;
  uint64_t bytes_max_;
  uint64_t end_ = 0;       // bytes of whole records
  uint64_t sequence_ = 0;  // of the last record
  bool full_ = false;
  bool broken_ = false;
  uint64_t read_offset_ = 0;  // of the record after read_sequence_
  uint64_t read_sequence_ = 0;
  std::map<std::string, std::string> partial_;
  std::map<std::string, os::Fd> tees_;
  std::map<std::string, uint64_t> bytes_;
};

}  // namespace cairn::agent
