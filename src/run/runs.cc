#include "run/runs.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/gpu_wish.h"
#include "run/internal.h"
#include "run/scheduler.h"
#include "volume/leases.h"
#include "volume/names.h"
#include "volume/reads.h"

namespace cairn::run {
namespace {

using internal::require_run;
using internal::state_of;
using internal::view_of;

constexpr size_t kCommandWordsMax = 4096;
constexpr size_t kCommandBytesMax = 128 * 1024;
constexpr size_t kEnvironmentMax = 256;
constexpr size_t kConfigBytesMax = 256 * 1024;

bool is_environment_name(std::string_view name) {
  if (name.empty() || name.size() > 255 || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// Where a volume may stand: nowhere that would hide the system, the home or what Cairn mounts itself.
Status check_directory(std::string_view directory, bool primary) {
  auto invalid = [&](std::string_view why) {
    return Error(Code::kUsage, fmt::format("a volume cannot be mounted at '{}': {}", directory, why),
                 "use /mnt/<name>");
  };
  if (directory.size() < 2 || directory[0] != '/' || directory.size() > limits::kPathBytesMax) return invalid("not an absolute path");
  std::string_view rest = directory.substr(1);
  std::string_view first = rest.substr(0, rest.find('/'));
  while (!rest.empty()) {
    size_t slash = std::min(rest.find('/'), rest.size());
    std::string_view segment = rest.substr(0, slash);
    bool plain = !segment.empty() && segment != "." && segment != ".." && segment.size() <= limits::kSegmentBytesMax &&
                 std::all_of(segment.begin(), segment.end(), [](unsigned char c) { return c > ' ' && c < 0x7f && c != '\\'; });
    if (!plain || (slash < rest.size() && slash + 1 == rest.size())) return invalid("it has a segment that is not plain");
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  static constexpr std::string_view kReserved[] = {"bin", "boot", "dev",  "etc", "home", "lib", "lib32",  "lib64", "libx32",
                                                   "proc", "root", "run", "sbin", "sys",  "tmp", "usr", "var",    "workspace"};
  for (std::string_view reserved : kReserved) {
    if (first == reserved) return invalid(fmt::format("/{} belongs to the system", reserved));
  }
  if (first == "volume" && !(primary && directory == "/volume")) return invalid("/volume is the run's first volume");
  if (directory == "/mnt") return invalid("/mnt is where all volumes are");
  return ok();
}

Status check_request(const NewRun& request, const RunSettings& settings) {
  if (request.kind != "command" && request.kind != "train") return Error(Code::kRequestInvalid, "kind is command or train");
  if (request.kind == "command" && request.command.empty()) {
    return Error(Code::kRequestInvalid, "the run has no command", "cairn run [options] -- COMMAND");
  }
  if (request.kind == "train" && request.config.empty()) return Error(Code::kRequestInvalid, "the run has no config");
  size_t bytes = 0;
  for (const std::string& word : request.command) {
    bytes += word.size() + 1;
    if (word.find('\0') != std::string::npos) return Error(Code::kUsage, "an argument of the command holds a NUL byte");
  }
  if (request.command.size() > kCommandWordsMax || bytes > kCommandBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("the command has {} words and {} bytes; at most {} and {} are allowed",
                                                   request.command.size(), bytes, kCommandWordsMax, kCommandBytesMax));
  }
  if (request.config.size() > kConfigBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("the config has {} bytes; at most {} are allowed", request.config.size(),
                                                   kConfigBytesMax));
  }
  if (request.environment.size() > kEnvironmentMax) {
    return Error(Code::kLimitExceeded, fmt::format("{} environment variables; at most {} are allowed",
                                                   request.environment.size(), kEnvironmentMax));
  }
  for (const auto& [key, value] : request.environment) {
    if (!is_environment_name(key) || value.size() > 32 * 1024 || value.find('\0') != std::string::npos) {
      return Error(Code::kUsage, fmt::format("environment variable '{}' is not valid", key));
    }
    if (key.starts_with("CAIRN_")) {
      return Error(Code::kUsage, fmt::format("environment variable {} is Cairn's own", key));
    }
  }
  if (static_cast<int64_t>(request.mounts.size()) > settings.mounts_max) {
    return Error(Code::kLimitExceeded,
                 fmt::format("{} volumes; a run mounts at most {}", request.mounts.size(), settings.mounts_max));
  }
  if (request.grace_seconds < 0 || request.grace_seconds > 3600) {
    return Error(Code::kRequestInvalid, "the grace time is 0 to 3600 seconds");
  }
  return ok();
}

// The mounts that the request and its command name, each volume once, checked but not looked up.
Result<std::vector<NewMount>> wanted_mounts(const NewRun& request, const RunSettings& settings) {
  std::vector<NewMount> mounts = request.mounts;
  for (const std::string& name : mounts_in_command(request.command)) {
    bool named = std::any_of(mounts.begin(), mounts.end(), [&](const NewMount& mount) { return mount.volume == name; });
    if (named) continue;
    NewMount mount;
    mount.volume = name;
    mount.create = true;
    mounts.push_back(std::move(mount));
  }
  if (static_cast<int64_t>(mounts.size()) > settings.mounts_max) {
    return Error(Code::kLimitExceeded, fmt::format("{} volumes; a run mounts at most {}", mounts.size(), settings.mounts_max));
  }
  std::set<std::string> names;
  std::set<std::string> directories;
  int primaries = 0;
  for (NewMount& mount : mounts) {
    CAIRN_CHECK_OK(volume::check_volume_name(mount.volume));
    if (!names.insert(mount.volume).second) {
      return Error(Code::kUsage, fmt::format("volume '{}' is mounted twice", mount.volume));
    }
    if (mount.shared) {
      return Error(Code::kConfigUnsupported, fmt::format("volume '{}': shared writing is not available", mount.volume),
                   "leave --shared out: the run then holds the volume alone");
    }
    if (mount.snapshot && !mount.read_only) {
      return Error(Code::kUsage, fmt::format("volume '{}': a snapshot is mounted read-only", mount.volume));
    }
    if (mount.primary && (mount.read_only || ++primaries > 1)) {
      return Error(Code::kUsage, "a run has one volume for its outputs, and writes to it");
    }
    if (mount.directory.empty()) mount.directory = mount.primary ? "/volume" : "/mnt/" + mount.volume;
    CAIRN_CHECK_OK(check_directory(mount.directory, mount.primary));
    if (!directories.insert(mount.directory).second) {
      return Error(Code::kUsage, fmt::format("two volumes at {}", mount.directory));
    }
  }
  // The primary volume also stands at /mnt/<name>; no mount may lie inside another.
  for (const NewMount& mount : mounts) {
    if (mount.primary) directories.insert("/mnt/" + mount.volume);
  }
  for (const std::string& outer : directories) {
    auto inner = directories.upper_bound(outer + "/");
    if (inner != directories.end() && inner->starts_with(outer + "/")) {
      return Error(Code::kUsage, fmt::format("{} lies inside {}", *inner, outer));
    }
  }
  return mounts;
}

Error held(std::string_view volume, std::string_view kind, std::string_view holder, std::string_view hint) {
  return Error(Code::kWriterLeaseHeld, fmt::format("volume '{}' is being written by {} {}", volume, kind, holder),
               std::string(hint))
      .with_holder(std::string(holder));
}

// Nobody else writes these volumes now, and no run waits to. What changes after this check is caught when leases are taken.
Status check_free(catalog::Tx& tx, const std::vector<catalog::RunMountRow>& mounts) {
  for (const catalog::RunMountRow& mount : mounts) {
    if (mount.read_only || mount.workspace) continue;
    CAIRN_TRY(std::optional<catalog::RunRow> other, catalog::run_writing(tx, mount.volume, RunId(), false));
    if (other) {
      std::string id = other->id.hex();
      return held(mount.volume_name, "run", id,
                  fmt::format("cairn train stop {} ends it; --queue waits for it (it is {})", id, other->state));
    }
  }
  return ok();
}

bool owns(const catalog::RunRow& run, UserId owner) { return owner.is_none() || run.owner_id == owner.hex(); }

Result<catalog::RunRow> owned_run(catalog::Tx& tx, UserId owner, RunId id) {
  CAIRN_TRY(catalog::RunRow run, require_run(tx, id));
  if (!owns(run, owner)) return Error(Code::kRunNotFound, "no run " + id.hex(), "cairn train list shows all runs");
  return run;
}

}  // namespace

// The volume is there or may be made, nobody holds it, and it has the snapshot.
Status Runs::check_mount(const volume::Actor& actor, const NewMount& mount, bool queue) {
  auto info = context_.volumes.find(actor.user, mount.volume);
  if (!info && info.error().code() == Code::kVolumeNotFound && mount.create && !mount.snapshot) return ok();
  if (!info) return std::move(info).error();
  if (!mount.read_only && info->writer && !queue && info->writer->expires_at > context_.storage.clock.now()) {
    return held(mount.volume, info->writer->kind, info->writer->holder,
                fmt::format("its lease lasts until {} at least; --queue waits for it", to_rfc3339(info->writer->expires_at)));
  }
  if (!mount.snapshot) return ok();
  auto snapshot = context_.volumes.snapshot(info->id, *mount.snapshot);
  return snapshot ? ok() : Status(std::move(snapshot).error());
}

Result<RunView> Runs::create(const volume::Actor& actor, const NewRun& request, const volume::AlsoInTx<RunView>& also) {
  CAIRN_CHECK_OK(check_request(request, context_.settings));
  CAIRN_TRY(GpuWish gpu, parse_gpu(request.gpu));
  CAIRN_TRY(std::vector<NewMount> wanted, wanted_mounts(request, context_.settings));
  CAIRN_TRY(std::vector<catalog::NodeRow> nodes,
            context_.storage.db.read([](catalog::Tx& tx) { return catalog::list_nodes(tx); }));
  CAIRN_CHECK_OK(check_wish(nodes, gpu, request.node));
  catalog::RunRow run;
  run.id = RunId::random(context_.storage.random);
  if (request.kind == "train") {
    CAIRN_TRY(run.engine, choose_engine(context_.settings.engines, request.engine));
  }
  // Before any volume is made: a refused run leaves none behind.
  for (const NewMount& mount : wanted) CAIRN_CHECK_OK(check_mount(actor, mount, request.queue));
  std::vector<catalog::RunMountRow> mounts;
  for (const NewMount& mount : wanted) {
    volume::VolumeInfo info;
    if (mount.create) {
      CAIRN_TRY(info, context_.volumes.create(actor, mount.volume, mount.size_bytes));
    } else {
      CAIRN_TRY(info, context_.volumes.find(actor.user, mount.volume));
    }
    mounts.push_back(catalog::RunMountRow{info.id, info.name, mount.directory, mount.primary, mount.read_only, mount.shared,
                                          false, mount.snapshot});
  }
  if (!request.workspace.empty()) {
    CAIRN_TRY(volume::VolumeInfo info, context_.volumes.find(actor.user, request.workspace));
    if (info.kind != volume::VolumeKind::kWorkspace) {
      return Error(Code::kRequestInvalid, fmt::format("'{}' is a volume, not an uploaded workspace", request.workspace));
    }
    mounts.push_back(
        catalog::RunMountRow{info.id, info.name, "/workspace", false, true, false, true, std::nullopt});
  }
  run.kind = request.kind;
  run.state = name(RunState::kQueued);
  run.owner_id = actor.user.hex();
  run.user_name = actor.name;
  run.command = request.command;
  run.environment = request.environment;
  run.config = request.config;
  run.config_name = request.config_name;
  run.gpu = request.gpu;
  run.gpu_count = gpu.count;
  run.gpu_type = gpu.type;
  run.wanted_node = request.node;
  run.queue = request.queue;
  run.sync_final_only = request.sync_final_only;
  run.grace_seconds = request.grace_seconds;
  run.reason = "waits for a node";
  return context_.storage.db.transact([&](catalog::Tx& tx) -> Result<RunView> {
    if (!request.queue) CAIRN_CHECK_OK(check_free(tx, mounts));
    CAIRN_TRY(Time now, clock_.now(tx));
    run.created_at = now;
    CAIRN_CHECK_OK(catalog::insert_run(tx, run, mounts));
    CAIRN_CHECK_OK(internal::add_event(tx, now, run, actor.name, "run.create", request.kind));
    CAIRN_TRY(RunView view, view_of(tx, run));
    if (also) CAIRN_CHECK_OK(also(tx, view));
    return view;
  });
}

Result<RunView> Runs::get(UserId owner, RunId id) {
  return context_.storage.db.read([&](catalog::Tx& tx) -> Result<RunView> {
    CAIRN_TRY(catalog::RunRow run, owned_run(tx, owner, id));
    return view_of(tx, std::move(run));
  });
}

Result<std::vector<RunView>> Runs::list(UserId owner, std::optional<RunId> before, int64_t limit) {
  return context_.storage.db.read([&](catalog::Tx& tx) -> Result<std::vector<RunView>> {
    catalog::RunFilter filter;
    if (!owner.is_none()) filter.owner_id = owner.hex();
    filter.limit = std::clamp<int64_t>(limit, 1, 1000);
    if (before) {
      CAIRN_TRY(catalog::RunRow last, owned_run(tx, owner, *before));
      filter.before = std::pair(last.created_at, last.id);
    }
    CAIRN_TRY(std::vector<catalog::RunRow> runs, catalog::list_runs(tx, filter));
    std::vector<RunView> views;
    for (catalog::RunRow& run : runs) {
      CAIRN_TRY(RunView view, view_of(tx, std::move(run)));
      views.push_back(std::move(view));
    }
    return views;
  });
}

Result<RunView> Runs::stop(UserId owner, RunId id, std::optional<int64_t> grace_seconds,
                           const volume::AlsoInTx<RunView>& also) {
  if (grace_seconds && (*grace_seconds < 0 || *grace_seconds > 3600)) {
    return Error(Code::kRequestInvalid, "the grace time is 0 to 3600 seconds");
  }
  std::vector<PinId> pins;
  bool ended = false;
  auto result = context_.storage.db.transact([&](catalog::Tx& tx) -> Result<RunView> {
    pins.clear();
    ended = false;
    CAIRN_TRY(catalog::RunRow run, owned_run(tx, owner, id));
    CAIRN_TRY(Time now, clock_.now(tx));
    RunState state = state_of(run);
    if (is_final(state)) {
      return Error(Code::kRunStateConflict, fmt::format("run {} is over: it is {}", id.hex(), run.state),
                   fmt::format("cairn train get {}", id.hex()));
    }
    CAIRN_TRY([[maybe_unused]] bool asked,
              catalog::request_run_stop(tx, id, grace_seconds.value_or(run.grace_seconds)));
    if (!is_on_node(state)) {
      CAIRN_TRY(std::optional<catalog::AttemptRow> attempt, catalog::newest_attempt(tx, id));
      if (attempt && attempt->state == name(AttemptState::kOffered)) {
        CAIRN_TRY(pins, internal::release_grants(tx, context_, attempt->id));
        CAIRN_CHECK_OK(internal::move(tx, *attempt, AttemptState::kEnded, {}, now));
      }
      catalog::RunMove details;
      details.reason = "stopped before it started";
      details.ended_at = now;
      CAIRN_CHECK_OK(internal::move(tx, run, RunState::kStopped, details));
      ended = true;
    }
    CAIRN_TRY(run, require_run(tx, id));
    CAIRN_CHECK_OK(internal::add_event(tx, now, run, run.user_name, "run.stop", run.state));
    CAIRN_TRY(RunView view, view_of(tx, std::move(run)));
    if (also) CAIRN_CHECK_OK(also(tx, view));
    return view;
  });
  if (result && ended) {
    internal::drop_pins(context_, pins);
    internal::drop_workspace(context_, result->mounts);
  }
  return result;
}

Result<LogView> Runs::logs(UserId owner, RunId id, int64_t after, const std::string& component, int64_t limit) {
  limit = std::clamp<int64_t>(limit, 1, 10'000);
  return context_.storage.db.read([&](catalog::Tx& tx) -> Result<LogView> {
    CAIRN_TRY(catalog::RunRow run, owned_run(tx, owner, id));
    LogView view;
    CAIRN_TRY(view.lines, catalog::read_log_lines(tx, id, after, component, limit));
    // Lines of other components count as seen only when nothing of this one can lie between.
    bool whole = static_cast<int64_t>(view.lines.size()) < limit;
    view.next = whole ? std::max(after, run.log_seq) : view.lines.back().seq;
    // A LOST run may come back and say more, but nobody should wait for it.
    view.ended = whole && is_final(state_of(run));
    return view;
  });
}

Result<std::vector<volume::Use>> Runs::uses(catalog::Tx& tx, VolumeId volume) {
  CAIRN_TRY(std::vector<catalog::RunRow> runs, catalog::runs_using(tx, volume));
  std::vector<volume::Use> uses;
  for (const catalog::RunRow& run : runs) {
    uses.push_back(volume::Use{fmt::format("run {} ({})", run.id.hex(), run.state), "cairn train stop " + run.id.hex()});
  }
  return uses;
}

}  // namespace cairn::run
