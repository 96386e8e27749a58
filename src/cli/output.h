// What a person or a program reads: tables or one JSON document on stdout, notes and errors on stderr. Nothing else in cli
// writes to the two streams (a command's own bytes, `cat` and run logs, go through `write_bytes`).
//
// Used by one thread, except `note`, which any thread may call.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/quantity.h"
#include "base/result.h"

namespace cairn::cli {

class Output {
 public:
  void set_json(bool json) { json_ = json; }
  bool json() const { return json_; }

  // One line on stdout. Unprintable bytes are shown as \xNN here and in notes, errors and tables.
  void line(std::string_view text);
  // A JSON document (already serialised) and a line end on stdout.
  void document(std::string_view json);
  // One line on stderr.
  void note(std::string_view text);
  // Columns as wide as their widest cell. An empty table prints its header alone.
  void table(const std::vector<std::string>& header, std::vector<std::vector<std::string>> rows);
  // Unchanged bytes on stdout. io_error when the reader is gone.
  Status write_bytes(std::string_view bytes);
  // Prints the error (JSON on stdout with -o json, else text on stderr) and gives its exit code.
  int fail(const Error& error);

 private:
  bool json_ = false;
  std::mutex mutex_;
};

// "2 h 03 min", "14 s".
std::string human_duration(Duration duration);
// "1,234,567".
std::string human_count(uint64_t count);
// "2026-11-29 19:05:50" in UTC.
std::string human_time(Time time);
// "1 file", "2 files".
std::string plural(uint64_t count, std::string_view noun);
// "2 files", or "2 files, 1 link".
std::string files_and_links(uint64_t files, uint64_t links);

}  // namespace cairn::cli
