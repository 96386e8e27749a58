// The trainer's ways for a device that is not the CPU, walked on a stand-in for one.
#include "trainer/stand_in_device.h"

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "trainer/loop_fixture.h"

namespace cairn::trainer {
namespace {

const nlohmann::json& curve() {
  static const nlohmann::json json = golden_json("loop/curve.json");
  return json;
}

DecoderOptions on_the_device() {
  DecoderOptions options;
  options.device = stand_in_device();
  return options;
}

double largest_difference(const at::Tensor& left, const at::Tensor& right) {
  return (left.detach().to(at::kCPU) - right.detach().to(at::kCPU)).abs().max().item<double>();
}

TEST(StandInDevice, RefusesTensorsOfTheCpu) {
  at::Tensor ours = at::ones({3}, at::TensorOptions().device(stand_in_device()));
  EXPECT_EQ(ours.sum().item<float>(), 3);
  EXPECT_EQ((ours + at::scalar_tensor(1)).sum().item<float>(), 6);
  EXPECT_ANY_THROW(ours + at::ones({3}));
  EXPECT_ANY_THROW(ours.index_select(0, at::zeros({1}, at::kLong)));
}

TEST(StandInDevice, DecodersComputeAsOnTheCpu) {
  for (const char* name : {"qwen3_tied", "qwen3_untied", "llama", "llama_biased"}) {
    for (int64_t checkpointing : {0, 1}) {
      SCOPED_TRACE(fmt::format("{}, every {} layers recomputed", name, checkpointing));
      DecoderOptions plain;
      plain.plain_layers = true;
      plain.head_token_chunk_size = 4;
      plain.activation_checkpointing_freq = checkpointing;
      DecoderOptions device = plain;
      device.device = stand_in_device();
      auto expected = golden_model(name, plain), model = golden_model(name, device);
      dataset::Row row = curve_rows(curve()).front();
      row.sequence_lengths = {5, static_cast<int32_t>(row.input_ids.size()) - 5};
      auto logits = model->logits(row);
      ASSERT_TRUE(logits) << logits.error().to_string();
      EXPECT_LT(largest_difference(*logits, *expected->logits(row)), 1e-6);
      auto loss = model->loss_and_gradients(row, 0.5), expected_loss = expected->loss_and_gradients(row, 0.5);
      ASSERT_TRUE(loss) << loss.error().to_string();
      EXPECT_EQ(loss->sum.device(), stand_in_device());
      EXPECT_LT(largest_difference(loss->sum, expected_loss->sum), 1e-5);
      double largest = expected->flat_gradients().abs().max().item<double>();
      EXPECT_LT(largest_difference(model->flat_gradients(), expected->flat_gradients()), 1e-6 * largest);
    }
  }
}

TEST(StandInDevice, OptimizersStepAsOnTheCpu) {
  using Kind = config::OptimizerKind;
  for (Kind kind : {Kind::kAdamW, Kind::kSgd, Kind::kSignSgd, Kind::kMuon}) {
    config::OptimizerSettings settings;
    settings.kind = kind;
    auto expected = golden_model(), model = golden_model("qwen3_tied", on_the_device());
    at::Tensor before = expected->flat_parameters().detach().clone();
    auto expected_optimizer = *Optimizer::create(settings, expected->named_parameters());
    auto optimizer = *Optimizer::create(settings, model->named_parameters());
    dataset::Row row = curve_rows(curve()).front();
    ASSERT_TRUE(expected->loss_and_gradients(row));
    {
      at::NoGradGuard no_grad;
      model->flat_gradients().copy_(expected->flat_gradients());
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(expected_optimizer->step(1e-2, 0.5));
      ASSERT_TRUE(optimizer->step(1e-2, 0.5));
    }
    // Off the CPU Muon makes its matrices orthogonal in bf16: small singular values come out otherwise.
    double moved = largest_difference(expected->flat_parameters(), before);
    double tolerance = kind == Kind::kMuon ? 0.2 * moved : 1e-6;
    EXPECT_LT(largest_difference(model->flat_parameters(), expected->flat_parameters()), tolerance)
        << static_cast<int>(kind);
    for (const NamedParameter& state : optimizer->state())
      EXPECT_EQ(state.tensor.device(), stand_in_device()) << state.name;
  }
}

TEST(StandInDevice, ARunLearnsAndResumesBitForBit) {
  testing::TemporaryFolder whole_folder, part_folder;
  config::TrainingConfig config = curve_config(curve());
  config.ckpt = config::CheckpointSettings{};
  config.ckpt->interval = 10;
  TestRun whole(config, curve_rows(curve()), whole_folder.path());
  whole.model = golden_model("qwen3_tied", on_the_device());
  auto end = whole.run();
  ASSERT_TRUE(end) << end.error().to_string();
  auto losses = whole.values("loss/mean");
  ASSERT_EQ(losses.size(), 20u);
  for (size_t i = 0; i < 20; ++i)
    EXPECT_NEAR(losses[i].second, curve()["losses"][i].get<double>(), 5e-5) << "step " << i + 1;

  auto places = *whole.checkpoints.complete();
  ASSERT_EQ(places.size(), 2u);
  TestRun rest(config, curve_rows(curve()), part_folder.path());
  rest.model = golden_model("qwen3_tied", on_the_device());
  TrainingState start = rest.load(places[0]);
  ASSERT_TRUE(rest.run(start));
  EXPECT_TRUE(at::equal(whole.model->flat_parameters().to(at::kCPU), rest.model->flat_parameters().to(at::kCPU)));
}

}  // namespace
}  // namespace cairn::trainer
