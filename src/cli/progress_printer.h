// Shows a transfer while it goes on: a line that redraws itself on a terminal, a plain line every few seconds elsewhere, or
// JSON events (one a line, on stdout) with --events. Notices are printed as they come.
//
// Owns one thread from construction to `finish` (or destruction). The Progress it gives out is thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "cli/output.h"
#include "transfer/progress.h"

namespace cairn::cli {

class ProgressPrinter {
 public:
  // `verb`: "put research".
  ProgressPrinter(Output& output, std::string verb, bool events);
  ~ProgressPrinter() { finish(); }
  ProgressPrinter(const ProgressPrinter&) = delete;

  transfer::Progress& progress() { return progress_; }
  // Takes the progress line away.
  void finish();

 private:
  void watch();
  std::string text() const;
  std::string event() const;
  void erase_line();

  Output& output_;
  std::string verb_;
  bool events_;
  bool terminal_;
  bool line_shown_ = false;
  transfer::Progress progress_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  Duration started_;
  std::thread thread_;
};

}  // namespace cairn::cli
