#include "trainer/checkpoint.h"

#include <algorithm>

#include <fmt/format.h>

#include "trainer/hashing_files.h"
#include "trainer/model_files.h"

namespace cairn::trainer {
namespace {

constexpr size_t kSideFileBytesMax = 256u * 1024 * 1024;
constexpr const char* kSideFolder = "tokenizer";

Status write_file(os::FileSystem& files, const std::string& path, std::string_view text) {
  CAIRN_TRY(std::unique_ptr<os::WritableFile> file, files.create_exclusive(path, 0644));
  CAIRN_CHECK_OK(file->write(codec::as_bytes(text)));
  CAIRN_CHECK_OK(file->sync());
  return file->close();
}

// The model folder lies on the machine, also where a test keeps checkpoints in memory.
Status copy_side_files(HashingFiles& files, const CheckpointContents& contents, const std::string& to) {
  CAIRN_CHECK_OK(files.make_directory(to, 0755));
  auto copy = [&](const std::string& name, const std::string& text) { return write_file(files, to + "/" + name, text); };
  CAIRN_CHECK_OK(for_each_side_file(os::posix_file_system(), contents.model_folder, contents.tokenizer_folder, copy));
  return files.sync_directory(to);
}

// With everything in it; ok when absent.
Status remove_tree(os::FileSystem& files, const std::string& path) {
  auto stat = files.stat(path);
  if (!stat && stat.error().code() == Code::kFileNotFound) return ok();
  if (!stat) return std::move(stat).error();
  if (stat->type != os::FileType::kDirectory) return files.remove(path);
  CAIRN_TRY(std::vector<os::DirectoryEntry> entries, files.list(path));
  for (const os::DirectoryEntry& entry : entries) CAIRN_CHECK_OK(remove_tree(files, path + "/" + entry.name));
  return files.remove_directory(path);
}

}  // namespace

Status for_each_side_file(os::FileSystem& files, const std::string& config_folder, const std::string& tokenizer_folder,
                          const std::function<Status(const std::string& name, const std::string& text)>& take) {
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "vocab.json", "merges.txt", "chat_template.jinja"}) {
    const std::string& from = std::string_view(name) == "config.json" ? config_folder : tokenizer_folder;
    if (from.empty()) continue;
    auto text = files.read_file(from + "/" + name, kSideFileBytesMax);
    if (!text && text.error().code() == Code::kFileNotFound) continue;
    if (!text) return std::move(text).error();
    CAIRN_CHECK_OK(take(name, *text));
  }
  return ok();
}

std::string Checkpoints::step_folder(int64_t step) const { return fmt::format("{}/step_{}", folder_, step); }

Status Checkpoints::save(const CheckpointContents& contents) {
  int64_t step = contents.state.step;
  CAIRN_CHECK_OK(check_folder(step));
  CAIRN_CHECK_OK(remove(step));
  std::string trainer_folder = step_folder(step) + "/trainer";
  Status written = write(trainer_folder, contents);
  if (written) return written;
  Error error = std::move(written).error();
  // Room for others and nothing to mistake; what cannot be removed stays torn.
  static_cast<void>(remove(step).has_value());
  if (error.code() == Code::kNoSpaceLeft) {
    auto left = complete();
    std::string good = left && !left->empty() ? fmt::format("the last complete one is step_{}", left->back().step) : "none is complete";
    error.with_hint(fmt::format("make room and resume; {}; a small [ckpt] keep_last needs less room", good));
  }
  return std::move(error).while_doing(fmt::format("saving the checkpoint of step {} to {}", step, step_folder(step)));
}

// Behind a link it would lie somewhere else, and never be found.
Status Checkpoints::check_folder(int64_t step) const {
  auto stat = files_.stat(step_folder(step));
  if (stat && stat->type != os::FileType::kDirectory) {
    return Error(Code::kFileExists, fmt::format("{} is no folder: the checkpoint cannot be saved there", step_folder(step)),
                 "move it away and resume");
  }
  return ok();
}

Status Checkpoints::write(const std::string& trainer_folder, const CheckpointContents& contents) {
  CAIRN_CHECK_OK(files_.make_directories(trainer_folder, 0755));
  HashingFiles hashing(files_);
  CAIRN_CHECK_OK(write_tensors(hashing, trainer_folder + "/model.safetensors", *contents.parameters));
  if (contents.optimizer_state != nullptr) {
    CAIRN_CHECK_OK(write_tensors(hashing, trainer_folder + "/optimizer.safetensors", *contents.optimizer_state));
  }
  CAIRN_CHECK_OK(write_file(hashing, trainer_folder + "/state.json", write_state(contents.state)));
  if (!contents.model_folder.empty() || !contents.tokenizer_folder.empty()) {
    CAIRN_CHECK_OK(copy_side_files(hashing, contents, fmt::format("{}/{}", trainer_folder, kSideFolder)));
  }
  CAIRN_CHECK_OK(files_.sync_directory(trainer_folder));

  CheckpointMarker marker;
  marker.step = contents.state.step;
  marker.metrics = contents.metrics;
  for (const auto& [path, written] : hashing.written()) {
    marker.files.push_back(CheckpointFile{path.substr(trainer_folder.size() + 1), written.size, written.sha256.hex()});
  }
  return files_.write_file_atomic(trainer_folder + "/.metadata", codec::as_bytes(write_marker(marker)), 0644);
}

Status Checkpoints::remove(int64_t step) {
  std::string trainer_folder = step_folder(step) + "/trainer";
  Status marker = files_.remove(trainer_folder + "/.metadata");
  if (marker) {
    CAIRN_CHECK_OK(files_.sync_directory(trainer_folder));
  } else if (marker.error().code() != Code::kFileNotFound) {
    return marker;
  }
  CAIRN_CHECK_OK(remove_tree(files_, trainer_folder));
  // An exported model may lie beside it, then the folder stays.
  static_cast<void>(files_.remove_directory(step_folder(step)).has_value());
  return ok();
}

Result<std::map<int64_t, std::string>> Checkpoints::remove_torn() {
  CAIRN_TRY(auto found, torn());
  for (const auto& [step, why] : found) CAIRN_CHECK_OK(remove(step));
  return found;
}

Result<std::vector<int64_t>> Checkpoints::clean(const config::CheckpointSettings& settings) {
  std::vector<int64_t> gone;
  if (!settings.keep_last && !settings.keep_interval && !settings.keep_best) return gone;
  CAIRN_TRY(std::vector<CheckpointPlace> places, complete());
  std::map<int64_t, bool> keep;
  size_t last = static_cast<size_t>(std::max<int64_t>(1, settings.keep_last.value_or(1)));
  for (size_t i = 0; i < places.size(); ++i) {
    bool by_interval = settings.keep_interval && places[i].step % *settings.keep_interval == 0;
    keep[places[i].step] = i + last >= places.size() || by_interval;
  }
  if (settings.keep_best) {
    const config::KeepBest& best = *settings.keep_best;
    std::vector<std::pair<double, int64_t>> ranked;  // better first, then newer
    for (const CheckpointPlace& place : places) {
      auto value = place.marker.metrics.find(best.metric);
      if (value != place.marker.metrics.end()) ranked.emplace_back(best.lowest ? value->second : -value->second, -place.step);
    }
    std::sort(ranked.begin(), ranked.end());
    ranked.resize(std::min(ranked.size(), static_cast<size_t>(std::max<int64_t>(0, best.n))));
    for (const auto& [value, negative_step] : ranked) keep[-negative_step] = true;
  }
  for (const auto& [step, kept] : keep) {
    if (kept) continue;
    CAIRN_CHECK_OK(remove(step));
    gone.push_back(step);
  }
  return gone;
}

}  // namespace cairn::trainer
