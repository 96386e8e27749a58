#include "server/training_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/gpu_wish.h"
#include "config/training_config.h"
#include "config/training_head.h"
#include "config/training_paths.h"
#include "volume/reads.h"

namespace cairn::server {
namespace {

// The run in "runs/<id>/checkpoints/step_N", as 'cairn train' takes it.
std::string run_in(const std::string& path) {
  constexpr std::string_view kRuns = "runs/";
  if (!path.starts_with(kRuns)) return "RUN";
  return path.substr(kRuns.size(), path.find('/', kRuns.size()) - kRuns.size());
}

// A look at the head of the volume the config's paths lie on.
class VolumeLook {
 public:
  VolumeLook(volume::Reads& reads, VolumeId volume, std::string name) : reads_(reads), volume_(volume), name_(std::move(name)) {}

  Status check(const config::TrainingPath& wanted) {
    CAIRN_TRY(std::optional<volume::EntryInfo> entry, find(wanted.path));
    if (!entry) {
      CAIRN_TRY(bool behind, behind_link(wanted.path));
      return behind ? ok() : Status(missing(wanted, fmt::format("'{}' is not there", wanted.path)));
    }
    if (entry->kind == volume::EntryKind::kSymlink) return ok();
    if (entry->kind == volume::EntryKind::kFile) {
      if (wanted.wanted == config::PathWanted::kFileOrFolder) return ok();
      return missing(wanted, fmt::format("'{}' is a file, and a folder is wanted", wanted.path));
    }
    CAIRN_TRY(volume::NamesPage names, reads_.ls(volume_, {}, wanted.path, "", 1));
    if (names.entries.empty()) return missing(wanted, fmt::format("the folder '{}' is empty", wanted.path));
    return check_files(wanted);
  }

 private:
  Status check_files(const config::TrainingPath& wanted) {
    for (const std::string& file : wanted.files) {
      CAIRN_TRY(std::optional<volume::EntryInfo> entry, find(wanted.path + "/" + file));
      if (entry) continue;
      if (wanted.key == "resume.dir") {
        return Error(Code::kCheckpointIncomplete,
                     fmt::format("resume.dir: '{}' on volume '{}' is no complete checkpoint: it has no {}", wanted.path, name_, file),
                     fmt::format("cairn train checkpoints {} lists the complete ones", run_in(wanted.path)));
      }
      return missing(wanted, fmt::format("the folder '{}' has no {}", wanted.path, file));
    }
    for (const std::string& file : wanted.one_of) {
      CAIRN_TRY(std::optional<volume::EntryInfo> entry, find(wanted.path + "/" + file));
      if (entry) return ok();
    }
    if (wanted.one_of.empty()) return ok();
    return missing(wanted, fmt::format("the folder '{}' has no {}", wanted.path, fmt::join(wanted.one_of, " or ")));
  }

  Result<std::optional<volume::EntryInfo>> find(const std::string& path) {
    auto entry = reads_.stat(volume_, {}, path);
    if (entry) return std::optional<volume::EntryInfo>(*std::move(entry));
    // A file in place of a folder above it is as good as nothing.
    bool nothing = entry.error().code() == Code::kPathNotFound || entry.error().code() == Code::kPathTypeConflict;
    if (nothing) return std::optional<volume::EntryInfo>();
    return entry.error();
  }

  // What lies behind a symbolic link is for the run to find.
  Result<bool> behind_link(const std::string& path) {
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      CAIRN_TRY(std::optional<volume::EntryInfo> entry, find(path.substr(0, slash)));
      if (!entry) return false;
      if (entry->kind == volume::EntryKind::kSymlink) return true;
    }
    return false;
  }

  Error missing(const config::TrainingPath& wanted, const std::string& what) const {
    return Error(Code::kDataMissingOnVolume, fmt::format("{}: {} on volume '{}'", wanted.key, what, name_),
                 fmt::format("cairn volumes ls {} shows what is there; cairn volumes put {} LOCAL {} puts it there", name_, name_,
                             wanted.path));
  }

  volume::Reads& reads_;
  VolumeId volume_;
  std::string name_;
};

const run::NewMount* primary_of(const run::NewRun& request) {
  for (const run::NewMount& mount : request.mounts) {
    if (mount.primary) return &mount;
  }
  return nullptr;
}

Status check_paths(run::RunContext& context, UserId owner, const config::TrainingConfig& config, const run::NewMount* primary) {
  CAIRN_CHECK_OK(config::check_volume_given(config, primary != nullptr));
  std::vector<config::TrainingPath> paths = config::training_paths(config);
  if (paths.empty()) return ok();
  auto info = context.volumes.find(owner, primary->volume);
  if (!info && info.error().code() == Code::kVolumeNotFound) {
    return Error(Code::kDataMissingOnVolume,
                 fmt::format("{} is '{}', and there is no volume '{}' yet", paths[0].key, paths[0].spelled, primary->volume),
                 fmt::format("cairn storage put {} LOCAL {} makes the volume and puts it there", primary->volume, paths[0].path));
  }
  if (!info) return info.error();
  VolumeLook look(context.reads, info->id, info->name);
  for (const config::TrainingPath& path : paths) CAIRN_CHECK_OK(look.check(path));
  return ok();
}

// A config that says with how many GPUs it trains asks for them; a type without a number means as many; fewer is a mistake.
Result<std::string> gpus_for(const std::string& asked, const config::TrainingConfig& config) {
  const int64_t processes = config.num_processes;
  if (asked.empty() && config.gpus_named) return std::to_string(processes);
  CAIRN_TRY(GpuWish wish, parse_gpu(asked));
  if (wish.count == 0) return asked;
  if (!wish.type.empty() && asked.find(':') == std::string::npos) return fmt::format("{}:{}", wish.type, processes);
  if (wish.count < processes) {
    return Error(Code::kConfigInvalid, fmt::format("deployment.num_train_gpus is {}, and {} GPUs were asked for", processes, wish.count),
                 fmt::format("ask for {} with --gpu-type, or change the config", processes));
  }
  return asked;
}

}  // namespace

Status read_training_request(run::RunContext& context, UserId owner, run::NewRun& request) {
  std::string file = request.config_name.empty() ? "config.toml" : request.config_name;
  CAIRN_TRY(config::TrainingHead head, config::read_training_head(request.config, file));
  CAIRN_TRY(request.engine, run::choose_engine(context.settings.engines, head.engine));
  // What was asked for goes over the file.
  if (primary_of(request) == nullptr && !head.volume.empty()) {
    run::NewMount mount;
    mount.volume = head.volume;
    mount.primary = true;
    mount.create = true;
    request.mounts.insert(request.mounts.begin(), std::move(mount));
  }
  if (request.gpu.empty() && !head.gpu_type.empty()) {
    auto wish = parse_gpu(head.gpu_type);
    if (!wish) return Error(Code::kConfigInvalid, file + ": gpu_type: " + wish.error().message(), wish.error().hint());
    request.gpu = head.gpu_type;
  }
  if (request.engine != run::kBuiltinEngine) return ok();
  CAIRN_TRY(config::TrainingConfig config, config::parse_training_config(request.config, file));
  CAIRN_CHECK_OK(config::check_begins_anew(config));
  CAIRN_TRY(request.gpu, gpus_for(request.gpu, config));
  for (const auto& [name, value] : config.env_vars) request.environment.emplace(name, value);
  return check_paths(context, owner, config, primary_of(request));
}

}  // namespace cairn::server
