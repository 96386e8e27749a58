#include "trainer/hf_export.h"

#include <filesystem>
#include <fstream>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "trainer/loop_fixture.h"
#include "trainer/safetensors.h"

namespace cairn::trainer {
namespace {

// The golden model as a checkpoint with a tokenizer beside it.
class Export : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "model");
    std::filesystem::copy(kGoldenFolder + "decoder/qwen3_tied", folder_ / "model");
    std::ofstream(folder_ / "model/tokenizer.json") << "{\"tokens\": \"kept byte for byte\"}";
    ASSERT_TRUE(import_model(folder_ / "model", step()));
  }
  std::string step() { return folder_ / "run/checkpoints/step_0"; }

  std::unique_ptr<Decoder> loaded(const std::string& model_folder) {
    os::FileSystem& files = os::posix_file_system();
    auto spec = load_decoder_spec(files, model_folder);
    EXPECT_TRUE(spec) << spec.error().to_string();
    auto model = Decoder::create(*spec, {});
    Status weights = load_weights(files, model_folder, **model);
    EXPECT_TRUE(weights) << weights.error().to_string();
    return std::move(*model);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Export, ThereAndBackIsTheSameInFp32) {
  auto exported = export_checkpoint(step(), folder_ / "out", false);
  ASSERT_TRUE(exported) << exported.error().to_string();
  EXPECT_EQ(*exported, 0);
  EXPECT_TRUE(at::equal(loaded(folder_ / "out")->flat_parameters(), loaded(folder_ / "model")->flat_parameters()));
  std::ifstream tokenizer(folder_ / "out/tokenizer.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(tokenizer), {}), "{\"tokens\": \"kept byte for byte\"}");
  auto config = nlohmann::json::parse(std::ifstream(folder_ / "out/config.json"));
  EXPECT_EQ(config["torch_dtype"], "float32");
  EXPECT_EQ(config["model_type"], "qwen3");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/generation_config.json"));
}

TEST_F(Export, Bf16RoundsOnce) {
  // From the run's folder: its latest checkpoint.
  ASSERT_TRUE(export_checkpoint(folder_ / "run", folder_ / "out", true));
  at::Tensor wanted = loaded(folder_ / "model")->flat_parameters().to(at::kBFloat16).to(at::kFloat);
  EXPECT_TRUE(at::equal(loaded(folder_ / "out")->flat_parameters(), wanted));
  ASSERT_TRUE(import_model(folder_ / "out", folder_ / "run/checkpoints/step_3"));
  ASSERT_TRUE(export_checkpoint(folder_ / "run", folder_ / "again", true));
  EXPECT_TRUE(at::equal(loaded(folder_ / "again")->flat_parameters(), wanted));
}

TEST_F(Export, AnImportedModelIsTrained) {
  testing::TemporaryFolder output;
  auto curve = golden_json("loop/curve.json");
  TestRun run(curve_config(curve), curve_rows(curve), output.path());
  {
    at::NoGradGuard no_grad;
    run.model->flat_parameters().zero_();
  }
  Checkpoints checkpoints(os::posix_file_system(), folder_ / "run/checkpoints");
  TrainingState start = run.load(checkpoints.complete()->front());
  EXPECT_EQ(start.step, 0);
  ASSERT_TRUE(run.run(start));
  EXPECT_NEAR(run.values("loss/mean").back().second, curve["losses"].back().get<double>(), 5e-5);
}

TEST_F(Export, Refusals) {
  std::filesystem::create_directories(folder_ / "full");
  std::ofstream(folder_ / "full/file") << "x";
  EXPECT_EQ(export_checkpoint(step(), folder_ / "full", true).error().code(), Code::kFileExists);
  EXPECT_EQ(export_checkpoint(folder_ / "nowhere", folder_ / "out", true).error().code(), Code::kFileNotFound);
  EXPECT_EQ(import_model(folder_ / "model", step()).error().code(), Code::kFileExists);
  EXPECT_EQ(import_model(folder_ / "model", folder_ / "run").error().code(), Code::kUsage);
  // What a newer trainer has saved is not written over.
  std::ofstream(step() + "/trainer/.metadata") << R"({"format": "cairn-training-checkpoint", "version": 2})";
  EXPECT_EQ(import_model(folder_ / "model", step()).error().code(), Code::kFormatUnsupported);
  EXPECT_EQ(export_checkpoint(step(), folder_ / "out", true).error().code(), Code::kFormatUnsupported);
  std::filesystem::remove(step() + "/trainer/.metadata");
  EXPECT_EQ(export_checkpoint(step(), folder_ / "out", true).error().code(), Code::kCheckpointIncomplete);
}

}  // namespace
}  // namespace cairn::trainer
