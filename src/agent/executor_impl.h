// The executor's parts share this. Not for other files than executor.cc (start, run, recover) and executor_end.cc (logs, loss,
// sync, report).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/attempt_mounts.h"
#include "agent/executor.h"
#include "agent/heartbeat.h"
#include "agent/log_spool.h"
#include "agent/run_process.h"
#include "base/log.h"

namespace cairn::agent {

inline constexpr Duration kRetryPauseMin = milliseconds(500);
inline constexpr Duration kCallTimeout = minutes(2);

// Whether asking again later may help.
inline bool may_cure(const Error& error) { return retry_class(error.code()) != RetryClass::kNever; }

// The run's log files on the volume: opened once, so that nothing the run does to the names leads elsewhere.
struct PlainLog {
  std::string component;
  uint64_t size_before = 0;
};

struct Executor::Impl {
  Impl(ServerLink& server_, VolumeIo& volumes_, Clock& clock_, ExecutorSettings settings_)
      : server(server_), volumes(volumes_), clock(clock_), settings(std::move(settings_)) {}

  ServerLink& server;
  VolumeIo& volumes;
  Clock& clock;
  ExecutorSettings settings;
  std::function<void(std::string_view)> hook;

  // Of the attempt being executed.
  std::optional<Journal> journal;
  std::unique_ptr<LogSpool> spool;
  std::unique_ptr<AttemptMounts> mounts;
  std::unique_ptr<Heartbeat> heartbeat;
  CancelToken outside;
  CancelToken end;
  std::vector<PlainLog> plain_logs;

  void step(std::string_view name) {
    if (hook) hook(name);
  }
  const api::AttemptStart& start() const { return *journal->start(); }
  Status save(const std::function<void(JournalState&)>& change) {
    JournalState state = journal->state();
    change(state);
    return journal->save(std::move(state));
  }
  void note(const std::string& line) {
    log_info("run {}: {}", journal->assignment().run.hex(), line);
    if (spool) spool->note(line);
  }
  Deadline until_end() const { return Deadline::never(end); }

  Result<ExecutorReport> execute(const std::string& dir, CancelToken cancel);
  Status open_attempt();
  Status run();
  Status prepare_and_run(ProcessEnd& ending);
  Result<bool> after_reboot() const;  // of the node since the run's processes were started
  Status recover();
  void make_durable();
  Status open_plain_logs();
  void complete_plain_logs();
  void measure_loss();
  Status sync_all();
  Status sync_one(const AttemptMount& mount);
  Status settle(const AttemptMount& mount, const transfer::SyncSummary& summary, std::optional<uint64_t> step_saved);
  Status send_log();
  Status report();
  void release_lowers();
  void clean_up();
  Status fail_before_start(const Error& error);
};

}  // namespace cairn::agent
