#include "trainer/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codec/bytes.h"
#include "os/file_system.h"

namespace cairn::trainer {
namespace {

// A crash may have cut the last row: what follows must stand on a line of its own.
Status end_torn_row(int fd, const std::string& path) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_TRY(std::unique_ptr<os::ReadableFile> file, files.open_read(path));
  CAIRN_TRY(uint64_t size, file->size());
  if (size == 0) return ok();
  uint8_t last = 0;
  CAIRN_TRY(size_t got, file->read_at(size - 1, {&last, 1}));
  if (got == 1 && last != '\n') return os::write_all(fd, codec::as_bytes("\n"), path);
  return ok();
}

}  // namespace

Result<Metrics> Metrics::open(const std::string& monitors_dir, const config::MonitorSettings& settings, Clock& clock, RunLog& log) {
  Metrics metrics(clock, log);
  os::FileSystem& files = os::posix_file_system();
  if (settings.file) {
    std::string folder = monitors_dir + "/file";
    CAIRN_CHECK_OK(files.make_directories(folder, 0755));
    metrics.path_ = folder + "/metrics.jsonl";
    CAIRN_TRY(metrics.file_, os::open_append_fd(metrics.path_, 0644));
    CAIRN_CHECK_OK(end_torn_row(metrics.file_.get(), metrics.path_));
  }
  if (settings.tensorboard) {
    std::string folder = monitors_dir + "/tensorboard";
    CAIRN_CHECK_OK(files.make_directories(folder, 0755));
    CAIRN_TRY(metrics.tensorboard_, TensorboardWriter::create(folder, clock.now()));
  }
  return metrics;
}

void Metrics::write(int64_t step, const MetricRow& row) {
  MetricRow finite;
  for (const auto& value : row) {
    if (std::isfinite(value.second)) finite.push_back(value);
  }
  Status written = write_rows(step, finite);
  if (!written && !failed_) {
    failed_ = true;
    log_->warning(fmt::format("metrics are not written: {}", written.error().message()));
  }
  if (written) failed_ = false;
}

Status Metrics::write_rows(int64_t step, const MetricRow& finite) {
  Time now = clock_->now();
  Status result;
  if (file_.valid()) {
    nlohmann::ordered_json json;
    json["step"] = step;
    json["time"] = static_cast<double>(now.us) / 1e6;
    for (const auto& [name, value] : finite) json[name] = value;
    result = os::append_whole(file_.get(), codec::as_bytes(json.dump() + "\n"), path_);
  }
  if (tensorboard_) {
    Status written = tensorboard_->scalars(step, now, finite);
    if (result) result = written;
  }
  return result;
}

std::string short_time(double seconds) {
  if (seconds >= 3600) return fmt::format("{:.2f}h", seconds / 3600);
  if (seconds >= 60) return fmt::format("{:.2f}m", seconds / 60);
  if (seconds >= 1) return fmt::format("{:.2f}s", seconds);
  return fmt::format("{:.2f}ms", seconds * 1000);
}

std::string step_line(const StepLine& line) {
  double share = line.total_memory_gib > 0 ? 100 * line.peak_memory_gib / line.total_memory_gib : 0;
  std::string mfu = std::isfinite(line.mfu_percent) ? fmt::format("{:.1f}%", line.mfu_percent) : "-";
  return fmt::format(
      "Step {} | {:>7} | Loss {:.4f} | Grad. Norm {:.4f} | LR {:.2e} | Throughput {:.0f} tokens/s | MFU {} | "
      "Peak Mem. {:.1f}/{:.1f} GiB ({:.1f}%)",
      line.step, short_time(line.seconds), line.loss, line.gradient_norm, line.lr, line.tokens_per_second, mfu,
      line.peak_memory_gib, line.total_memory_gib, share);
}

std::string validation_line(int64_t step, double loss) { return fmt::format("Validation | Step {} | Loss {:.4f}", step, loss); }

double perplexity(double loss) { return std::exp(std::min(loss, 20.0)); }

}  // namespace cairn::trainer
