#include "agent/executor.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/executor_impl.h"
#include "agent/sandbox_plan.h"
#include "os/host.h"
#include "os/mount.h"

namespace cairn::agent {
namespace {

// With what to type: nobody sees the error itself.
std::string reason_of(const Error& error) {
  return error.hint().empty() ? error.to_string() : error.to_string() + "; " + error.hint();
}

constexpr Duration kLeftoverTimeout = seconds(60);

}  // namespace

Executor::Executor(ServerLink& server, VolumeIo& volumes, Clock& clock, ExecutorSettings settings)
    : impl_(std::make_unique<Impl>(server, volumes, clock, std::move(settings))) {}
Executor::~Executor() = default;
void Executor::set_step_hook(std::function<void(std::string_view)> hook) { impl_->hook = std::move(hook); }

Result<ExecutorReport> Executor::execute(const std::string& journal_dir, CancelToken cancel) {
  return impl_->execute(journal_dir, std::move(cancel));
}

Result<ExecutorReport> Executor::Impl::execute(const std::string& dir, CancelToken cancel) {
  outside = std::move(cancel);
  bool may_mount = true;
  if (settings.private_mounts) {
    // Who is not root has no mounts, and volumes are copied. Without a namespace of its own none is made at all: it would stay.
    Status entered = os::enter_mount_namespace();
    if (!entered && entered.error().code() != Code::kSandboxUnavailable) return std::move(entered).error();
    may_mount = entered.has_value();
  }
  CAIRN_TRY(Journal opened, Journal::open(dir));
  journal.emplace(std::move(opened));
  CAIRN_TRY(spool, LogSpool::open(journal->path("lines"), clock));
  mounts = std::make_unique<AttemptMounts>(*journal, volumes, may_mount);

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
  body.reason = reason_of(error);
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
    reason = stopped ? "stopped while it was being prepared" : reason_of(ran.error());
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
  if (was_running) make_durable();
  // What was never started has nothing to sync.
  return save([&](JournalState& state) { state.phase = was_running ? Phase::kExited : Phase::kSynced; });
}

Status Executor::Impl::prepare_and_run(ProcessEnd& ending) {
  heartbeat->set_state(api::RunState::kCreating, "staging");
  CAIRN_CHECK_OK(check_sandbox());
  CAIRN_CHECK_OK(check_trainer(start(), settings));
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

Result<bool> Executor::Impl::after_reboot() const {
  CAIRN_TRY(std::string boot, os::boot_id());
  return boot != journal->state().boot_id;
}

// An earlier executor (or the machine) died while the run's processes lived.
Status Executor::Impl::recover() {
  const JournalState& state = journal->state();
  CAIRN_TRY(bool rebooted, after_reboot());
  if (!rebooted) {
    CAIRN_CHECK_OK(end_leftover(state.sandbox_pid, state.sandbox_started, Deadline::after(kLeftoverTimeout)));
    CAIRN_CHECK_OK(end_leftover(state.init_pid, state.init_started, Deadline::after(kLeftoverTimeout)));
    CAIRN_CHECK_OK(end_leftover_sandboxes(journal->dir(), Deadline::after(kLeftoverTimeout)));
  }
  heartbeat->set_state(api::RunState::kSyncing, "recovering");
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
  // What the run put in the place of its output folder is its own affair, and a full disk takes no files: its work is saved
  // as it is.
  auto outputs = make_outputs(*journal, *mounts, settings.outputs_dir);
  Status logs = outputs ? open_plain_logs() : Status(outputs.error());
  if (!logs) log_warning("cannot write into the run's output folder: {}", logs.error().to_string());
  complete_plain_logs();
  make_durable();
  return save([&](JournalState& next) {
    next.phase = Phase::kExited;
    if (!next.has_ended) next.outcome = api::RunState::kFailed;
    next.reason = reason;
  });
}

}  // namespace cairn::agent
