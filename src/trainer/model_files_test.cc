#include "trainer/model_files.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "os/memory_file_system.h"
#include "trainer/safetensors.h"

namespace cairn::trainer {
namespace {

const std::string kGolden = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/decoder/";

std::unique_ptr<Decoder> make_model(const std::string& name) {
  auto spec = load_decoder_spec(os::posix_file_system(), kGolden + name);
  EXPECT_TRUE(spec) << spec.error().to_string();
  return std::move(*Decoder::create(*spec, {}));
}

std::unique_ptr<Decoder> load_model(const std::string& name) {
  auto model = make_model(name);
  auto loaded = load_weights(os::posix_file_system(), kGolden + name, *model);
  EXPECT_TRUE(loaded) << loaded.error().to_string();
  return model;
}

void put(os::MemoryFileSystem& files, const std::string& path, const std::string& text) {
  ASSERT_TRUE(files.write_file_atomic(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, 0644));
}

// A folder of the golden case in memory, to be damaged.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name) {
    EXPECT_TRUE(files.make_directory("/m", 0755));
    auto entries = os::posix_file_system().list(kGolden + name);
    for (const os::DirectoryEntry& entry : *entries) {
      put(files, "/m/" + entry.name, *os::posix_file_system().read_file(kGolden + name + "/" + entry.name, 1 << 20));
    }
  }

  Error refusal(Decoder& model) {
    auto status = load_weights(files, "/m", model);
    EXPECT_FALSE(status);
    return status ? Error(Code::kInternal, "accepted") : status.error();
  }

  // Writes model.safetensors with the tensors of `model` after `change`.
  template <class Change>
  void rewrite(const Decoder& model, Change change) {
    std::vector<NamedParameter> tensors = model.named_parameters();
    change(tensors);
    ASSERT_TRUE(files.remove("/m/model.safetensors"));
    ASSERT_TRUE(write_tensors(files, "/m/model.safetensors", tensors));
  }

  os::MemoryFileSystem files;
};

void expect_says(const Error& error, Code code, std::initializer_list<const char*> parts) {
  EXPECT_EQ(error.code(), code) << error.to_string();
  for (const char* part : parts) EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

TEST(ModelFiles, ReadsShardsInBfloat16) {
  auto model = load_model("sharded_bf16");
  auto file = SafetensorsFile::open(os::posix_file_system(), kGolden + "sharded_bf16/expected.safetensors");
  ASSERT_TRUE(file);
  for (const NamedParameter& parameter : model->named_parameters()) {
    const TensorLayout* layout = file->find("bf16." + parameter.name);
    ASSERT_NE(layout, nullptr);
    at::Tensor expected = at::empty(layout->shape, at::kFloat);
    ASSERT_TRUE(file->read_floats(*layout, 0, {expected.data_ptr<float>(), layout->size()}));
    EXPECT_TRUE(parameter.tensor.detach().equal(expected)) << parameter.name;
  }
}

TEST(ModelFiles, SavedShardsAreThoseOfTransformers) {
  ModelFolder original("sharded_bf16");
  auto model = load_model("sharded_bf16");
  os::MemoryFileSystem files;
  ASSERT_TRUE(files.make_directory("/out", 0755));
  ASSERT_TRUE(save_weights(files, "/out", *model, {true, 8000}));
  auto index = nlohmann::json::parse(*files.read_file("/out/model.safetensors.index.json", 1 << 20));
  auto expected = nlohmann::json::parse(*original.files.read_file("/m/model.safetensors.index.json", 1 << 20));
  EXPECT_EQ(index["metadata"]["total_size"], expected["metadata"]["total_size"]);
  EXPECT_EQ(index["weight_map"].size(), expected["weight_map"].size());
  auto again = make_model("sharded_bf16");
  ASSERT_TRUE(load_weights(files, "/out", *again));
  EXPECT_TRUE(again->flat_parameters().equal(model->flat_parameters()));
  auto entries = files.list("/out");
  for (const os::DirectoryEntry& entry : *entries) {
    auto file = SafetensorsFile::open(files, "/out/" + entry.name);
    if (!file) continue;
    EXPECT_EQ(file->header().metadata.at("format"), "pt");
    EXPECT_LE(file->header().tensors.back().end, 8000u);
  }
}

TEST(ModelFiles, SavesOneFileInEitherType) {
  for (bool bfloat16 : {false, true}) {
    auto model = load_model("qwen3_untied");
    os::MemoryFileSystem files;
    ASSERT_TRUE(files.make_directory("/out", 0755));
    ASSERT_TRUE(save_weights(files, "/out", *model, {bfloat16, kShardBytesMax}));
    EXPECT_FALSE(*files.exists("/out/model.safetensors.index.json"));
    auto again = make_model("qwen3_untied");
    ASSERT_TRUE(load_weights(files, "/out", *again));
    at::Tensor expected = model->flat_parameters();
    if (bfloat16) expected = expected.to(at::kBFloat16).to(at::kFloat);
    EXPECT_TRUE(again->flat_parameters().equal(expected));
    if (!bfloat16) {
      // The very bytes of transformers.
      EXPECT_TRUE(*files.read_file("/out/model.safetensors", 1 << 20) ==
                  *os::posix_file_system().read_file(kGolden + "qwen3_untied/model.safetensors", 1 << 20));
    }
  }
}

TEST(ModelFiles, RefusesOtherTensors) {
  auto model = load_model("qwen3_tied");
  ModelFolder folder("qwen3_tied");
  folder.rewrite(*model, [](auto& tensors) { tensors.pop_back(); });
  expect_says(folder.refusal(*model), Code::kDataInvalid, {"/m", "model.norm.weight", "[24]"});
  folder.rewrite(*model, [](auto& tensors) { tensors.push_back({"extra.weight", at::zeros({2, 3})}); });
  expect_says(folder.refusal(*model), Code::kDataInvalid, {"/m/model.safetensors", "extra.weight", "[2, 3]"});
  folder.rewrite(*model, [](auto& tensors) { tensors[1].tensor = at::zeros({25}); });
  expect_says(folder.refusal(*model), Code::kDataInvalid,
              {"/m/model.safetensors", "input_layernorm.weight", "[25]", "[24]"});
  folder.rewrite(*model, [](auto& tensors) { tensors[1].tensor = at::zeros({24}, at::kDouble); });
  expect_says(folder.refusal(*model), Code::kFormatUnsupported, {"F64", "BF16"});
}

TEST(ModelFiles, ATiedHeadMustBeTheEmbedding) {
  auto model = load_model("qwen3_tied");
  ModelFolder folder("qwen3_tied");
  at::Tensor embedding = model->named_parameters()[0].tensor.detach().clone();
  folder.rewrite(*model, [&](auto& tensors) { tensors.push_back({"lm_head.weight", embedding}); });
  EXPECT_TRUE(load_weights(folder.files, "/m", *model));
  folder.rewrite(*model, [&](auto& tensors) { tensors.push_back({"lm_head.weight", embedding + 1}); });
  expect_says(folder.refusal(*model), Code::kDataInvalid, {"lm_head.weight", "tied"});
  folder.rewrite(*model, [&](auto& tensors) { tensors.push_back({"lm_head.weight", embedding.t().contiguous()}); });
  expect_says(folder.refusal(*model), Code::kDataInvalid, {"lm_head.weight", "[24, 51]", "[51, 24]"});
}

TEST(ModelFiles, RefusesDamagedFolders) {
  auto model = load_model("sharded_bf16");
  const std::string index_path = "/m/model.safetensors.index.json", shard = "model-00002-of-00004.safetensors";
  ModelFolder good("sharded_bf16");
  const std::string index = *good.files.read_file(index_path, 1 << 20);
  {
    ModelFolder folder("sharded_bf16");
    ASSERT_TRUE(folder.files.remove("/m/" + shard));
    expect_says(folder.refusal(*model), Code::kDataMissingOnVolume, {"/m", shard.c_str()});
  }
  {
    ModelFolder folder("sharded_bf16");
    std::string bytes = *folder.files.read_file("/m/" + shard, 1 << 20);
    put(folder.files, "/m/" + shard, bytes.substr(0, bytes.size() - 1));
    expect_says(folder.refusal(*model), Code::kDataInvalid, {shard.c_str(), "truncated"});
  }
  {
    ModelFolder folder("sharded_bf16");
    ASSERT_TRUE(folder.files.remove(index_path));
    expect_says(folder.refusal(*model), Code::kDataMissingOnVolume, {"/m", "model.safetensors.index.json"});
  }
  auto with_index = [&](auto change) {
    ModelFolder folder("sharded_bf16");
    auto json = nlohmann::json::parse(index);
    change(json);
    put(folder.files, index_path, json.dump());
    return folder.refusal(*model);
  };
  expect_says(
      with_index([](auto& json) { json["weight_map"]["model.norm.weight"] = "model-00001-of-00004.safetensors"; }),
      Code::kDataInvalid, {"model.norm.weight", "model-00001-of-00004.safetensors"});
  expect_says(with_index([](auto& json) { json["weight_map"].erase("model.norm.weight"); }), Code::kDataInvalid,
              {"model.norm.weight"});
  expect_says(with_index([](auto& json) { json["weight_map"]["model.norm.weight"] = "../m/x.safetensors"; }),
              Code::kDataInvalid, {"../m"});
  expect_says(with_index([](auto& json) { json["weight_map"]["model.norm.weight"] = 1; }), Code::kDataInvalid,
              {"model.norm.weight"});
  expect_says(with_index([](auto& json) { json["weight_map"] = 1; }), Code::kDataInvalid, {"weight_map"});
  expect_says(with_index([](auto& json) { json = nlohmann::json::array(); }), Code::kDataInvalid, {"weight_map"});
  os::MemoryFileSystem empty;
  ASSERT_TRUE(empty.make_directory("/m", 0755));
  EXPECT_EQ(load_decoder_spec(empty, "/m").error().code(), Code::kDataMissingOnVolume);
}

TEST(ModelFiles, TensorsComeBackAsTheyWere) {
  os::MemoryFileSystem files;
  std::vector<NamedParameter> tensors = {{"a", at::randn({3, 4})},
                                         {"b", at::arange(5)},
                                         {"c", at::randn({7}).to(at::kBFloat16)},
                                         {"d", at::scalar_tensor(2.5, at::kDouble)},
                                         {"e", at::empty({0, 3})}};
  ASSERT_TRUE(write_tensors(files, "/t", tensors, {{"step", "7"}}));
  std::vector<NamedParameter> read;
  for (const auto& tensor : tensors) read.push_back({tensor.name, at::zeros_like(tensor.tensor)});
  auto metadata = read_tensors(files, "/t", read);
  ASSERT_TRUE(metadata) << metadata.error().to_string();
  EXPECT_EQ(metadata->at("step"), "7");
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(read[i].tensor.equal(tensors[i].tensor)) << tensors[i].name;

  read[0].tensor = at::zeros({4, 3});
  expect_says(read_tensors(files, "/t", read).error(), Code::kCheckpointMismatch, {"/t", "'a'", "[3, 4]", "[4, 3]"});
  read[0].tensor = at::zeros({3, 4}, at::kInt);
  expect_says(read_tensors(files, "/t", read).error(), Code::kCheckpointMismatch, {"F32", "I32"});
  read[0] = {"z", at::zeros({1})};
  expect_says(read_tensors(files, "/t", read).error(), Code::kCheckpointMismatch, {"'z'"});
  read.erase(read.begin());
  expect_says(read_tensors(files, "/t", read).error(), Code::kCheckpointMismatch, {"5", "4"});
}

TEST(ModelFiles, AFullDiskIsSaid) {
  auto model = load_model("qwen3_tied");
  os::MemoryFileSystem files;
  ASSERT_TRUE(files.make_directory("/out", 0755));
  files.set_capacity(10000);
  auto status = save_weights(files, "/out", *model, {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kNoSpaceLeft);
}

}  // namespace
}  // namespace cairn::trainer
