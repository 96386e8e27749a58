#include "agent/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "agent/stop_signals.h"
#include "agent/usage.h"
#include "base/log.h"
#include "base/quantity.h"
#include "os/disk.h"

namespace cairn::agent {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr Duration kNoSpaceGrace = seconds(10);
constexpr int kPollMs = 100;

void capture(int fd, const std::string& component, LogSpool& spool) {
  std::string buffer(kReadBytes, '\0');
  while (true) {
    ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    spool.write(component, std::string_view(buffer).substr(0, static_cast<size_t>(count)));
  }
  spool.close_component(component);
}

// Ends the run when a volume would not fit its size, or the node runs out of disk.
class SpaceWatch {
 public:
  SpaceWatch(const ProcessPlan& plan, const std::vector<AttemptMount>& mounts, Heartbeat& heartbeat, CancelToken end)
      : plan_(plan), mounts_(mounts), heartbeat_(heartbeat), end_(std::move(end)), thread_([this] { loop(); }) {}
  ~SpaceWatch() { stop(); }
  void stop() {
    {
      std::lock_guard lock(mutex_);
      quit_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  std::string no_space() const {
    std::lock_guard lock(mutex_);
    return no_space_;
  }

 private:
  void loop() {
    while (true) {
      auto begin = std::chrono::steady_clock::now();
      std::string why = look();
      auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begin);
      std::unique_lock lock(mutex_);
      if (!why.empty() && no_space_.empty()) {
        no_space_ = why;
        end_.cancel();
      }
      // A large upper is not walked all the time.
      changed_.wait_for(lock, std::max(plan_.usage_interval, 10 * took), [&] { return quit_; });
      if (quit_) return;
    }
  }

  std::string look() {
    api::PendingState pending;
    std::string why;
    for (const AttemptMount& mount : mounts_) {
      if (!mount.writable()) continue;
      auto use = mount.plain_copy ? folder_use(mount.merged) : overlay_use(mount.upper, mount.lower, mount.staged_bytes);
      if (!use) continue;  // it changes under the walk; the next look counts
      pending.files += use->written_files;
      pending.bytes += use->written_bytes;
      if (use->live_bytes > mount.grant.size_bytes) {
        why = fmt::format("volume '{0}' is full: it would hold {1} of {2}; cairn volumes expand {0} --size S", mount.grant.volume,
                          human_bytes(use->live_bytes), human_bytes(mount.grant.size_bytes));
      }
    }
    heartbeat_.set_pending(pending, pending.files == 0);
    auto disk = os::disk_space(plan_.disk_path);
    if (disk && disk->available_bytes < plan_.reserve_bytes) {
      why = fmt::format("the node's disk is full: {} free, and {} are kept so that the work can be saved",
                        human_bytes(disk->available_bytes), human_bytes(plan_.reserve_bytes));
    }
    return why;
  }

  const ProcessPlan& plan_;
  const std::vector<AttemptMount>& mounts_;
  Heartbeat& heartbeat_;
  CancelToken end_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;
  std::string no_space_;
  std::thread thread_;  // last: it uses the others
};

// Waits for the end of the sandbox, asking for it when `end` says so. Asked, it ends with its last process, not with its command:
// the shell of a script or a pipeline dies at once, and the trainer it started has yet to save.
Result<os::ExitStatus> wait_for_end(Sandbox& sandbox, SpaceWatch& watch, Heartbeat& heartbeat, const CancelToken& end,
                                    bool& asked) {
  std::optional<Deadline> kill_at;
  StopSignals stop(sandbox.init_pid());
  while (true) {
    struct pollfd ready = {sandbox.pidfd(), POLLIN, 0};
    ::poll(&ready, 1, kPollMs);
    CAIRN_TRY(std::optional<os::ExitStatus> status, sandbox.try_wait());
    if (status) return *status;
    if (!end.cancelled()) continue;
    if (!kill_at) {
      asked = true;
      Duration grace = seconds(heartbeat.grace_seconds());
      if (!watch.no_space().empty()) grace = std::min(grace, kNoSpaceGrace);
      kill_at = Deadline::after(grace);
      sandbox.hold();
    }
    if (kill_at->expired()) {
      sandbox.kill_all();
    } else if (sandbox.all_ended()) {
      sandbox.let_go();
    } else {
      stop.send();
    }
  }
}

}  // namespace

Result<ProcessEnd> run_process(const ProcessPlan& plan, const std::vector<AttemptMount>& mounts, LogSpool& spool,
                               Heartbeat& heartbeat, CancelToken end) {
  CAIRN_TRY(os::Pipe out, os::make_pipe());
  CAIRN_TRY(os::Pipe err, os::make_pipe());
  auto sandbox = Sandbox::start(plan.sandbox, out.write_end.get(), err.write_end.get());
  out.write_end.reset();
  err.write_end.reset();
  std::thread out_thread([&] { capture(out.read_end.get(), "stdout", spool); });
  std::thread err_thread([&] { capture(err.read_end.get(), "stderr", spool); });
  Result<ProcessEnd> result = ProcessEnd();
  if (!sandbox) {
    result = sandbox.error();
  } else {
    Status noted = plan.started(*sandbox);
    SpaceWatch watch(plan, mounts, heartbeat, end);
    if (!noted) end.cancel();
    ProcessEnd ending;
    auto status = wait_for_end(*sandbox, watch, heartbeat, end, ending.asked_to_end);
    watch.stop();
    ending.no_space = watch.no_space();
    if (!noted) {
      result = noted.error();
    } else if (!status) {
      result = status.error();
    } else {
      ending.exit_code = status->shell_code();
      result = ending;
    }
    // On an error the sandbox goes here, with all its processes.
    if (!result) sandbox = Error(Code::kInternal, "gone");
  }
  // All writers are gone, so both pipes end.
  out_thread.join();
  err_thread.join();
  return result;
}

}  // namespace cairn::agent
