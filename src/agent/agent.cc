#include "agent/agent.h"

#include <signal.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "agent/journal.h"
#include "agent/node_facts.h"
#include "base/log.h"
#include "os/disk.h"
#include "os/file_system.h"
#include "os/lock_file.h"
#include "os/process.h"
#include "os/tree.h"

namespace cairn::agent {
namespace {

constexpr Duration kRegisterTimeout = seconds(30);
constexpr Duration kCleanEvery = minutes(10);
constexpr Duration kSupervisePause = milliseconds(200);
constexpr Duration kGiveUpTimeout = seconds(10);
constexpr int kStartTriesMax = 5;

struct Executing {
  std::optional<os::Process> process;  // nothing: adopted, started by an agent before this one
  Time next_try{0};
  Duration pause{0};
  int starts = 0;
  bool forgotten = false;  // the server needs to hear no more of it
};

}  // namespace

std::string attempts_dir(const std::string& state_dir) { return state_dir + "/attempts"; }
std::string outputs_dir(const std::string& state_dir) { return state_dir + "/outputs"; }
std::string cache_dir(const std::string& state_dir) { return state_dir + "/cache"; }
std::string locks_dir(const std::string& state_dir) { return state_dir + "/locks"; }

struct Agent::Impl {
  Impl(ServerLink& server_, Clock& clock_, AgentSettings settings_)
      : server(server_), clock(clock_), settings(std::move(settings_)) {}

  ServerLink& server;
  Clock& clock;
  AgentSettings settings;
  std::mutex mutex;  // guards executing: the poll loop adds, the supervisor restarts and removes
  std::map<AttemptId, Executing> executing;
  bool draining = false;

  std::string dir_of(AttemptId attempt) const { return attempts_dir(settings.state_dir) + "/" + attempt.hex(); }

  Status find_journals();
  Result<NodeId> register_until(const CancelToken& cancel);
  void poll_loop(NodeId node, const CancelToken& cancel);
  void supervise(const CancelToken& cancel);
  void look_after(AttemptId attempt, Executing& entry, bool& gone);
  Status start_executor(AttemptId attempt, Executing& entry);
  Status give_up(AttemptId attempt);
  void assign(const api::Assignment& assignment);
  void drain();
  void remove_journal(AttemptId attempt);
  void remove_old_outputs();
};

Agent::Agent(ServerLink& server, Clock& clock, AgentSettings settings)
    : impl_(std::make_unique<Impl>(server, clock, std::move(settings))) {}
Agent::~Agent() = default;

Status Agent::run(CancelToken cancel, const std::function<void(NodeId)>& ready) {
  Impl& self = *impl_;
  os::FileSystem& files = os::posix_file_system();
  const std::string& state_dir = self.settings.state_dir;
  CAIRN_CHECK_OK(files.make_directories(state_dir, 0700));
  for (const std::string& dir : {attempts_dir(state_dir), outputs_dir(state_dir), cache_dir(state_dir), locks_dir(state_dir)}) {
    CAIRN_CHECK_OK(files.make_directories(dir, 0700));
  }
  auto lock = os::LockFile::try_lock(state_dir + "/agent.lock", fmt::format("cairn agent of node {}", self.settings.name));
  if (!lock) return std::move(lock).error();
  CAIRN_CHECK_OK(self.find_journals());
  // What earlier runs left is brought home even while the server is away.
  CancelToken quit;
  std::thread supervisor([&] { self.supervise(quit); });
  auto node = self.register_until(cancel);
  if (node) {
    log_info("node {} is registered as {}", self.settings.name, node->hex());
    if (ready) ready(*node);
    self.poll_loop(*node, cancel);
  }
  if (self.settings.drain_on_stop) self.drain();
  quit.cancel();
  supervisor.join();
  for (auto& [attempt, entry] : self.executing) {
    if (entry.process) entry.process->detach();
  }
  if (!node && node.error().code() != Code::kCancelled) return std::move(node).error();
  return ok();
}

Status Agent::Impl::find_journals() {
  CAIRN_TRY(std::vector<os::DirectoryEntry> entries, os::posix_file_system().list(attempts_dir(settings.state_dir)));
  for (const os::DirectoryEntry& entry : entries) {
    std::optional<AttemptId> attempt = AttemptId::from_hex(entry.name);
    if (!attempt || entry.type != os::FileType::kDirectory) continue;
    auto state = Journal::peek(dir_of(*attempt));
    if (!state && state.error().code() == Code::kFileNotFound) {
      // Never handed out.
      remove_journal(*attempt);
      continue;
    }
    // A damaged one is left to its executor, which says so, and to the operator.
    executing.emplace(*attempt, Executing());
  }
  return ok();
}

Result<NodeId> Agent::Impl::register_until(const CancelToken& cancel) {
  Duration pause = settings.retry_pause_min;
  while (!cancel.cancelled()) {
    CAIRN_TRY(api::RegisterNode facts, node_facts(settings.name, settings.state_dir));
    auto node = server.register_node(facts, Deadline::after(kRegisterTimeout, system_clock(), cancel));
    if (node) return node->node;
    if (retry_class(node.error().code()) == RetryClass::kNever && node.error().code() != Code::kCancelled) {
      return std::move(node).error().while_doing("registering node '" + settings.name + "'");
    }
    log_warning("cannot register yet: {}", node.error().to_string());
    for (Duration slept{0}; slept < pause && !cancel.cancelled(); slept += milliseconds(100)) clock.sleep_for(milliseconds(100));
    pause = std::min(2 * pause, settings.retry_pause_max);
  }
  return Error(Code::kCancelled, "cancelled");
}

void Agent::Impl::poll_loop(NodeId node, const CancelToken& cancel) {
  Duration pause = settings.retry_pause_min;
  while (!cancel.cancelled()) {
    api::PollNode body;
    {
      std::lock_guard guard(mutex);
      for (const auto& [attempt, entry] : executing) {
        if (!entry.forgotten) body.attempts.push_back(attempt);
      }
    }
    body.wait_seconds = static_cast<uint64_t>(std::chrono::duration_cast<seconds>(settings.poll_wait).count());
    if (auto disk = os::disk_space(settings.state_dir)) body.disk_free_bytes = disk->available_bytes;
    auto answer = server.poll(node, body, Deadline::after(settings.poll_wait + seconds(30), system_clock(), cancel));
    if (!answer) {
      if (cancel.cancelled()) return;
      log_warning("poll: {}", answer.error().to_string());
      if (answer.error().code() == Code::kNodeNotFound) {
        auto again = register_until(cancel);
        if (again) node = *again;
      }
      for (Duration slept{0}; slept < pause && !cancel.cancelled(); slept += milliseconds(100)) clock.sleep_for(milliseconds(100));
      pause = std::min(2 * pause, settings.retry_pause_max);
      continue;
    }
    pause = settings.retry_pause_min;
    for (const api::Assignment& assignment : answer->start) assign(assignment);
    // Stops reach the executors by their own heartbeats. What is to be forgotten goes when its executor is done with it: only
    // the executor knows whether something is left to save.
    std::lock_guard guard(mutex);
    for (AttemptId attempt : answer->forget) {
      auto entry = executing.find(attempt);
      if (entry != executing.end()) entry->second.forgotten = true;
    }
  }
}

void Agent::Impl::assign(const api::Assignment& assignment) {
  Status created = Journal::create(dir_of(assignment.attempt), assignment);
  if (!created) {
    // The server offers it again.
    log_error("cannot write the journal of run {}: {}", assignment.run.hex(), created.error().to_string());
    return;
  }
  std::lock_guard guard(mutex);
  Executing& entry = executing[assignment.attempt];
  if (entry.process) return;
  Status started = start_executor(assignment.attempt, entry);
  if (!started) log_error("cannot start the executor of run {}: {}", assignment.run.hex(), started.error().to_string());
}

Status Agent::Impl::start_executor(AttemptId attempt, Executing& entry) {
  os::SpawnOptions options;
  options.argv = settings.executor_command;
  options.argv.push_back("--journal");
  options.argv.push_back(dir_of(attempt));
  options.cwd = "/";
  options.new_session = true;
  ++entry.starts;
  auto process = os::Process::spawn(options);
  if (!process) {
    Journal::note_error(dir_of(attempt), process.error());
    return std::move(process).error();
  }
  log_info("attempt {}: executor {} started", attempt.hex(), process->pid());
  entry.process = *std::move(process);
  return ok();
}

// Its executors asked nothing of the server, so nothing ran and nothing is to be saved.
Status Agent::Impl::give_up(AttemptId attempt) {
  CAIRN_TRY(Journal journal, Journal::open(dir_of(attempt)));
  std::string error = Journal::noted_error(dir_of(attempt));
  if (error.empty()) error = "the agent's log there may say why";
  JournalState state = journal.state();
  state.outcome = api::RunState::kFailed;
  state.reason = fmt::format("its executor could not start on node {}: {}", settings.name, error);
  api::FinishAttempt body;
  body.secret = journal.assignment().secret;
  body.state = state.outcome;
  body.reason = state.reason;
  log_error("attempt {} is given up: {}", attempt.hex(), state.reason);
  Status finished = server.finish(attempt, body, Deadline::after(kGiveUpTimeout));
  if (!finished && retry_class(finished.error().code()) != RetryClass::kNever) return finished;
  if (!finished) log_warning("attempt {}: {}", attempt.hex(), finished.error().to_string());
  state.phase = Phase::kFinished;
  return journal.save(std::move(state));
}

// Reaps an executor that ended, and starts it again when work is left.
void Agent::Impl::look_after(AttemptId attempt, Executing& entry, bool& gone) {
  if (entry.process) {
    auto status = entry.process->try_wait();
    if (status && !*status) return;  // it works
    if (status) log_info("attempt {}: executor ended with {}", attempt.hex(), (*status)->to_string());
    entry.process.reset();
  } else if (Journal::in_use(dir_of(attempt))) {
    return;  // adopted, and at work
  }
  auto state = Journal::peek(dir_of(attempt));
  if (state && state->phase == Phase::kFinished) {
    if (!state->keep) remove_journal(attempt);
    gone = true;
    return;
  }
  Time now = clock.now();
  if (draining || now < entry.next_try) return;
  entry.pause = std::clamp<Duration>(2 * entry.pause, settings.retry_pause_min, settings.retry_pause_max);
  entry.next_try = now + entry.pause;
  if (state && state->phase == Phase::kAssigned && entry.starts >= kStartTriesMax) {
    Status given_up = give_up(attempt);
    if (!given_up) log_warning("attempt {}: its end cannot be reported yet: {}", attempt.hex(), given_up.error().to_string());
    return;
  }
  Status started = start_executor(attempt, entry);
  if (!started) log_error("attempt {}: cannot start its executor: {}", attempt.hex(), started.error().to_string());
}

void Agent::Impl::supervise(const CancelToken& cancel) {
  Duration cleaned{0};
  bool first = true;
  while (!cancel.cancelled()) {
    {
      std::lock_guard guard(mutex);
      for (auto entry = executing.begin(); entry != executing.end();) {
        bool gone = false;
        look_after(entry->first, entry->second, gone);
        entry = gone ? executing.erase(entry) : std::next(entry);
      }
    }
    if (first || clock.monotonic() - cleaned > kCleanEvery) {
      remove_old_outputs();
      cleaned = clock.monotonic();
      first = false;
    }
    clock.sleep_for(kSupervisePause);
  }
}

void Agent::Impl::drain() {
  {
    std::lock_guard guard(mutex);
    draining = true;
    for (auto& [attempt, entry] : executing) {
      if (entry.process) {
        Status asked = entry.process->kill(SIGTERM);
        if (!asked) log_warning("{}", asked.error().to_string());
      } else if (Journal::in_use(dir_of(attempt))) {
        Journal::ask_executor_to_end(dir_of(attempt));
      }
    }
  }
  Deadline deadline = Deadline::after(settings.drain_timeout);
  while (!deadline.expired()) {
    {
      std::lock_guard guard(mutex);
      bool any = std::any_of(executing.begin(), executing.end(), [&](const auto& item) {
        return item.second.process.has_value() || Journal::in_use(dir_of(item.first));
      });
      if (!any) return;
    }
    clock.sleep_for(kSupervisePause);
  }
  log_warning("some runs were still being saved when the agent stopped; their executors go on");
}

void Agent::Impl::remove_journal(AttemptId attempt) {
  auto dir = os::Directory::open(attempts_dir(settings.state_dir));
  Status removed = dir ? dir->remove_tree(attempt.hex()) : Status(dir.error());
  if (!removed) log_warning("cannot remove the journal of attempt {}: {}", attempt.hex(), removed.error().to_string());
}

void Agent::Impl::remove_old_outputs() {
  auto dir = os::Directory::open(outputs_dir(settings.state_dir));
  if (!dir) return;
  auto entries = dir->list();
  if (!entries) return;
  int64_t oldest_ns = (clock.now() - settings.outputs_kept).us * 1000;
  for (const os::TreeEntry& entry : *entries) {
    if (!RunId::from_hex(entry.name) || entry.stat.mtime_ns >= oldest_ns) continue;
    Status removed = dir->remove_tree(entry.name);
    if (!removed) log_warning("cannot remove {}: {}", entry.name, removed.error().to_string());
  }
}

}  // namespace cairn::agent
