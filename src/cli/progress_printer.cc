#include "cli/progress_printer.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/core.h>

#include "cli/json_text.h"
#include "cli/terminal_text.h"
#include "os/terminal.h"

namespace cairn::cli {
namespace {

constexpr auto kRedraw = milliseconds(200);
constexpr auto kPlainLine = seconds(5);

}  // namespace

ProgressPrinter::ProgressPrinter(Output& output, std::string verb, bool events)
    : output_(output),
      verb_(std::move(verb)),
      events_(events),
      terminal_(!events && !output.json() && os::is_terminal(2)),
      progress_([this](const transfer::Notice& notice) {
        std::string path = notice.path.empty() ? "" : shown_path(notice.path) + ": ";
        if (events_) {
          output_.document(JsonText().add("event", "notice").add("path", shown_path(notice.path)).add("text", notice.text).str());
        } else {
          std::lock_guard lock(mutex_);
          erase_line();
          output_.note("cairn: " + path + notice.text);
        }
      }),
      started_(system_clock().monotonic()),
      thread_([this] { watch(); }) {}

void ProgressPrinter::finish() {
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    done_ = true;
  }
  wake_.notify_all();
  thread_.join();
  erase_line();
}

void ProgressPrinter::watch() {
  std::unique_lock lock(mutex_);
  Duration interval = terminal_ ? Duration(kRedraw) : Duration(kPlainLine);
  while (!wake_.wait_for(lock, interval, [this] { return done_; })) {
    if (events_) {
      output_.document(event());
    } else if (terminal_) {
      std::string line = text();
      size_t width = os::terminal_width(2);
      if (line.size() >= width) line.resize(width - 1);
      std::string shown = "\r\x1b[K" + line;
      static_cast<void>(!::write(2, shown.data(), shown.size()));
      line_shown_ = true;
    } else {
      output_.note(text());
    }
  }
}

void ProgressPrinter::erase_line() {
  if (!line_shown_) return;
  static_cast<void>(!::write(2, "\r\x1b[K", 4));
  line_shown_ = false;
}

std::string ProgressPrinter::text() const {
  uint64_t done = progress_.bytes_done, total = progress_.bytes_total;
  double elapsed = std::max(0.001, static_cast<double>((system_clock().monotonic() - started_).count()) / 1e6);
  double rate = static_cast<double>(done) / elapsed;
  std::string line = fmt::format("{}: {} ", verb_, transfer::phase_name(progress_.phase()));
  line += fmt::format("{}/{} files, {}", human_count(progress_.files_done), human_count(progress_.files_total),
                      human_bytes(done));
  if (total > 0) line += fmt::format(" of {} ({} %)", human_bytes(total), std::min<uint64_t>(100, done * 100 / total));
  line += fmt::format(", {}/s", human_bytes(static_cast<uint64_t>(rate)));
  if (progress_.phase() == transfer::Phase::kMoving && total > done && rate > 1) {
    line += ", " + human_duration(Duration(static_cast<int64_t>(static_cast<double>(total - done) / rate * 1e6))) + " left";
  }
  return line;
}

std::string ProgressPrinter::event() const {
  return JsonText()
      .add("event", "progress")
      .add("phase", transfer::phase_name(progress_.phase()))
      .add("files_done", progress_.files_done.load())
      .add("files_total", progress_.files_total.load())
      .add("bytes_done", progress_.bytes_done.load())
      .add("bytes_total", progress_.bytes_total.load())
      .add("bytes_moved", progress_.bytes_moved.load())
      .str();
}

}  // namespace cairn::cli
