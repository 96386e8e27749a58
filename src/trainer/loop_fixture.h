// What the tests of the loop share: rows from a list, a model of tests/golden/decoder, a run put together from parts.
#pragma once

#include <charconv>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "testing/temporary_folder.h"
#include "trainer/model_files.h"
#include "trainer/training_loop.h"

namespace cairn::trainer {

inline const std::string kGoldenFolder = std::string(CAIRN_SOURCE_DIR) + "/tests/golden/";

inline nlohmann::json golden_json(const std::string& name) {
  std::ifstream file(kGoldenFolder + name);
  EXPECT_TRUE(file) << name;
  return nlohmann::json::parse(file);
}

// The same rows again and again, in order.
class ListRows final : public dataset::RowSource {
 public:
  explicit ListRows(std::vector<dataset::Row> rows) : rows_(std::move(rows)) {}

  Result<dataset::Row> next() override { return rows_[static_cast<size_t>(at_++) % rows_.size()]; }
  Status skip(int64_t count) override {
    at_ += count;
    return ok();
  }
  int64_t rows_per_epoch() const override { return static_cast<int64_t>(rows_.size()); }
  dataset::RowProgress progress() const override { return {at_ / rows_per_epoch(), at_, 0}; }
  std::string cursor() const override { return std::to_string(at_); }
  Status restore(std::string_view cursor) override {
    std::from_chars(cursor.data(), cursor.data() + cursor.size(), at_);
    return ok();
  }

 private:
  std::vector<dataset::Row> rows_;
  int64_t at_ = 0;
};

inline dataset::Row row_of(const std::vector<int32_t>& ids, const std::vector<uint8_t>& mask) {
  dataset::Row row;
  row.input_ids.assign(ids.begin(), ids.end() - 1);
  row.target_ids.assign(ids.begin() + 1, ids.end());
  row.loss_mask = mask;
  row.sequence_lengths = {static_cast<int32_t>(row.input_ids.size())};
  return row;
}

inline std::vector<dataset::Row> curve_rows(const nlohmann::json& curve) {
  std::vector<dataset::Row> rows;
  for (const auto& row : curve["rows"]) rows.push_back(row_of(row["ids"], row["mask"]));
  return rows;
}

inline std::unique_ptr<Decoder> golden_model(const std::string& name = "qwen3_tied", const DecoderOptions& options = {}) {
  os::FileSystem& files = os::posix_file_system();
  std::string folder = kGoldenFolder + "decoder/" + name;
  auto spec = load_decoder_spec(files, folder);
  EXPECT_TRUE(spec);
  auto model = Decoder::create(*spec, options);
  EXPECT_TRUE(model);
  EXPECT_TRUE(load_weights(files, folder, **model));
  return std::move(*model);
}

class FakeStop final : public StopRequest {
 public:
  bool requested() const override { return after == 0 || --after == 0; }
  Duration age() const override { return requested_age; }
  mutable int after = 1 << 30;  // looks until the request is there
  Duration requested_age{0};
};

inline config::TrainingConfig curve_config(const nlohmann::json& curve) {
  config::TrainingConfig config;
  config.mode = config::TrainingMode::kPretrain;
  config.max_steps = 20;
  config.data.batch_size = curve["rows_per_step"];
  config.data.micro_batch_size = 1;
  config.data.seq_len = 16;
  config.optim.lr = curve["lr"];
  config.optim.weight_decay = 0.05;
  config.optim.betas2 = 0.99;
  config.optim.max_norm = curve["max_norm"];
  config.scheduler.kind = config::SchedulerKind::kCosine;
  config.scheduler.warmup_steps = curve["warmup_steps"];
  config.scheduler.min_lr = curve["min_lr"];
  return config;
}

// One process of a run in a folder of its own.
struct TestRun {
  explicit TestRun(const config::TrainingConfig& settings, std::vector<dataset::Row> list, const std::string& output)
      : config(settings), rows(std::move(list)), checkpoints(os::posix_file_system(), output + "/checkpoints"), log(system_clock()),
        metrics(system_clock(), log) {
    config.monitors.tensorboard = false;
    RunLog::Settings quiet;
    quiet.to_stdout = false;
    EXPECT_TRUE(os::posix_file_system().make_directories(output, 0755));
    quiet.file = log_file = output + "/trainer.log";
    log = *RunLog::open(quiet, system_clock());
    metrics = *Metrics::open(output, config.monitors, system_clock(), log);
    metrics_file = output + "/file/metrics.jsonl";
    model = golden_model();
  }

  Result<LoopEnd> run(TrainingState start = {}) {
    if (!optimizer) optimizer = std::move(*Optimizer::create(config.optim, model->named_parameters()));
    Decoder& used = decorated ? *decorated : *model;
    LoopParts parts{config, used, *optimizer, rows, validation, *group, checkpoints, metrics, log, stop, system_clock(), device, {}, {}};
    TrainingLoop loop(parts, std::move(start), config.max_steps);
    auto end = loop.run();
    state = loop.state();
    return end;
  }

  // The state a resumed run begins with.
  TrainingState load(const CheckpointPlace& place) {
    os::FileSystem& files = os::posix_file_system();
    optimizer = std::move(*Optimizer::create(config.optim, model->named_parameters()));
    auto saved = load_state(files, place);
    EXPECT_TRUE(saved);
    EXPECT_TRUE(verify_checkpoint(files, place));
    EXPECT_TRUE(load_parameters(files, place, model->named_parameters()));
    model->parameters_changed();
    EXPECT_TRUE(load_optimizer(files, place, *saved, *optimizer, config.optim.kind));
    EXPECT_TRUE(rows.restore(saved->cursor));
    TrainingState start;
    start.step = saved->step;
    start.total_tokens = saved->total_tokens;
    start.total_samples = saved->total_samples;
    start.schedule_index = saved->schedule_index;
    return start;
  }

  // The values of one metric by step, in order.
  std::vector<std::pair<int64_t, double>> values(const std::string& name) const {
    std::vector<std::pair<int64_t, double>> found;
    std::ifstream file(metrics_file);
    for (std::string line; std::getline(file, line);) {
      auto json = nlohmann::json::parse(line);
      if (json.contains(name)) found.emplace_back(json["step"], json[name]);
    }
    return found;
  }

  std::string log_text() const { return *os::posix_file_system().read_file(log_file, 1 << 20); }

  config::TrainingConfig config;
  ListRows rows;
  Checkpoints checkpoints;
  RunLog log;
  Metrics metrics;
  std::string metrics_file, log_file;
  FakeStop stop;
  DeviceFacts device;
  std::unique_ptr<ProcessGroup> group = ProcessGroup::alone();
  std::unique_ptr<Decoder> model;
  std::unique_ptr<Decoder> decorated;  // used in its place
  std::unique_ptr<Optimizer> optimizer;
  Validation* validation = nullptr;
  TrainingState state;
};

}  // namespace cairn::trainer
