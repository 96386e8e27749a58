// The figures of a run: metrics.jsonl (one JSON object {"step", "time", name: value…} a row, several rows a step; values that are
// not finite are left out) and TensorBoard event files, as [monitors] asks. A disk that is full costs the rows, not the run: the
// first failure is logged and writing goes on with the next row.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "config/training_config.h"
#include "os/fd.h"
#include "trainer/run_log.h"
#include "trainer/tensorboard_writer.h"

namespace cairn::trainer {

using MetricRow = std::vector<std::pair<std::string, double>>;

class Metrics {
 public:
  // Writes nothing.
  Metrics(Clock& clock, RunLog& log) : clock_(&clock), log_(&log) {}
  // Appends to monitors/file/metrics.jsonl and to a new file in monitors/tensorboard/ below `monitors_dir`, making the folders. A
  // torn last row of an earlier attempt is ended first.
  static Result<Metrics> open(const std::string& monitors_dir, const config::MonitorSettings& settings, Clock& clock, RunLog& log);

  void write(int64_t step, const MetricRow& row);

 private:
  Status write_rows(int64_t step, const MetricRow& finite);

  Clock* clock_;
  RunLog* log_;
  os::Fd file_;
  std::string path_;
  std::optional<TensorboardWriter> tensorboard_;
  bool failed_ = false;
};

// "Step 7 |   1.25s | Loss 2.1234 | Grad. Norm 0.5000 | LR 1.00e-03 | Throughput 5120 tokens/s | MFU 12.3% | Peak Mem. 1.2/7.8 GiB (15.4%)"
struct StepLine {
  int64_t step = 0;
  double seconds = 0;
  double loss = 0;
  double gradient_norm = 0;
  double lr = 0;
  double tokens_per_second = 0;
  double mfu_percent = 0;
  double peak_memory_gib = 0;
  double total_memory_gib = 0;
};
std::string step_line(const StepLine& line);
std::string validation_line(int64_t step, double loss);
// "250.00ms", "1.25s", "2.50m", "1.00h".
std::string short_time(double seconds);

// exp(min(loss, 20)).
double perplexity(double loss);

}  // namespace cairn::trainer
