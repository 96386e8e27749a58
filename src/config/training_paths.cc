#include "config/training_paths.h"

namespace cairn::config {
namespace {

constexpr size_t kPathBytesMax = 4096;
constexpr std::string_view kMount = "/volume";

Error wrong(std::string_view spelled, const std::string& why) {
  std::string shown;
  for (char c : spelled.substr(0, 200)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return Error(Code::kConfigInvalid, "'" + shown + "', which " + why,
               "write it relative to the volume (datasets/mine) or as /volume/datasets/mine");
}

void add(std::vector<TrainingPath>& paths, const std::string& key, const std::string& spelled, PathWanted wanted,
         std::vector<std::string> files = {}, std::vector<std::string> one_of = {}) {
  if (spelled.empty()) return;
  auto path = volume_path(spelled);
  if (path) paths.push_back({key, spelled, *std::move(path), wanted, std::move(files), std::move(one_of)});
}

void add_data(std::vector<TrainingPath>& paths, const std::string& table, const DataSettings& data) {
  add(paths, table + ".name", data.name, PathWanted::kFileOrFolder);
  for (size_t i = 0; i < data.paths.size(); ++i) {
    add(paths, table + ".paths[" + std::to_string(i) + "]", data.paths[i], PathWanted::kFolder);
  }
}

}  // namespace

Result<std::string> volume_path(std::string_view spelled) {
  if (spelled.empty() || spelled.size() > kPathBytesMax) return wrong(spelled, "is no path");
  for (char c : spelled) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return wrong(spelled, "has a control character");
  }
  std::string_view rest = spelled;
  if (rest.starts_with('/')) {
    bool below = rest.starts_with(kMount) && (rest.size() == kMount.size() || rest[kMount.size()] == '/');
    if (!below) return wrong(spelled, "is not on the volume");
    rest.remove_prefix(kMount.size());
  }
  std::string path;
  while (!rest.empty()) {
    size_t slash = rest.find('/');
    std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") return wrong(spelled, "has '..' in it");
    if (!path.empty()) path += '/';
    path += name;
  }
  if (path.empty()) return wrong(spelled, "is the whole volume, not something on it");
  return path;
}

Result<std::string> on_volume(const std::string& root, std::string_view spelled) {
  CAIRN_TRY(std::string path, volume_path(spelled));
  return root.ends_with('/') ? root + path : root + "/" + path;
}

std::vector<TrainingPath> training_paths(const TrainingConfig& config) {
  std::vector<TrainingPath> paths;
  std::vector<std::string> of_model{"config.json"};
  if (reads_conversations(config) && config.tokenizer.name.empty()) of_model.emplace_back("tokenizer.json");
  std::vector<std::string> weights;
  if (!config.model.random_init && !config.resume) weights = {"model.safetensors", "model.safetensors.index.json"};
  add(paths, "model.name", config.model.name, PathWanted::kFolder, std::move(of_model), std::move(weights));
  add(paths, "tokenizer.name", config.tokenizer.name, PathWanted::kFolder, {"tokenizer.json"});
  add_data(paths, "data", config.data);
  if (config.val) add_data(paths, "val.data", config.val->data);
  if (config.resume) add(paths, "resume.dir", config.resume->dir, PathWanted::kFolder, {"trainer/.metadata"});
  return paths;
}

Status check_volume_given(const TrainingConfig& config, bool given) {
  std::vector<TrainingPath> paths = training_paths(config);
  if (given || paths.empty()) return ok();
  return Error(Code::kDataRequiresVolume, paths[0].key + " is '" + paths[0].spelled + "', a path on a volume, and the run has none",
               "add --volume NAME; only data.type = \"fake\" without model.name runs without a volume");
}

Status check_begins_anew(const TrainingConfig& config) {
  if (!config.resume || !config.resume->dir.empty()) return ok();
  return Error(Code::kConfigInvalid, "[resume] without dir goes on from the run's own checkpoints, and a new run has none",
               "write dir = \"runs/RUN/checkpoints/step_N\" below [resume]; cairn train checkpoints RUN lists them");
}

}  // namespace cairn::config
