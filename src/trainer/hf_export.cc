#include "trainer/hf_export.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "codec/bytes.h"
#include "trainer/checkpoint.h"
#include "trainer/model_files.h"

namespace cairn::trainer {
namespace {

Result<CheckpointPlace> place_of(os::FileSystem& files, const std::string& checkpoint) {
  std::string folder = checkpoint;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  if (folder.ends_with("/trainer")) folder = os::parent_path(folder);
  if (std::optional<int64_t> step = step_of_folder(folder)) {
    CAIRN_TRY(CheckpointMarker marker, check_complete(files, folder, *step));
    return CheckpointPlace{*step, folder, std::move(marker)};
  }
  CAIRN_TRY(bool below, files.exists(folder + "/checkpoints"));
  Checkpoints checkpoints(files, below ? folder + "/checkpoints" : folder);
  auto found = find_checkpoint(files, {}, checkpoints);
  if (!found && found.error().code() == Code::kFileNotFound) {
    return Error(Code::kFileNotFound, fmt::format("{} holds no checkpoint", checkpoint), "name a run's folder, or its checkpoints/step_N");
  }
  return found;
}

// The type of the weights is a key of config.json under two names: old and new readers look for either.
Result<std::string> config_with_type(const std::string& text, bool bfloat16) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) return Error(Code::kDataCorrupt, "the checkpoint's model_config is not a JSON object");
  json["torch_dtype"] = bfloat16 ? "bfloat16" : "float32";
  if (json.contains("dtype")) json["dtype"] = json["torch_dtype"];
  return json.dump(2) + "\n";
}

Status write_new_file(os::FileSystem& files, const std::string& path, std::string_view text) {
  return files.write_file_atomic(path, codec::as_bytes(text), 0644);
}

Status check_empty(os::FileSystem& files, const std::string& folder) {
  auto entries = files.list(folder, {}, 1);
  if (!entries) return entries.error().code() == Code::kFileNotFound ? ok() : Status(std::move(entries).error());
  if (entries->empty()) return ok();
  return Error(Code::kFileExists, fmt::format("{} is not empty", folder), "name a new folder for the exported model");
}

}  // namespace

Result<int64_t> export_checkpoint(const std::string& checkpoint, const std::string& out_folder, bool bfloat16) {
  os::FileSystem& files = os::posix_file_system();
  CAIRN_TRY(CheckpointPlace place, place_of(files, checkpoint));
  CAIRN_CHECK_OK(check_empty(files, out_folder));
  CAIRN_CHECK_OK(verify_checkpoint(files, place));
  CAIRN_TRY(CheckpointState state, load_state(files, place));
  CAIRN_TRY(DecoderSpec spec, parse_decoder_spec(state.model_config, place.folder + "/trainer/state.json"));
  CAIRN_TRY(std::unique_ptr<Decoder> model, Decoder::create(spec, {}));
  CAIRN_CHECK_OK(load_parameters(files, place, model->named_parameters()));
  model->parameters_changed();

  CAIRN_CHECK_OK(files.make_directories(out_folder, 0755));
  CAIRN_TRY(std::string config, config_with_type(spec.json, bfloat16));
  CAIRN_CHECK_OK(write_new_file(files, out_folder + "/config.json", config));
  auto copy = [&](const std::string& name, const std::string& text) {
    return write_new_file(files, out_folder + "/" + name, text);
  };
  CAIRN_CHECK_OK(for_each_side_file(files, "", place.folder + "/trainer/tokenizer", copy));
  SaveOptions options;
  options.bfloat16 = bfloat16;
  CAIRN_CHECK_OK(save_weights(files, out_folder, *model, options));
  return place.step;
}

Status import_model(const std::string& model_folder, const std::string& step_folder) {
  os::FileSystem& files = os::posix_file_system();
  std::optional<int64_t> step = step_of_folder(step_folder);
  if (!step) return Error(Code::kUsage, fmt::format("'{}' is no folder step_N", step_folder), "end the path with step_0");
  auto there = check_complete(files, step_folder, *step);
  if (there) return Error(Code::kFileExists, fmt::format("{} is a complete checkpoint already", step_folder), "choose another step");
  bool free = there.error().code() == Code::kFileNotFound || there.error().code() == Code::kCheckpointIncomplete;
  if (!free) return std::move(there).error();
  CAIRN_TRY(DecoderSpec spec, load_decoder_spec(files, model_folder));
  CAIRN_TRY(std::unique_ptr<Decoder> model, Decoder::create(spec, {}));
  CAIRN_CHECK_OK(load_weights(files, model_folder, *model));

  CheckpointContents contents;
  contents.state.mode = "import";
  contents.state.step = *step;
  contents.state.optimizer_kind = kNoOptimizer;
  contents.state.config_sha256 = "";
  contents.state.model_config = spec.json;
  contents.parameters = &model->named_parameters();
  contents.model_folder = model_folder;
  contents.tokenizer_folder = model_folder;
  return Checkpoints(files, os::parent_path(step_folder)).save(contents);
}

}  // namespace cairn::trainer
