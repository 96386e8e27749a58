
#include <fmt/format.h>

#include "base/whole_number.h"
#include "trainer/checkpoint.h"
#include "trainer/hashing_files.h"
#include "trainer/model_files.h"

namespace cairn::trainer {
namespace {

Error incomplete(const std::string& step_folder, std::string why) {
  return Error(Code::kCheckpointIncomplete, fmt::format("the checkpoint {} is not complete: {}", step_folder, why),
               "resume from another step, or leave resume.step out to take the latest complete one");
}

// It may well be complete: nobody may pass it over, and nobody may delete it.
Error undecided(const std::string& step_folder, const Error& error) {
  return Error(error.code(), fmt::format("whether the checkpoint {} is complete cannot be told: {}", step_folder, error.message()),
               "it was left as it is; make it readable to this trainer, or move its folder away");
}

// The only two answers that say that a folder holds no checkpoint.
bool is_none(const Error& error) { return error.code() == Code::kFileNotFound || error.code() == Code::kCheckpointIncomplete; }

Status check_file(os::FileSystem& files, const std::string& step_folder, const CheckpointFile& file) {
  auto stat = files.stat(step_folder + "/trainer/" + file.path);
  if (!stat) {
    if (stat.error().code() != Code::kFileNotFound) return undecided(step_folder, stat.error());
    return incomplete(step_folder, file.path + " is not there");
  }
  if (stat->type != os::FileType::kFile) {
    return undecided(step_folder, Error(Code::kDataInvalid, file.path + " is no regular file"));
  }
  if (stat->size != file.size) {
    return incomplete(step_folder, fmt::format("{} has {} bytes, the marker says {}", file.path, stat->size, file.size));
  }
  return ok();
}

}  // namespace

std::string optimizer_name(config::OptimizerKind kind) {
  switch (kind) {
    case config::OptimizerKind::kAdamW: return "adamw";
    case config::OptimizerKind::kSgd: return "sgd";
    case config::OptimizerKind::kSignSgd: return "sign_sgd";
    case config::OptimizerKind::kMuon: return "muon";
  }
  return "";
}

std::optional<int64_t> step_of_folder(const std::string& step_folder) {
  std::string_view name(step_folder);
  while (!name.empty() && name.back() == '/') name.remove_suffix(1);
  name = name.substr(name.rfind('/') + 1);
  if (!name.starts_with("step_")) return std::nullopt;
  name.remove_prefix(5);
  return whole_number<int64_t>(name);
}

Result<CheckpointMarker> check_complete(os::FileSystem& files, const std::string& step_folder, int64_t step) {
  std::string trainer_folder = step_folder + "/trainer";
  auto text = files.read_file(trainer_folder + "/.metadata", kMarkerBytesMax);
  if (!text) {
    if (text.error().code() != Code::kFileNotFound) return undecided(step_folder, text.error());
    auto stat = files.stat(trainer_folder);
    if (stat) return incomplete(step_folder, "it has no marker trainer/.metadata");
    if (stat.error().code() != Code::kFileNotFound) return undecided(step_folder, stat.error());
    return Error(Code::kFileNotFound, fmt::format("there is no checkpoint in {}", step_folder));
  }
  auto marker = parse_marker(*text, trainer_folder + "/.metadata");
  if (!marker && marker.error().code() != Code::kDataCorrupt) return undecided(step_folder, marker.error());
  if (!marker) return incomplete(step_folder, marker.error().message());
  if (marker->step != step) {
    return undecided(step_folder, Error(Code::kDataInvalid, fmt::format("its marker is of step {}", marker->step)));
  }
  for (const CheckpointFile& file : marker->files) CAIRN_CHECK_OK(check_file(files, step_folder, file));
  return marker;
}

Result<std::vector<int64_t>> Checkpoints::steps() const {
  std::vector<int64_t> found;
  auto entries = files_.list(folder_);
  if (!entries) {
    if (entries.error().code() == Code::kFileNotFound) return found;
    return std::move(entries).error();
  }
  for (const os::DirectoryEntry& entry : *entries) {
    std::optional<int64_t> step = step_of_folder(entry.name);
    if (entry.type == os::FileType::kDirectory && step && entry.name == fmt::format("step_{}", *step)) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<CheckpointPlace>> Checkpoints::complete() const {
  std::vector<CheckpointPlace> places;
  CAIRN_TRY(std::vector<int64_t> found, steps());
  for (int64_t step : found) {
    auto marker = check_complete(files_, step_folder(step), step);
    if (marker) {
      places.push_back(CheckpointPlace{step, step_folder(step), std::move(*marker)});
    } else if (!is_none(marker.error())) {
      return std::move(marker).error();
    }
  }
  return places;
}

Result<std::map<int64_t, std::string>> Checkpoints::torn() const {
  std::map<int64_t, std::string> result;
  CAIRN_TRY(std::vector<int64_t> found, steps());
  for (int64_t step : found) {
    auto marker = check_complete(files_, step_folder(step), step);
    if (marker) continue;
    if (!is_none(marker.error())) return std::move(marker).error();
    if (marker.error().code() == Code::kCheckpointIncomplete) result[step] = marker.error().message();
  }
  return result;
}

Result<CheckpointPlace> find_checkpoint(os::FileSystem& files, const config::ResumeSettings& resume, const Checkpoints& own) {
  if (!resume.dir.empty()) {
    std::optional<int64_t> step = step_of_folder(resume.dir);
    if (!step) return Error(Code::kConfigInvalid, fmt::format("resume.dir '{}' is no folder step_N", resume.dir));
    CAIRN_TRY(CheckpointMarker marker, check_complete(files, resume.dir, *step));
    return CheckpointPlace{*step, resume.dir, std::move(marker)};
  }
  if (resume.step) {
    std::string folder = own.step_folder(*resume.step);
    CAIRN_TRY(CheckpointMarker marker, check_complete(files, folder, *resume.step));
    return CheckpointPlace{*resume.step, folder, std::move(marker)};
  }
  CAIRN_TRY(std::vector<CheckpointPlace> places, own.complete());
  if (!places.empty()) return std::move(places.back());
  CAIRN_TRY(auto torn, own.torn());
  if (!torn.empty()) return Error(Code::kCheckpointIncomplete, "there is nothing to resume from: " + torn.rbegin()->second);
  return Error(Code::kFileNotFound, fmt::format("there is no checkpoint to resume from in {}", os::parent_path(own.step_folder(0))),
               "remove [resume] to start from the beginning");
}

Status verify_checkpoint(os::FileSystem& files, const CheckpointPlace& place) {
  for (const CheckpointFile& file : place.marker.files) {
    std::string path = place.folder + "/trainer/" + file.path;
    CAIRN_TRY(codec::Digest digest, hash_file(files, path));
    if (digest.hex() != file.sha256) {
      return Error(Code::kDataCorrupt, fmt::format("{} is damaged: its SHA-256 is {}, the marker says {}", path, digest.hex(), file.sha256),
                   "resume from another step");
    }
  }
  return ok();
}

Result<CheckpointState> load_state(os::FileSystem& files, const CheckpointPlace& place) {
  std::string path = place.folder + "/trainer/state.json";
  CAIRN_TRY(std::string text, files.read_file(path, kStateBytesMax));
  CAIRN_TRY(CheckpointState state, parse_state(text, path));
  if (state.step == place.marker.step) return state;
  return Error(Code::kDataCorrupt, fmt::format("{} is of step {}, the marker beside it of step {}", path, state.step, place.marker.step),
               "resume from another step");
}

Status load_parameters(os::FileSystem& files, const CheckpointPlace& place, const std::vector<NamedParameter>& parameters) {
  CAIRN_TRY([[maybe_unused]] auto metadata, read_tensors(files, place.folder + "/trainer/model.safetensors", parameters));
  return ok();
}

Status load_optimizer(os::FileSystem& files, const CheckpointPlace& place, const CheckpointState& state, Optimizer& optimizer,
                      config::OptimizerKind kind) {
  if (state.optimizer_kind == kNoOptimizer) return ok();
  if (state.optimizer_kind != optimizer_name(kind)) {
    return Error(Code::kCheckpointMismatch, fmt::format("{} was made with the optimizer '{}', the config says '{}'", place.folder,
                                                        state.optimizer_kind, optimizer_name(kind)),
                 "set ckpt.skip_optimizer = true to start with a new optimizer state");
  }
  CAIRN_TRY([[maybe_unused]] auto metadata,
            read_tensors(files, place.folder + "/trainer/optimizer.safetensors", optimizer.state()));
  optimizer.set_steps(state.optimizer_steps);
  return ok();
}

}  // namespace cairn::trainer
