#include "agent/executor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "agent/attempt_mounts.h"
#include "agent/checkpoint_scan.h"
#include "agent/heartbeat.h"
#include "agent/log_spool.h"
#include "agent/run_process.h"
#include "agent/sandbox_plan.h"
#include "agent/usage.h"
#include "base/check.h"
#include "base/log.h"
#include "os/file_system.h"
#include "os/host.h"
#include "os/mount.h"
#include "os/tree.h"

namespace cairn::agent {
namespace {

constexpr Duration kRetryPauseMin = milliseconds(500);
constexpr Duration kCallTimeout = minutes(2);
constexpr Duration kLastLogTimeout = seconds(30);
constexpr Duration kLeftoverTimeout = seconds(60);
constexpr size_t kLossPathsShown = 20;
constexpr int kSyncsOfFailedFiles = 3;
const char* const kComponents[] = {"stdout", "stderr", "cairn"};

bool may_cure(const Error& error) { return retry_class(error.code()) != RetryClass::kNever; }

// The run's log files on the volume: opened once, so that nothing the run does to the names leads elsewhere.
struct PlainLog {
  std::string component;
  uint64_t size_before = 0;
};

}  // namespace

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
  Status recover();
  Status open_plain_logs();
  void complete_plain_logs();
  void measure_loss();
  Status sync_all();
  Status sync_one(const AttemptMount& mount);
  Status report();
  void clean_up();
  Status fail_before_start(const Error& error);
};

Executor::Executor(ServerLink& server, VolumeIo& volumes, Clock& clock, ExecutorSettings settings)
    : impl_(std::make_unique<Impl>(server, volumes, clock, std::move(settings))) {}
Executor::~Executor() = default;
void Executor::set_step_hook(std::function<void(std::string_view)> hook) { impl_->hook = std::move(hook); }

Result<ExecutorReport> Executor::execute(const std::string& journal_dir, CancelToken cancel) {
  return impl_->execute(journal_dir, std::move(cancel));
}

Result<ExecutorReport> Executor::Impl::execute(const std::string& dir, CancelToken cancel) {
  outside = std::move(cancel);
  if (settings.private_mounts) CAIRN_CHECK_OK(os::enter_mount_namespace());
  CAIRN_TRY(Journal opened, Journal::open(dir));
  journal.emplace(std::move(opened));
  CAIRN_TRY(spool, LogSpool::open(journal->path("lines"), clock));
  mounts = std::make_unique<AttemptMounts>(*journal, volumes);

  if (journal->state().phase == Phase::kAssigned) CAIRN_CHECK_OK(open_attempt());
  if (journal->state().phase != Phase::kFinished) {
    heartbeat = std::make_unique<Heartbeat>(server, *spool, start(), journal->assignment().secret, outside, end);
    if (journal->state().phase == Phase::kStarted) CAIRN_CHECK_OK(run());
    if (journal->state().phase == Phase::kRunning) CAIRN_CHECK_OK(recover());
    if (journal->state().phase == Phase::kExited) CAIRN_CHECK_OK(sync_all());
    if (journal->state().phase == Phase::kSynced) CAIRN_CHECK_OK(report());
    heartbeat.reset();
  }
  clean_up();
  const JournalState& state = journal->state();
  return ExecutorReport{state.outcome, state.exit_code, state.reason, state.snapshot, state.kept_aside};
}

// Asks for the attempt's leases and snapshots, and writes the answer down before anything is done with it.
Status Executor::Impl::open_attempt() {
  api::StartAttempt body;
  body.secret = journal->assignment().secret;
  Duration pause = kRetryPauseMin;
  while (true) {
    step("start");
    auto answer = server.start_attempt(journal->assignment().attempt, body, Deadline::after(kCallTimeout, system_clock(), outside));
    if (answer) {
      step("started");
      CAIRN_CHECK_OK(journal->save_start(*answer));
      return save([](JournalState& state) { state.phase = Phase::kStarted; });
    }
    if (outside.cancelled()) return std::move(answer).error();
    // Held volumes are an answer too: the lease this run had was broken meanwhile.
    if (!may_cure(answer.error()) || answer.error().code() == Code::kWriterLeaseHeld) {
      return fail_before_start(answer.error());
    }
    log_warning("cannot start the attempt yet: {}", answer.error().to_string());
    system_clock().sleep_for(pause);
    pause = std::min(2 * pause, settings.retry_pause_max);
  }
}

// Nothing was granted, so there is nothing to bring home.
Status Executor::Impl::fail_before_start(const Error& error) {
  log_warning("run {} does not start: {}", journal->assignment().run.hex(), error.to_string());
  api::FinishAttempt body;
  body.secret = journal->assignment().secret;
  body.state = error.code() == Code::kRunStateConflict ? api::RunState::kStopped : api::RunState::kFailed;
  body.reason = error.to_string();
  Status finished = server.finish(journal->assignment().attempt, body, Deadline::after(kCallTimeout));
  if (!finished && may_cure(finished.error())) return finished;
  return save([&](JournalState& state) {
    state.phase = Phase::kFinished;
    state.outcome = body.state;
    state.reason = body.reason;
  });
}

Status Executor::Impl::run() {
  ProcessEnd ending;
  Status ran = prepare_and_run(ending);
  bool was_running = journal->state().phase == Phase::kRunning;
  api::RunState outcome = api::RunState::kFailed;
  std::string reason;
  if (!ran) {
    bool stopped = end.cancelled() && !was_running;
    outcome = stopped ? api::RunState::kStopped : api::RunState::kFailed;
    reason = stopped ? "stopped while it was being prepared" : ran.error().to_string();
  } else if (!ending.no_space.empty()) {
    reason = "no_space_left: " + ending.no_space;
  } else if (ending.asked_to_end) {
    outcome = api::RunState::kStopped;
    reason = heartbeat->stop_asked() ? "stopped" : outside.cancelled() ? "the node's agent was stopped" : "the server gave it up";
  } else if (ending.exit_code == 0) {
    outcome = api::RunState::kCompleted;
  } else {
    reason = fmt::format("the command ended with exit code {}", ending.exit_code);
  }
  // The end first: who comes after a kill here knows how the command ended.
  CAIRN_CHECK_OK(save([&](JournalState& state) {
    state.outcome = outcome;
    state.reason = reason;
    state.has_ended = true;
    if (ran) state.exit_code = ending.exit_code;
  }));
  step("exited");
  if (was_running) measure_loss();
  if (!reason.empty()) note(reason);
  complete_plain_logs();
  // What was never started has nothing to sync.
  return save([&](JournalState& state) { state.phase = was_running ? Phase::kExited : Phase::kSynced; });
}

Status Executor::Impl::prepare_and_run(ProcessEnd& ending) {
  heartbeat->set_state(api::RunState::kCreating, "staging");
  CAIRN_CHECK_OK(check_sandbox());
  CAIRN_TRY(GrantedGpus gpus, take_gpus(start().gpu, settings.locks_dir));
  step("stage");
  CAIRN_CHECK_OK(mounts->bring_up(false, [&](const std::string& what) { heartbeat->set_message(what); }, until_end()));
  step("staged");
  if (end.cancelled()) return Error(Code::kCancelled, "stopped");
  // From here on uppers change: whoever comes next has to bring them home.
  CAIRN_TRY(std::string boot, os::boot_id());
  CAIRN_CHECK_OK(save([&](JournalState& state) {
    state.phase = Phase::kRunning;
    state.boot_id = boot;
  }));
  CAIRN_TRY(OutputPlace outputs, make_outputs(*journal, *mounts, settings.outputs_dir));
  CAIRN_CHECK_OK(open_plain_logs());
  ProcessPlan plan;
  CAIRN_TRY(plan.sandbox, plan_sandbox(*journal, *mounts, outputs, gpus, settings));
  plan.disk_path = journal->dir();
  plan.reserve_bytes = settings.reserve_bytes;
  plan.usage_interval = settings.usage_interval;
  plan.started = [&](const Sandbox& sandbox) -> Status {
    CAIRN_CHECK_OK(save([&](JournalState& state) {
      state.sandbox_pid = sandbox.pid();
      state.init_pid = sandbox.init_pid();
      state.sandbox_started = process_start_time(sandbox.pid()).value_or(0);
      state.init_started = process_start_time(sandbox.init_pid()).value_or(0);
    }));
    heartbeat->set_state(api::RunState::kRunning, "running");
    step("running");
    return ok();
  };
  CAIRN_TRY(ending, run_process(plan, mounts->all(), *spool, *heartbeat, end));
  return ok();
}

// An earlier executor (or the machine) died while the run's processes lived.
Status Executor::Impl::recover() {
  const JournalState& state = journal->state();
  CAIRN_TRY(std::string boot, os::boot_id());
  bool rebooted = boot != state.boot_id;
  if (!rebooted) {
    CAIRN_CHECK_OK(end_leftover(state.sandbox_pid, state.sandbox_started, Deadline::after(kLeftoverTimeout)));
    CAIRN_CHECK_OK(end_leftover(state.init_pid, state.init_started, Deadline::after(kLeftoverTimeout)));
  }
  heartbeat->set_state(api::RunState::kSyncing, "recovering");
  // After a reboot files may have the right size and the wrong bytes: they are kept aside, not put over what is there.
  if (rebooted) CAIRN_CHECK_OK(heartbeat->tell_reboot(outside));
  CAIRN_CHECK_OK(mounts->bring_up(true, [&](const std::string& what) { heartbeat->set_message(what); }, Deadline::never()));
  measure_loss();
  std::string reason = rebooted ? "the node was restarted while the run was running"
                                : "its executor was killed while the run was running";
  if (state.has_ended) {
    reason = state.reason;
    if (!reason.empty()) note(reason);
  } else {
    note(reason + "; what it had written is saved");
  }
  CAIRN_TRY([[maybe_unused]] OutputPlace outputs, make_outputs(*journal, *mounts, settings.outputs_dir));
  CAIRN_CHECK_OK(open_plain_logs());
  complete_plain_logs();
  return save([&](JournalState& next) {
    next.phase = Phase::kExited;
    if (!next.has_ended) next.outcome = api::RunState::kFailed;
    next.reason = reason;
  });
}

Status Executor::Impl::open_plain_logs() {
  OutputPlace place = output_place(*journal, *mounts, settings.outputs_dir);
  CAIRN_TRY(os::Directory output, os::Directory::open(place.host_dir));
  CAIRN_TRY(os::Directory logs, output.make_directories("logs", 0755));
  plain_logs.clear();
  for (const char* component : kComponents) {
    std::string name = std::string(component) + ".log";
    auto created = logs.create_file(name, 0644);
    PlainLog log;
    log.component = component;
    os::Fd fd;
    if (created) {
      fd = *std::move(created);
    } else if (created.error().code() == Code::kFileExists) {
      auto there = logs.open_file_to_write(name);
      if (!there) continue;  // the run put something else there: the spool has it all
      fd = std::move(there->fd);
      off_t at = ::lseek(fd.get(), 0, SEEK_END);
      log.size_before = at > 0 ? static_cast<uint64_t>(at) : 0;
    } else {
      return std::move(created).error();
    }
    plain_logs.push_back(log);
    spool->tee(component, std::move(fd));
  }
  return ok();
}

// The files on the volume hold what was captured, also when the run removed or cut them, or an executor died between two writes.
void Executor::Impl::complete_plain_logs() {
  spool->untee();
  if (plain_logs.empty()) return;
  OutputPlace place = output_place(*journal, *mounts, settings.outputs_dir);
  auto output = os::Directory::open(place.host_dir);
  if (!output) return;
  auto logs = output->make_directories("logs", 0755);
  if (!logs) return;
  for (const PlainLog& log : plain_logs) {
    std::string name = log.component + ".log";
    auto stat = logs->stat(name);
    uint64_t captured = spool->component_bytes(log.component);
    bool whole = stat && stat->type == os::FileType::kFile && stat->size >= captured;
    if (whole && captured == 0 && stat->size == 0) {
      Status removed = logs->remove(name);
      if (!removed) log_warning("{}", removed.error().to_string());
    }
    if (whole || (log.size_before > 0 && start().number > 1)) continue;
    Status removed = logs->remove_tree(name);
    auto fd = logs->create_file(name, 0644);
    Status written = !removed ? removed : !fd ? Status(fd.error()) : spool->rewrite(log.component, fd->get());
    if (!written) log_warning("cannot write {} onto the volume: {}", name, written.error().to_string());
  }
}

void Executor::Impl::measure_loss() {
  Loss loss;
  const AttemptMount* workspace = mounts->workspace();
  std::string workspace_dir = journal->path("workspace");
  if (workspace != nullptr) {
    workspace_dir = workspace->plain_copy ? "" : workspace->upper;
  } else if (start().workspace) {
    workspace_dir = journal->mount_path(start().mounts.size(), "upper");
  }
  Status status = workspace_dir.empty() ? ok() : add_loss(workspace_dir, "/workspace", {}, loss);
  if (status) status = add_loss(journal->path("root"), "", {}, loss);
  if (status) status = add_loss(journal->path("home"), kHome, {"venv", ".cache"}, loss);
  if (!status) log_warning("cannot measure what was written outside the volumes: {}", status.error().to_string());
  if (loss.files == 0) return;
  std::vector<std::string> largest = loss.paths();
  std::string names;
  for (size_t i = 0; i < std::min(largest.size(), kLossPathsShown); ++i) names += " " + largest[i];
  note(fmt::format("written outside the volumes and not kept: {} bytes in {} files:{}{}", loss.bytes, loss.files, names,
                   loss.files > kLossPathsShown ? " …" : ""));
  Status saved = save([&](JournalState& state) {
    state.lost_bytes = loss.bytes;
    state.lost_paths = std::move(largest);
  });
  if (!saved) log_warning("{}", saved.error().to_string());
}

Status Executor::Impl::sync_all() {
  heartbeat->set_state(api::RunState::kSyncing, "publishing");
  if (mounts->all().empty()) {
    CAIRN_CHECK_OK(mounts->bring_up(true, [&](const std::string& what) { heartbeat->set_message(what); }, Deadline::never()));
  }
  for (const AttemptMount& mount : mounts->all()) {
    if (!mount.writable() || journal->state().synced[mount.index]) continue;
    step("sync");
    CAIRN_CHECK_OK(sync_one(mount));
    step("published");
  }
  heartbeat->set_pending({}, true);
  return save([](JournalState& state) { state.phase = Phase::kSynced; });
}

Status Executor::Impl::sync_one(const AttemptMount& mount) {
  std::string scratch = journal->path("scratch");
  CAIRN_CHECK_OK(os::posix_file_system().make_directories(scratch, 0700));
  transfer::SyncOptions options;
  options.mounted_dir = mount.merged;
  options.upper_dir = mount.upper;
  options.manifest_file = mount.manifest;
  options.scratch_dir = scratch;
  options.kind = "final";
  options.reason = fmt::format("run {} {}", start().run.hex(), api::state_name(journal->state().outcome));
  std::optional<uint64_t> step_saved;
  if (mount.grant.primary) {
    auto newest = newest_complete_step(mount.merged, start().output_directory + "/checkpoints");
    if (newest) step_saved = *newest;
  }
  Duration pause = kRetryPauseMin;
  int hopeless = 0;
  int with_failed_files = 0;
  while (true) {
    transfer::Progress progress;
    auto summary = volumes.sync(mount.grant, options, progress, Deadline::never());
    if (summary && summary->failed > 0 && ++with_failed_files < kSyncsOfFailedFiles) continue;
    if (summary) {
      if (summary->failed > 0) {
        std::string names;
        for (const std::string& path : summary->failed_paths) names += " " + path;
        note(fmt::format("{} files of '{}' could not be saved; they stay on the node in {}:{}", summary->failed,
                         mount.grant.volume, journal->dir(), names));
      }
      if (!summary->side.empty()) {
        note(fmt::format("'{}': the changes could not go to the head and are kept as {}; cairn volumes info {} shows them",
                         mount.grant.volume, summary->side, mount.grant.volume));
      } else if (summary->published) {
        note(fmt::format("'{}': published snapshot {} ({} files changed, {} deleted, {} bytes sent)", mount.grant.volume,
                         summary->snapshot, summary->files_changed, summary->files_deleted, summary->bytes_sent));
      }
      if (mount.grant.primary && summary->published) {
        api::SavedState saved;
        saved.step = step_saved;
        saved.snapshot = summary->snapshot;
        saved.at = clock.now();
        heartbeat->set_saved(saved);
      }
      return save([&](JournalState& state) {
        state.synced[mount.index] = true;
        if (mount.grant.primary && summary->published) state.snapshot = summary->snapshot;
        if (mount.grant.primary) state.saved_step = step_saved;
        if (!summary->side.empty()) state.kept_aside = true;
        if (summary->failed > 0) state.keep = true;
      });
    }
    heartbeat->set_message("publishing: " + summary.error().to_string());
    log_warning("cannot publish '{}' yet: {}", mount.grant.volume, summary.error().to_string());
    if (!may_cure(summary.error()) && ++hopeless >= settings.sync_tries_max) return std::move(summary).error();
    // Asked to go (a node that shuts down): the journal says what is left to do.
    if (outside.cancelled() && hopeless > 2) return std::move(summary).error();
    system_clock().sleep_for(pause);
    pause = std::min(2 * pause, settings.retry_pause_max);
  }
}

Status Executor::Impl::report() {
  heartbeat->flush(kLastLogTimeout);
  const JournalState& state = journal->state();
  api::FinishAttempt body;
  body.secret = journal->assignment().secret;
  body.state = state.outcome;
  body.exit_code = state.exit_code;
  body.reason = state.reason;
  body.lost_paths = state.lost_paths;
  body.lost_bytes = state.lost_bytes;
  if (state.snapshot > 0) {
    api::SavedState saved;
    saved.step = state.saved_step;
    saved.snapshot = state.snapshot;
    saved.at = clock.now();
    body.saved = saved;
  }
  Duration pause = kRetryPauseMin;
  while (true) {
    step("finish");
    Status finished = server.finish(start().attempt, body, Deadline::after(kCallTimeout));
    // An attempt that the server no longer knows has nobody left to tell.
    if (!finished && may_cure(finished.error())) {
      if (outside.cancelled()) return finished;
      log_warning("cannot report the end yet: {}", finished.error().to_string());
      system_clock().sleep_for(pause);
      pause = std::min(2 * pause, settings.retry_pause_max);
      continue;
    }
    if (!finished) log_warning("the server does not take the end of this attempt: {}", finished.error().to_string());
    step("finished");
    return save([](JournalState& next) { next.phase = Phase::kFinished; });
  }
}

void Executor::Impl::clean_up() {
  mounts->take_down();
  if (journal->state().keep) return;
  if (journal->start()) {
    for (const api::MountGrant& mount : start().mounts) {
      if (!mount.upload) continue;
      Status released = volumes.release(mount, journal->assignment().attempt.hex());
      if (!released) log_warning("{}", released.error().to_string());
    }
  }
  auto dir = os::Directory::open(journal->dir());
  if (!dir) return;
  auto names = dir->list_names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (name == "lock" || name == "state" || name == "assignment.json" || name == "start.json") continue;
    Status removed = dir->remove_tree(name);
    if (!removed) log_warning("cannot remove {}/{}: {}", journal->dir(), name, removed.error().to_string());
  }
}

}  // namespace cairn::agent
