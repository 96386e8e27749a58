// The readers of the single tables of a training config (training_config.h puts them together). Each reads what its table says
// into settings that hold the defaults already, and complains in the reader; checks that compare tables are
// `check_training_config`'s. Internal to this module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/toml_reader.h"
#include "config/training_config.h"

namespace cairn::config {

inline constexpr int64_t kStepsMax = 1'000'000'000'000;
inline constexpr int64_t kTokensPerRowMax = 1 << 20;
inline constexpr int64_t kRowsPerBatchMax = 1 << 20;
inline constexpr int64_t kProcessesMax = 1024;

// The settings of prime-rl that only one value, or none, is built of: refuses the others by name and accepts the rest.
// `table` is "" for the top, "model", "data", …
void refuse_unbuilt(TomlSection section, std::string_view table);
// Keys that another `type` of the same table has.
void refuse_foreign(TomlSection section, const std::vector<std::string>& keys, const std::string& type);
// One row a setting of `refuse_unbuilt`, for the documentation and its test: table, key, accepted values, why not others.
struct UnbuiltSetting {
  std::string_view table, key, accepted, why;
};
const std::vector<UnbuiltSetting>& unbuilt_settings();

void read_model(TomlSection section, ModelSettings& model);
void read_tokenizer(TomlSection section, TokenizerSettings& tokenizer);
void read_data(TomlSection section, TrainingMode mode, DataSettings& data);
void read_validation(TomlSection section, TrainingMode mode, ValidationSettings& val);
void read_renderer(TomlSection section, RendererSettings& renderer);
void read_optimizer(TomlSection section, OptimizerSettings& optim);
void read_scheduler(TomlSection section, TrainingMode mode, SchedulerSettings& scheduler);
void read_checkpoints(TomlSection section, CheckpointSettings& ckpt);
void read_resume(TomlSection section, ResumeSettings& resume);
void read_deployment(TomlSection section, TrainingConfig& config);
void read_monitors(TomlSection monitors, TomlSection log, MonitorSettings& settings);

// What must be there, and what must fit together.
void check_training_config(TomlSection top, const TrainingConfig& config);

}  // namespace cairn::config
