// Saving, finding, loading and deleting training checkpoints (docs/formats/training-checkpoint.md).
//
// A Checkpoints object stands for one folder `checkpoints/`; one process writes to it. Whatever moment power or a disk fails at,
// a checkpoint that was complete before stays so until a newer one is complete, and a torn one is never taken for complete.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/training_config.h"
#include "os/file_system.h"
#include "trainer/checkpoint_format.h"
#include "trainer/decoder.h"
#include "trainer/optimizer.h"

namespace cairn::trainer {

// What an imported model has: resuming begins with a new optimizer state.
inline constexpr std::string_view kNoOptimizer = "none";

struct CheckpointContents {
  CheckpointState state;
  std::map<std::string, double> metrics;
  const std::vector<NamedParameter>* parameters = nullptr;
  const std::vector<NamedParameter>* optimizer_state = nullptr;  // null: none, then optimizer_kind is kNoOptimizer
  std::string model_folder;      // where config.json is copied from; empty: from nowhere
  std::string tokenizer_folder;  // and the tokenizer's files
};

struct CheckpointPlace {
  int64_t step = 0;
  std::string folder;  // …/step_N
  CheckpointMarker marker;
};

class Checkpoints {
 public:
  Checkpoints(os::FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  std::string step_folder(int64_t step) const;
  // Complete ones by step. An absent folder has none. Fails when of any it cannot be told (check_complete).
  Result<std::vector<CheckpointPlace>> complete() const;
  // Steps with a trainer/ folder that is not complete, and why. Fails as complete() does.
  Result<std::map<int64_t, std::string>> torn() const;

  // Complete when ok. On failure nothing of it is left (as far as the disk allows) and the others are untouched; no_space_left says
  // which one is still good.
  Status save(const CheckpointContents& contents);
  // Deletes what [ckpt] does not keep, never the newest; nothing without a keep_* setting. Gives the steps that went.
  Result<std::vector<int64_t>> clean(const config::CheckpointSettings& settings);
  // What interrupted saves left. Removes nothing when of any checkpoint it cannot be told whether it is complete.
  Result<std::map<int64_t, std::string>> remove_torn();

 private:
  Status check_folder(int64_t step) const;
  Status write(const std::string& trainer_folder, const CheckpointContents& contents);
  // trainer/ of a step, marker first; the step's folder too when nothing else is in it.
  Status remove(int64_t step);
  Result<std::vector<int64_t>> steps() const;

  os::FileSystem& files_;
  std::string folder_;
};

// The marker of a complete checkpoint; checkpoint_incomplete says what is missing, file_not_found that there is no such folder. Any
// other error says that it cannot be told: a file that cannot be read, a newer format, a folder under another step's name.
Result<CheckpointMarker> check_complete(os::FileSystem& files, const std::string& step_folder, int64_t step);

// Which checkpoint [resume] means: its step, its folder, or the latest complete one. checkpoint_incomplete when there is none.
// `resume.dir` is a path on this machine.
Result<CheckpointPlace> find_checkpoint(os::FileSystem& files, const config::ResumeSettings& resume, const Checkpoints& own);

// N of "…/step_N".
std::optional<int64_t> step_of_folder(const std::string& step_folder);

// Compares every file with its hash; data_corrupt names the first that differs.
Status verify_checkpoint(os::FileSystem& files, const CheckpointPlace& place);
// data_corrupt also when it is of another step than the marker.
Result<CheckpointState> load_state(os::FileSystem& files, const CheckpointPlace& place);
Status load_parameters(os::FileSystem& files, const CheckpointPlace& place, const std::vector<NamedParameter>& parameters);
Status load_optimizer(os::FileSystem& files, const CheckpointPlace& place, const CheckpointState& state, Optimizer& optimizer,
                      config::OptimizerKind kind);

// "adamw", "sgd", "sign_sgd", "muon".
std::string optimizer_name(config::OptimizerKind kind);

// What a model has beside its weights and a checkpoint carries along: config.json, read from `config_folder`, and the tokenizer's
// files and chat template, read from `tokenizer_folder` (either empty: none). Calls `take` for each that is there.
Status for_each_side_file(os::FileSystem& files, const std::string& config_folder, const std::string& tokenizer_folder,
                          const std::function<Status(const std::string& name, const std::string& text)>& take);

}  // namespace cairn::trainer
