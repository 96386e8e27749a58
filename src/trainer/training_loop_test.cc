#include "trainer/training_loop.h"

#include <cmath>
#include <thread>

#include <ATen/ATen.h>

#include "trainer/loop_fixture.h"

namespace cairn::trainer {
namespace {

const nlohmann::json& curve() {
  static const nlohmann::json json = golden_json("loop/curve.json");
  return json;
}

// Another decoder's; what a test spoils is overridden.
class Decorated : public Decoder {
 public:
  explicit Decorated(Decoder& below) : below_(below) {}
  const DecoderSpec& spec() const override { return below_.spec(); }
  const std::vector<NamedParameter>& named_parameters() const override { return below_.named_parameters(); }
  at::Tensor flat_parameters() const override { return below_.flat_parameters(); }
  at::Tensor flat_gradients() const override { return below_.flat_gradients(); }
  void zero_gradients() override { below_.zero_gradients(); }
  Status init_random(uint64_t seed) override { return below_.init_random(seed); }
  void parameters_changed() override { below_.parameters_changed(); }
  Result<LossSum> loss_and_gradients(const dataset::Row& row, double scale) override { return below_.loss_and_gradients(row, scale); }
  Result<LossSum> loss_sum(const dataset::Row& row) override { return below_.loss_sum(row); }
  Result<at::Tensor> logits(const dataset::Row& row) override { return below_.logits(row); }

 protected:
  Decoder& below_;
};

// Gives a loss that is no number, and gradients to match, for rows that begin with a certain id.
class Spoiled final : public Decorated {
 public:
  Spoiled(Decoder& below, int32_t bad) : Decorated(below), bad_(bad) {}
  Result<LossSum> loss_and_gradients(const dataset::Row& row, double scale) override {
    if (row.input_ids[0] != bad_) return below_.loss_and_gradients(row, scale);
    at::NoGradGuard no_grad;
    below_.flat_gradients().fill_(std::nanf(""));
    return LossSum{at::full({}, std::nanf("")), 1};
  }
  Result<LossSum> loss_sum(const dataset::Row& row) override {
    if (row.input_ids[0] != bad_) return below_.loss_sum(row);
    return LossSum{at::full({}, std::nanf("")), 1};
  }

 private:
  int32_t bad_;
};

bool same_parameters(const Decoder& a, const Decoder& b) { return at::equal(a.flat_parameters(), b.flat_parameters()); }

TEST(TrainingLoop, LearnsAsTheSameLoopInTorch) {
  testing::TemporaryFolder folder;
  TestRun run(curve_config(curve()), curve_rows(curve()), folder.path());
  auto end = run.run();
  ASSERT_TRUE(end) << end.error().to_string();
  EXPECT_EQ(*end, LoopEnd::kFinished);
  auto losses = run.values("loss/mean"), norms = run.values("optim/grad_norm"), lrs = run.values("optim/lr");
  ASSERT_EQ(losses.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(losses[i].first, static_cast<int64_t>(i) + 1);
    EXPECT_NEAR(losses[i].second, curve()["losses"][i].get<double>(), 5e-5) << "step " << i + 1;
    EXPECT_NEAR(norms[i].second, curve()["norms"][i].get<double>(), 5e-4) << "step " << i + 1;
    EXPECT_NEAR(lrs[i].second, curve()["lrs"][i].get<double>(), 1e-12) << "step " << i + 1;
  }
  EXPECT_EQ(run.state.total_tokens, 20 * 4 * 16);
  EXPECT_EQ(run.state.total_samples, 80);
}

TEST(TrainingLoop, ResumesBitForBit) {
  testing::TemporaryFolder whole_folder, part_folder;
  config::TrainingConfig config = curve_config(curve());
  config.ckpt = config::CheckpointSettings{};
  config.ckpt->interval = 10;
  TestRun whole(config, curve_rows(curve()), whole_folder.path());
  ASSERT_TRUE(whole.run());
  auto places = *whole.checkpoints.complete();
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].step, 10);

  TestRun rest(config, curve_rows(curve()), part_folder.path());
  TrainingState start = rest.load(places[0]);
  EXPECT_EQ(start.step, 10);
  ASSERT_TRUE(rest.run(start));
  EXPECT_TRUE(same_parameters(*whole.model, *rest.model));
  auto all = whole.values("loss/mean"), late = rest.values("loss/mean");
  ASSERT_EQ(late.size(), 10u);
  EXPECT_TRUE(std::equal(late.begin(), late.end(), all.begin() + 10));
  EXPECT_EQ(rest.state.total_samples, whole.state.total_samples);
  // Of a finished run there is nothing left to do.
  TestRun done(config, curve_rows(curve()), part_folder.path());
  start = done.load(places[1]);
  EXPECT_EQ(*done.run(start), LoopEnd::kFinished);
  EXPECT_EQ(done.state.step, 20);
}

TEST(TrainingLoop, TheConfigOfAResumedRunIsTheSame) {
  config::TrainingConfig config = curve_config(curve());
  std::string whole = config_fingerprint(config);
  config.resume = config::ResumeSettings{};
  config.resume->step = 7;
  config.max_steps = 1000;
  EXPECT_EQ(config_fingerprint(config), whole);
  config.optim.lr *= 2;
  EXPECT_NE(config_fingerprint(config), whole);
}

TEST(TrainingLoop, ACheckpointKeepsTheConfigWithoutSecrets) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 1;
  config.ckpt.emplace();
  config.env_vars["HF_TOKEN"] = "secret";
  TestRun run(config, curve_rows(curve()), folder.path());
  ASSERT_TRUE(run.run());
  std::string saved = load_state(os::posix_file_system(), (*run.checkpoints.complete())[0])->config;
  EXPECT_NE(saved.find("\"max_norm\""), std::string::npos) << saved;
  EXPECT_EQ(saved.find("HF_TOKEN"), std::string::npos) << saved;
  EXPECT_EQ(saved.find("secret"), std::string::npos) << saved;
}

TEST(TrainingLoop, LeavesOutRowsWhoseLossIsNotFinite) {
  testing::TemporaryFolder with_folder, without_folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 1;
  std::vector<dataset::Row> rows = curve_rows(curve());
  rows.resize(4);
  for (size_t i = 0; i < 4; ++i) rows[i].input_ids[0] = static_cast<int32_t>(i);

  TestRun with(config, rows, with_folder.path());
  with.decorated = std::make_unique<Spoiled>(*with.model, 2);
  ASSERT_TRUE(with.run());
  rows.erase(rows.begin() + 2);
  config.data.batch_size = 3;
  TestRun without(config, rows, without_folder.path());
  ASSERT_TRUE(without.run());

  EXPECT_EQ(with.values("loss/nan_count")[0].second, 1);
  EXPECT_EQ(without.values("loss/nan_count")[0].second, 0);
  EXPECT_EQ(with.values("loss/mean"), without.values("loss/mean"));
  EXPECT_TRUE(same_parameters(*with.model, *without.model));
}

// The gradient of every row, as an overflow leaves it behind a finite loss; or weights that have overflown.
class Overflown final : public Decorated {
 public:
  Overflown(Decoder& below, bool weights) : Decorated(below), weights_(weights) {}
  void parameters_changed() override {
    at::NoGradGuard no_grad;
    if (weights_) below_.flat_parameters()[3] = INFINITY;
    below_.parameters_changed();
  }
  Result<LossSum> loss_and_gradients(const dataset::Row& row, double scale) override {
    auto loss = below_.loss_and_gradients(row, scale);
    at::NoGradGuard no_grad;
    if (!weights_) below_.flat_gradients()[3] = INFINITY;
    return loss;
  }

 private:
  bool weights_;
};

void expect_diverged(const Result<LoopEnd>& end, const std::string& said) {
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code(), Code::kTrainingDiverged);
  EXPECT_EQ(exit_code(end.error().code()), 1);
  EXPECT_NE(end.error().message().find(said), std::string::npos) << end.error().message();
  EXPECT_NE(end.error().hint().find("lower optim.lr"), std::string::npos);
}

// Rows of as many steps as there are letters: 'x' for steps whose rows all have a loss that is not finite.
std::vector<dataset::Row> rows_of_steps(std::string_view steps) {
  std::vector<dataset::Row> some = curve_rows(curve()), rows;
  for (size_t i = 0; i < 4 * steps.size(); ++i) {
    rows.push_back(some[i % some.size()]);
    rows.back().input_ids[0] = steps[i / 4] == 'x' ? 2 : 1;
  }
  return rows;
}

TEST(TrainingLoop, PassesOverStepsWithoutAFiniteRow) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 13;
  TestRun run(config, rows_of_steps("xxxxxxxxx.xx."), folder.path());
  run.decorated = std::make_unique<Spoiled>(*run.model, 2);
  auto end = run.run();
  ASSERT_TRUE(end) << end.error().message();
  EXPECT_EQ(run.values("loss/nan_count")[0].second, 4);
  EXPECT_EQ(run.values("loss/mean").size(), 2u);
  EXPECT_NE(run.log_text().find("the weights stay as they were"), std::string::npos) << run.log_text();
}

TEST(TrainingLoop, EndsAfterTenStepsWithoutAFiniteRow) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.ckpt.emplace();
  config.ckpt->interval = 1;
  TestRun run(config, rows_of_steps(".xxxxxxxxxx"), folder.path());
  run.decorated = std::make_unique<Spoiled>(*run.model, 2);
  auto end = run.run();
  expect_diverged(end, "step 11 at a learning rate of ");
  expect_diverged(end, "the loss is not finite in any of its rows that teach something (4); so it was in the last 10 steps");
  expect_diverged(end, "the last checkpoint is " + folder.path() + "/checkpoints/step_10");
  auto places = *run.checkpoints.complete();
  auto saved = golden_model();
  for (const CheckpointPlace& place : places) {
    ASSERT_TRUE(load_parameters(os::posix_file_system(), place, saved->named_parameters()));
    EXPECT_TRUE(same_parameters(*run.model, *saved)) << place.folder;
  }
}

TEST(TrainingLoop, DoesNotCallItselfFinishedWhenNothingWasLearnt) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 3;
  TestRun run(config, rows_of_steps("xxx"), folder.path());
  run.decorated = std::make_unique<Spoiled>(*run.model, 2);
  expect_diverged(run.run(), "so it was in every step");
}

TEST(TrainingLoop, EndsAfterTenGradientsThatAreNotFinite) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  TestRun run(config, curve_rows(curve()), folder.path());
  run.decorated = std::make_unique<Overflown>(*run.model, false);
  auto end = run.run();
  expect_diverged(end, "the gradient norm is inf, with a loss of ");
  expect_diverged(end, "there is no checkpoint of this run");
  EXPECT_EQ(run.values("loss/nan_count")[0].second, 1);
  EXPECT_TRUE(run.checkpoints.complete()->empty());
  EXPECT_TRUE(same_parameters(*run.model, *golden_model()));
}

TEST(TrainingLoop, SavesNoWeightsThatAreNotFinite) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 1;
  config.ckpt.emplace();
  TestRun run(config, curve_rows(curve()), folder.path());
  run.decorated = std::make_unique<Overflown>(*run.model, true);
  expect_diverged(run.run(), "the weights after step 1 are not finite and were not saved");
  EXPECT_TRUE(run.checkpoints.complete()->empty());
}

TEST(TrainingLoop, AStepWithoutATargetSaysSoAndChangesNothing) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 1;
  std::vector<dataset::Row> rows = curve_rows(curve());
  for (dataset::Row& row : rows) std::fill(row.loss_mask.begin(), row.loss_mask.end(), uint8_t{0});
  TestRun run(config, rows, folder.path());
  ASSERT_TRUE(run.run());
  EXPECT_EQ(run.values("loss/nan_count")[0].second, 0);
  EXPECT_TRUE(same_parameters(*run.model, *golden_model()));
  EXPECT_NE(run.log_text().find("nothing to learn"), std::string::npos) << run.log_text();
  EXPECT_EQ(run.log_text().find("finite loss"), std::string::npos) << run.log_text();
}

TEST(TrainingLoop, AStopFinishesTheStepSavesAndIsToBeResumed) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps.reset();  // endless
  config.scheduler.kind = config::SchedulerKind::kConstant;
  TestRun run(config, curve_rows(curve()), folder.path());
  run.stop.after = 12;  // somewhere in the third step
  auto end = run.run();
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, LoopEnd::kStopped);
  EXPECT_EQ(run.state.step, 3);
  // Also without [ckpt].
  auto places = *run.checkpoints.complete();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].step, 3);
}

TEST(TrainingLoop, AStopThatComesInALongStepGivesTheStepUp) {
  testing::TemporaryFolder folder, plain_folder;
  config::TrainingConfig config = curve_config(curve());
  config.ckpt = config::CheckpointSettings{};
  TestRun run(config, curve_rows(curve()), folder.path());
  run.stop.after = 12;
  run.stop.requested_age = seconds(60);
  auto end = run.run();
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, LoopEnd::kStopped);
  EXPECT_EQ(run.state.step, 2);
  auto places = *run.checkpoints.complete();
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].step, 2);

  // Nothing of the step that was given up is in the checkpoint.
  TestRun rest(config, curve_rows(curve()), plain_folder.path());
  TrainingState start = rest.load(places[0]);
  ASSERT_TRUE(rest.run(start));
  auto losses = rest.values("loss/mean");
  ASSERT_EQ(losses.size(), 18u);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i].second, curve()["losses"][i + 2].get<double>(), 5e-5);
}

TEST(TrainingLoop, AStopIsAlsoSeenWhileRowsAreLearntAnew) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  std::vector<dataset::Row> rows = curve_rows(curve());
  rows.resize(4);
  for (size_t i = 0; i < 4; ++i) rows[i].input_ids[0] = static_cast<int32_t>(i);
  TestRun run(config, rows, folder.path());
  run.decorated = std::make_unique<Spoiled>(*run.model, 3);
  run.stop.after = 6;  // four looks at rows, then one for each of the three that are learnt anew
  run.stop.requested_age = seconds(60);
  ASSERT_TRUE(run.run());
  EXPECT_EQ(run.state.step, 0);
  EXPECT_EQ(run.rows.cursor(), "0");
}

config::TrainingConfig validated_config(int64_t interval) {
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 6;
  config.val = config::ValidationSettings{};
  config.val->interval = interval;
  return config;
}

std::vector<dataset::Row> many_rows() {
  std::vector<dataset::Row> rows;
  while (rows.size() < 60) rows.push_back(curve_rows(curve())[rows.size() % 5]);
  return rows;
}

TEST(TrainingLoop, AStopEndsAValidationAndTheResumedRunMakesItAgain) {
  config::TrainingConfig config = validated_config(3);
  testing::TemporaryFolder whole_folder;
  TestRun whole(config, curve_rows(curve()), whole_folder.path());
  ListRows held_out(many_rows());
  Validation validation(held_out, 0);
  whole.validation = &validation;
  ASSERT_TRUE(whole.run());
  // A step looks five times for a request: the first is in step 3 itself, the second in its validation.
  for (int after : {12, 20}) {
    SCOPED_TRACE(after);
    testing::TemporaryFolder folder, rest_folder;
    TestRun run(config, curve_rows(curve()), folder.path());
    run.validation = &validation;
    run.stop.after = after;
    auto end = run.run();
    ASSERT_TRUE(end);
    EXPECT_EQ(*end, LoopEnd::kStopped);
    EXPECT_EQ(run.state.step, 2);
    EXPECT_TRUE(run.values("val/loss").empty());
    EXPECT_EQ(held_out.progress().epoch, after == 12 ? 1 : 0);  // as the whole run left it, or given up on the way
    auto places = *run.checkpoints.complete();
    ASSERT_EQ(places.size(), 1u);
    EXPECT_EQ(places[0].step, 2);

    TestRun rest(config, curve_rows(curve()), rest_folder.path());
    TrainingState start = rest.load(places[0]);
    ASSERT_TRUE(held_out.restore("0"));
    rest.validation = &validation;
    ASSERT_TRUE(rest.run(start));
    EXPECT_EQ(rest.values("val/loss"), whole.values("val/loss"));
    EXPECT_TRUE(same_parameters(*rest.model, *whole.model));
  }
}

TEST(TrainingLoop, TwoProcessesEndAValidationTogether) {
  testing::TemporaryFolder first_folder, second_folder;
  config::TrainingConfig config = validated_config(2);
  TestRun first(config, curve_rows(curve()), first_folder.path()), second(config, curve_rows(curve()), second_folder.path());
  second.stop.after = 10;  // a step looks three times; the first process is not asked at all
  auto train = [&](TestRun& run, int rank) {
    ListRows rows(many_rows());
    Validation validation(rows, 0);
    run.validation = &validation;
    auto group = ProcessGroup::join(Membership{rank, 2, first_folder / "meeting", seconds(60)}, c10::Device(c10::kCPU));
    EXPECT_TRUE(group) << group.error().to_string();
    run.group = std::move(*group);
    auto end = run.run();
    EXPECT_TRUE(end && *end == LoopEnd::kStopped);
    run.validation = nullptr;
  };
  std::thread other([&] { train(second, 1); });
  train(first, 0);
  other.join();
  EXPECT_EQ(first.state.step, 1);
  EXPECT_EQ(second.state.step, 1);
  EXPECT_EQ(first.checkpoints.complete()->size(), 1u);
  EXPECT_TRUE(first.values("val/loss").empty());
}

TEST(TrainingLoop, ValidatesBeforeTheUpdateOverOneEpoch) {
  testing::TemporaryFolder folder;
  config::TrainingConfig config = curve_config(curve());
  config.max_steps = 4;
  config.val = config::ValidationSettings{};
  config.val->interval = 2;
  config.val->eval_on_start = true;
  std::vector<dataset::Row> held_out = curve_rows(curve());
  held_out.resize(3);
  ListRows rows(held_out);
  ASSERT_TRUE(rows.skip(2));  // wherever it stands
  Validation validation(rows, 0);
  TestRun run(config, curve_rows(curve()), folder.path());
  run.validation = &validation;
  double nats = 0;
  int64_t targets = 0;
  for (const dataset::Row& row : {held_out[2]}) {  // the rest of its epoch
    auto loss = run.model->loss_sum(row);
    ASSERT_TRUE(loss);
    nats += loss->sum.item<double>();
    targets += loss->count;
  }
  ASSERT_TRUE(run.run());
  auto found = run.values("val/loss");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].first, 1);
  EXPECT_EQ(found[1].first, 2);
  EXPECT_EQ(found[2].first, 4);
  // Before the first update it is the loss of the first weights.
  EXPECT_NEAR(found[0].second, nats / static_cast<double>(targets), 1e-6);
  EXPECT_EQ(run.state.last_metrics.at("val/loss"), found[2].second);
  // All that [ckpt] keep_best may name.
  for (const char* name : {"val/loss", "val/perplexity", "loss/mean", "loss/perplexity"}) {
    EXPECT_TRUE(run.state.last_metrics.contains(name)) << name;
  }
}

TEST(TrainingLoop, AResumedRunValidatesWhereTheWholeOneDoes) {
  for (bool on_start : {false, true}) {
    SCOPED_TRACE(on_start);
    testing::TemporaryFolder whole_folder, rest_folder;
    config::TrainingConfig config = curve_config(curve());
    config.max_steps = 6;
    config.ckpt = config::CheckpointSettings{};
    config.ckpt->interval = 2;
    config.val = config::ValidationSettings{};
    config.val->interval = 3;
    config.val->eval_on_start = on_start;
    ListRows held_out(curve_rows(curve()));
    Validation validation(held_out, 0);
    TestRun whole(config, curve_rows(curve()), whole_folder.path());
    whole.validation = &validation;
    ASSERT_TRUE(whole.run());
    auto wanted = whole.values("val/loss");
    ASSERT_EQ(wanted.size(), on_start ? 3u : 2u);
    // Step 3 is the first after step 2; step 5, after step 4, is none to validate at, whatever eval_on_start says.
    for (size_t place : {0u, 1u}) {
      TestRun rest(config, curve_rows(curve()), rest_folder / std::to_string(place));
      rest.validation = &validation;
      TrainingState start = rest.load((*whole.checkpoints.complete())[place]);
      ASSERT_TRUE(rest.run(start));
      size_t left = 2 - place;
      EXPECT_EQ(rest.values("val/loss"), decltype(wanted)(wanted.end() - static_cast<std::ptrdiff_t>(left), wanted.end()));
    }
  }
}

TEST(TrainingLoop, TwoProcessesLearnAsOne) {
  testing::TemporaryFolder one_folder, first_folder, second_folder;
  config::TrainingConfig config = curve_config(curve());
  config.val = config::ValidationSettings{};
  config.val->interval = 10;
  std::vector<dataset::Row> held_out = curve_rows(curve());
  held_out.resize(5);
  auto train = [&](TestRun& run, int rank, int size) {
    ListRows rows(held_out);
    Validation validation(rows, 0);
    run.validation = &validation;
    if (size > 1) {
      auto group = ProcessGroup::join(Membership{rank, size, one_folder / "meeting", seconds(60)}, c10::Device(c10::kCPU));
      EXPECT_TRUE(group) << group.error().to_string();
      run.group = std::move(*group);
    }
    auto end = run.run();
    EXPECT_TRUE(end) << end.error().to_string();
    run.validation = nullptr;
  };
  TestRun one(config, curve_rows(curve()), one_folder.path());
  train(one, 0, 1);
  TestRun first(config, curve_rows(curve()), first_folder.path()), second(config, curve_rows(curve()), second_folder.path());
  std::thread other([&] { train(second, 1, 2); });
  train(first, 0, 2);
  other.join();

  auto wanted = one.values("loss/mean"), found = first.values("loss/mean");
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i].second, wanted[i].second, 1e-5 * wanted[i].second);
  ASSERT_EQ(first.values("val/loss").size(), 2u);
  EXPECT_NEAR(first.values("val/loss")[1].second, one.values("val/loss")[1].second, 1e-5);
  EXPECT_TRUE(same_parameters(*first.model, *second.model));
  EXPECT_EQ(first.rows.cursor(), second.rows.cursor());
  EXPECT_EQ(first.rows.cursor(), one.rows.cursor());
  EXPECT_TRUE(second.values("loss/mean").empty());  // the first process speaks
}

}  // namespace
}  // namespace cairn::trainer
