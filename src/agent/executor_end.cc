#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "agent/checkpoint_scan.h"
#include "agent/executor_impl.h"
#include "agent/sandbox_plan.h"
#include "agent/usage.h"
#include "base/quantity.h"
#include "os/file_system.h"
#include "os/tree.h"

namespace cairn::agent {
namespace {

constexpr size_t kLossPathsShown = 20;
constexpr int kSyncsOfFailedFiles = 3;
const char* const kComponents[] = {"stdout", "stderr", "cairn"};

// A try that left files behind has published the rest; the next one finds those files only and says nothing of that.
void take_over(transfer::SyncSummary last, transfer::SyncSummary& total) {
  if (last.published) {
    total.published = true;
    total.snapshot = last.snapshot;
    total.files_changed += last.files_changed;
    total.files_deleted += last.files_deleted;
    total.bytes_sent += last.bytes_sent;
  }
  if (!last.side.empty()) {
    total.side = std::move(last.side);
    total.side_reason = std::move(last.side_reason);
    total.volume_bytes = last.volume_bytes;
  }
  total.failed = last.failed;
  total.skipped = last.skipped;
  total.failed_paths = std::move(last.failed_paths);
}

// The next whole GiB, with some to spare.
uint64_t room_for(uint64_t bytes) { return ((bytes + bytes / 4) / (1 << 30) + 1) << 30; }

// Why a mount's changes did not go to the head, and what to type.
std::string aside_text(const api::MountGrant& grant, const transfer::SyncSummary& summary) {
  std::string why = "the changes could not go to the head and", cure;
  if (summary.side_reason == "contents_exceed_size") {
    why = fmt::format("with the changes it would hold {}, and its size is {}: they", human_bytes(summary.volume_bytes),
                      human_bytes(grant.size_bytes));
    cure = fmt::format("; make room with: cairn volumes expand {} {}", grant.volume, format_size(room_for(summary.volume_bytes)));
  } else if (summary.side_reason == "lease_lost") {
    why = "its writer lease was lost: the changes";
  }
  return fmt::format("'{}': {} are kept aside as {}; read them with: cairn volumes get {}@{} / FOLDER{}", grant.volume, why, summary.side,
                     grant.volume, summary.snapshot, cure);
}

}  // namespace

Status Executor::Impl::open_plain_logs() {
  CAIRN_TRY(os::Directory output, open_outputs(*journal, *mounts, settings.outputs_dir));
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
  auto output = open_outputs(*journal, *mounts, settings.outputs_dir);
  auto logs = output ? output->make_directories("logs", 0755) : Result<os::Directory>(output.error());
  if (!logs) {
    log_warning("the run put something else in the place of its logs; they are left as they are: {}", logs.error().to_string());
    return;
  }
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

// Before the journal says that the command has ended: the uppers and copies lie in its folder.
void Executor::Impl::make_durable() {
  auto dir = os::Directory::open(journal->dir());
  Status synced = dir ? ok() : Status(dir.error());
  if (dir && ::syncfs(dir->fd()) != 0) synced = Error::from_errno(errno, journal->dir());
  if (!synced) note("the node may not have all that was written on its disk: " + synced.error().to_string());
}

Status Executor::Impl::sync_all() {
  heartbeat->set_state(api::RunState::kSyncing, "publishing");
  // After a reboot files may have the right size and the wrong bytes: they are kept aside, not put over what is there.
  CAIRN_TRY(bool rebooted, after_reboot());
  if (rebooted) CAIRN_CHECK_OK(heartbeat->tell_reboot(outside));
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
  transfer::SyncSummary total;
  while (true) {
    transfer::Progress progress;
    auto summary = volumes.sync(mount.grant, options, progress, Deadline::never());
    if (summary) {
      take_over(*std::move(summary), total);
      if (total.failed > 0 && ++with_failed_files < kSyncsOfFailedFiles) continue;
      return settle(mount, total, step_saved);
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

// Says and writes down what became of a mount's changes.
Status Executor::Impl::settle(const AttemptMount& mount, const transfer::SyncSummary& summary,
                              std::optional<uint64_t> step_saved) {
  if (summary.failed > 0) {
    std::string names;
    for (const std::string& path : summary.failed_paths) names += " " + path;
    note(fmt::format("{} files of '{}' could not be saved; they stay on the node in {}:{}", summary.failed, mount.grant.volume,
                     journal->dir(), names));
  }
  if (summary.skipped > 0) {
    note(fmt::format("'{}': {} left out, which no volume holds: pipes, sockets, devices, or names that are too long", mount.grant.volume,
                     summary.skipped == 1 ? "1 entry was" : fmt::format("{} entries were", summary.skipped)));
  }
  if (!summary.side.empty()) {
    note(aside_text(mount.grant, summary));
  } else if (summary.published) {
    note(fmt::format("'{}': published snapshot {} ({} files changed, {} deleted, {} bytes sent)", mount.grant.volume,
                     summary.snapshot, summary.files_changed, summary.files_deleted, summary.bytes_sent));
  }
  const bool on_the_head = summary.published && summary.side.empty();
  if (mount.grant.primary && on_the_head) {
    api::SavedState saved;
    saved.step = step_saved;
    saved.snapshot = summary.snapshot;
    saved.at = clock.now();
    heartbeat->set_saved(saved);
  }
  return save([&](JournalState& state) {
    state.synced[mount.index] = true;
    if (mount.grant.primary && on_the_head) state.snapshot = summary.snapshot;
    if (mount.grant.primary && summary.side.empty()) state.saved_step = step_saved;
    if (!summary.side.empty()) state.kept_aside = true;
    if (summary.failed > 0) state.keep = true;
  });
}

// Nobody sends a line once the end is reported, and without a volume the server alone keeps the log: all of it goes first.
Status Executor::Impl::send_log() {
  while (!heartbeat->flush(settings.retry_pause_max)) {
    if (outside.cancelled()) return Error(Code::kCancelled, "the server does not have the end of the run's log yet");
    log_warning("run {}: the server does not have the end of the log yet", start().run.hex());
  }
  return ok();
}

Status Executor::Impl::report() {
  CAIRN_CHECK_OK(send_log());
  const JournalState& state = journal->state();
  api::FinishAttempt body;
  body.secret = journal->assignment().secret;
  body.state = state.outcome;
  body.exit_code = state.exit_code;
  body.reason = state.reason;
  body.lost_paths = state.lost_paths;
  body.lost_bytes = state.lost_bytes;
  if (state.snapshot > 0 || state.saved_step) {
    api::SavedState saved;
    saved.step = state.saved_step;
    saved.snapshot = state.snapshot;  // 0: an executor may have published and died before it noted the number
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
    // Before the journal ends: once it has, the agent removes it, and nobody knows what was kept for it.
    if (!state.keep) release_lowers();
    CAIRN_CHECK_OK(save([](JournalState& next) { next.phase = Phase::kFinished; }));
    step("over");
    return ok();
  }
}

void Executor::Impl::release_lowers() {
  for (const api::MountGrant& mount : start().mounts) {
    if (!mount.upload) continue;
    Status released = volumes.release(mount, journal->assignment().attempt.hex());
    if (!released) log_warning("{}", released.error().to_string());
  }
}

void Executor::Impl::clean_up() {
  mounts->take_down();
  if (journal->state().keep) return;
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
