#include "trainer/model_files.h"

#include <algorithm>
#include <set>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/safetensors.h"
#include "trainer/tensor_bytes.h"
#include "trainer/torch_guard.h"

namespace cairn::trainer {
namespace {

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kHeadName = "lm_head.weight";

Error missing(const std::string& folder, std::string_view what) {
  return Error(Code::kDataMissingOnVolume, fmt::format("{} has no {}", folder, what),
               "a model is a folder with config.json, and model.safetensors where weights are read");
}

// File names of an index, each once. A name is a plain one in the same folder.
Result<std::map<std::string, std::string>> parse_index(const std::string& text, const std::string& path) {
  auto wrong = [&](const std::string& what) { return Error(Code::kDataInvalid, fmt::format("{}: {}", path, what)); };
  nlohmann::json index = nlohmann::json::parse(text, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return wrong("not a JSON object with a weight_map");
  }
  std::map<std::string, std::string> map;
  for (const auto& item : index["weight_map"].items()) {
    if (!item.value().is_string()) return wrong(fmt::format("tensor '{}' has no file name", item.key().substr(0, 200)));
    const auto& file = item.value().get_ref<const std::string&>();
    if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos || file.find('\0') != std::string::npos) {
      return wrong(fmt::format("tensor '{}' lies in '{}', which is no file of this folder", item.key().substr(0, 200),
                               file.substr(0, 200)));
    }
    map.emplace(item.key(), file);
  }
  return map;
}

struct OpenWeights {
  std::vector<SafetensorsFile> files;
  std::map<std::string, size_t> file_of;  // by tensor
};

// Opens all files of the folder; index and files must agree on every tensor.
Result<OpenWeights> open_weights(os::FileSystem& files, const std::string& folder) {
  OpenWeights weights;
  const std::string single = folder + "/" + kSingleName, index_path = folder + "/" + kIndexName;
  CAIRN_TRY(bool is_single, files.exists(single));
  if (is_single) {
    CAIRN_TRY(SafetensorsFile file, SafetensorsFile::open(files, single));
    for (const TensorLayout& tensor : file.header().tensors) weights.file_of.emplace(tensor.name, 0);
    weights.files.push_back(std::move(file));
    return weights;
  }
  CAIRN_TRY(bool has_index, files.exists(index_path));
  if (!has_index) return missing(folder, fmt::format("{} or {}", kSingleName, kIndexName));
  CAIRN_TRY(std::string text, files.read_file(index_path, kIndexBytesMax));
  CAIRN_TRY(auto map, parse_index(text, index_path));
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, name] : map) {
    if (opened.contains(name)) continue;
    const std::string path = folder + "/" + name;
    CAIRN_TRY(bool there, files.exists(path));
    if (!there) return missing(folder, fmt::format("{}, which {} names", name, kIndexName));
    CAIRN_TRY(SafetensorsFile file, SafetensorsFile::open(files, path));
    opened.emplace(name, weights.files.size());
    weights.files.push_back(std::move(file));
  }
  for (const auto& [tensor, name] : map) {
    const SafetensorsFile& file = weights.files[opened[name]];
    if (file.find(tensor) == nullptr) {
      return Error(Code::kDataInvalid,
                   fmt::format("{} says that '{}' is in {}, which does not hold it", index_path, tensor, name));
    }
    weights.file_of.emplace(tensor, opened[name]);
  }
  for (const SafetensorsFile& file : weights.files) {
    for (const TensorLayout& tensor : file.header().tensors) {
      auto at = weights.file_of.find(tensor.name);
      if (at != weights.file_of.end() && &weights.files[at->second] == &file) continue;
      return Error(Code::kDataInvalid, fmt::format("{}: tensor '{}' is not listed for this file in {}", file.path(),
                                                   tensor.name.substr(0, 200), kIndexName));
    }
  }
  return weights;
}

Error wrong_shape(const SafetensorsFile& file, const TensorLayout& found, const std::vector<int64_t>& expected) {
  return Error(Code::kDataInvalid, fmt::format("{}: tensor '{}' has shape {}, config.json makes it {}", file.path(),
                                               found.name, shape_text(found.shape), shape_text(expected)));
}

// Every parameter is there with its shape and nothing else is.
Status check_weights(const OpenWeights& weights, const std::string& folder, const Decoder& model) {
  std::set<std::string> expected;
  for (const NamedParameter& parameter : model.named_parameters()) {
    expected.insert(parameter.name);
    auto at = weights.file_of.find(parameter.name);
    if (at == weights.file_of.end()) {
      return Error(Code::kDataInvalid, fmt::format("{}: the weights lack tensor '{}' {}, which config.json asks for",
                                                   folder, parameter.name, shape_text(parameter.tensor.sizes().vec())));
    }
    const SafetensorsFile& file = weights.files[at->second];
    const TensorLayout& found = *file.find(parameter.name);
    if (found.shape != parameter.tensor.sizes().vec()) return wrong_shape(file, found, parameter.tensor.sizes().vec());
  }
  for (const auto& [name, index] : weights.file_of) {
    if (expected.contains(name)) continue;
    const SafetensorsFile& file = weights.files[index];
    const TensorLayout& found = *file.find(name);
    // A tied head may be stored too. Old Llama files carry the rotary frequencies, which follow from the config.
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    if (name == kHeadName && model.spec().tie_word_embeddings) {
      std::vector<int64_t> shape = {model.spec().vocab_size, model.spec().hidden_size};
      if (found.shape != shape) return wrong_shape(file, found, shape);
      continue;
    }
    return Error(Code::kDataInvalid,
                 fmt::format("{}: tensor '{}' {} is none of this model, as config.json describes it", file.path(),
                             name.substr(0, 200), shape_text(found.shape)));
  }
  return ok();
}

Status load_floats(const SafetensorsFile& file, const TensorLayout& from, at::Tensor to) {
  at::NoGradGuard no_grad;
  at::Tensor host =
      to.device().is_cpu() ? to : at::empty(to.sizes(), to.options().device(at::kCPU).requires_grad(false));
  CAIRN_CHECK_OK(file.read_floats(from, 0, {host.data_ptr<float>(), static_cast<size_t>(host.numel())}));
  if (!host.is_same(to)) to.copy_(host);
  return ok();
}

// A tied model's own head must be its embedding, or loading would drop weights without a word.
Status check_tied_head(const OpenWeights& weights, const Decoder& model) {
  auto at = weights.file_of.find(kHeadName);
  if (at == weights.file_of.end() || !model.spec().tie_word_embeddings) return ok();
  const SafetensorsFile& file = weights.files[at->second];
  at::Tensor head = at::empty({model.spec().vocab_size, model.spec().hidden_size}, at::kFloat);
  CAIRN_CHECK_OK(load_floats(file, *file.find(kHeadName), head));
  if (head.equal(model.named_parameters().front().tensor.detach().to(at::kCPU))) return ok();
  return Error(Code::kDataInvalid,
               fmt::format("{}: '{}' differs from the embedding, but config.json says that they are tied", file.path(),
                           kHeadName),
               "set tie_word_embeddings to false in config.json");
}

std::string shard_name(size_t shard, size_t shards) {
  return shards == 1 ? kSingleName : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

Status write_index(os::FileSystem& files, const std::string& folder, const std::map<std::string, std::string>& map,
                   uint64_t total_size) {
  nlohmann::json index = {{"metadata", {{"total_size", total_size}}}, {"weight_map", map}};
  std::string text = index.dump(2) + "\n";
  return files.write_file_atomic(folder + "/" + kIndexName,
                                 {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0644);
}

}  // namespace

Result<DecoderSpec> load_decoder_spec(os::FileSystem& files, const std::string& folder) {
  const std::string path = folder + "/config.json";
  CAIRN_TRY(bool there, files.exists(path));
  if (!there) return missing(folder, "config.json");
  CAIRN_TRY(std::string text, files.read_file(path, kModelConfigBytesMax));
  return parse_decoder_spec(text, path);
}

Status load_weights(os::FileSystem& files, const std::string& folder, Decoder& model) {
  return guard_torch("loading weights", [&]() -> Status {
    CAIRN_TRY(OpenWeights weights, open_weights(files, folder));
    CAIRN_CHECK_OK(check_weights(weights, folder, model));
    for (const NamedParameter& parameter : model.named_parameters()) {
      const SafetensorsFile& file = weights.files[weights.file_of.at(parameter.name)];
      CAIRN_CHECK_OK(load_floats(file, *file.find(parameter.name), parameter.tensor));
    }
    model.parameters_changed();
    return check_tied_head(weights, model);
  });
}

Status save_weights(os::FileSystem& files, const std::string& folder, const Decoder& model,
                    const SaveOptions& options) {
  return guard_torch("saving weights", [&]() -> Status {
    const TensorType type = options.bfloat16 ? TensorType::kBF16 : TensorType::kF32;
    std::vector<std::vector<NamedParameter>> shards(1);
    uint64_t shard_size = 0, total_size = 0;
    for (const NamedParameter& parameter : model.named_parameters()) {
      const uint64_t size = static_cast<uint64_t>(parameter.tensor.numel()) * bytes_of(type);
      if (shard_size > 0 && shard_size + size > options.shard_bytes_max) {
        shards.emplace_back();
        shard_size = 0;
      }
      shards.back().push_back(parameter);
      shard_size += size;
      total_size += size;
    }
    std::map<std::string, std::string> map;
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i, shards.size());
      for (const NamedParameter& parameter : shards[i]) map.emplace(parameter.name, name);
      CAIRN_CHECK_OK(write_tensors_as(files, folder + "/" + name, shards[i], type, {{"format", "pt"}}));
    }
    CAIRN_CHECK_OK(files.sync_directory(folder));
    return shards.size() == 1 ? ok() : write_index(files, folder, map, total_size);
  });
}

Status write_tensors(os::FileSystem& files, const std::string& path, const std::vector<NamedParameter>& tensors,
                     const std::map<std::string, std::string>& metadata) {
  return guard_torch("saving tensors", [&] { return write_tensors_as(files, path, tensors, std::nullopt, metadata); });
}

Result<std::map<std::string, std::string>> read_tensors(os::FileSystem& files, const std::string& path,
                                                        const std::vector<NamedParameter>& tensors) {
  using Metadata = std::map<std::string, std::string>;
  return guard_torch("loading tensors", [&]() -> Result<Metadata> {
    CAIRN_TRY(SafetensorsFile file, SafetensorsFile::open(files, path));
    auto mismatch = [&](const std::string& what) {
      return Error(Code::kCheckpointMismatch, fmt::format("{}: {}", path, what));
    };
    for (const NamedParameter& tensor : tensors) {
      const TensorLayout* found = file.find(tensor.name);
      if (found == nullptr) return mismatch(fmt::format("tensor '{}' is missing", tensor.name));
      TensorLayout wanted = layout_of(tensor);
      if (found->shape != wanted.shape || found->type != wanted.type) {
        return mismatch(fmt::format("tensor '{}' is {} {}, this run's is {} {}", tensor.name, name_of(found->type),
                                    shape_text(found->shape), name_of(wanted.type), shape_text(wanted.shape)));
      }
      CAIRN_CHECK_OK(read_bytes_into(file, *found, tensor.tensor));
    }
    if (file.header().tensors.size() != tensors.size()) {
      return mismatch(fmt::format("holds {} tensors, this run has {}", file.header().tensors.size(), tensors.size()));
    }
    return file.header().metadata;
  });
}

}  // namespace cairn::trainer
