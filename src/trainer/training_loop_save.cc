#include <cmath>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <fmt/format.h>

#include "os/disk.h"
#include "trainer/torch_guard.h"
#include "trainer/training_loop.h"

namespace cairn::trainer {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

std::vector<uint8_t> generator_state() {
  auto bytes = guard_torch("reading the random generator", []() -> Result<std::vector<uint8_t>> {
    at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    const uint8_t* data = state.data_ptr<uint8_t>();
    return std::vector<uint8_t>(data, data + state.numel());
  });
  // Nothing in training draws from it so far: a state that cannot be read is one that is not needed.
  return std::move(bytes).value_or(std::vector<uint8_t>());
}

MetricRow disk_row(const std::string& folder) {
  auto space = os::disk_space(folder);
  if (!space || space->total_bytes == 0) return {};
  double total = static_cast<double>(space->total_bytes);
  double free = static_cast<double>(space->available_bytes);
  return {{"system/ckpt_disk_free_gib", free / kGib},
          {"system/ckpt_disk_used_gib", (total - free) / kGib},
          {"system/ckpt_disk_total_gib", total / kGib},
          {"system/ckpt_disk_free_ratio", free / total}};
}

}  // namespace

// `last`: nothing follows. Without [ckpt] only a stopped run is saved: it is to be resumed.
Status TrainingLoop::save_where_due(bool last) {
  if (saved_step_ == state_.step) return ok();
  bool due = last ? config_.ckpt || !at_end() : config_.ckpt && config_.ckpt->interval && state_.step % *config_.ckpt->interval == 0;
  return due ? save() : ok();
}

// A last update may have gone too far without any later loss to show it. All processes have the same weights.
Status TrainingLoop::check_weights() const {
  CAIRN_TRY(double largest, guard_torch("looking at the weights", [&]() -> Result<double> {
    return at::linalg_vector_norm(parts_.model.flat_parameters(), INFINITY).item<double>();
  }));
  if (std::isfinite(largest)) return ok();
  return diverged(fmt::format("the weights after step {} are not finite and were not saved", state_.step));
}

Status TrainingLoop::save() {
  CAIRN_CHECK_OK(check_weights());
  Duration start = parts_.clock.monotonic();
  Status mine;
  if (parts_.group.is_first()) mine = parts_.checkpoints.save(contents());
  CAIRN_CHECK_OK(parts_.group.agree(mine, "saving a checkpoint"));
  saved_step_ = state_.step;
  if (!parts_.group.is_first()) return ok();

  std::string folder = parts_.checkpoints.step_folder(state_.step);
  double took = since(start);
  parts_.log.info(fmt::format("Saved checkpoint {} in {}", folder, short_time(took)));
  parts_.metrics.write(state_.step, {{"time/save_ckpt", took}});
  parts_.metrics.write(state_.step, disk_row(folder));
  if (!config_.ckpt) return ok();
  auto gone = parts_.checkpoints.clean(*config_.ckpt);
  if (!gone) {
    // The new one is complete: what could not be deleted costs room, not the run.
    parts_.log.warning(fmt::format("old checkpoints were not deleted: {}", gone.error().message()));
    return ok();
  }
  for (int64_t step : *gone) parts_.log.debug(fmt::format("Deleted checkpoint step_{}", step));
  return ok();
}

CheckpointContents TrainingLoop::contents() const {
  CheckpointContents contents;
  contents.state.mode = config_.mode == config::TrainingMode::kSft ? "sft" : "pretrain";
  contents.state.step = state_.step;
  contents.state.total_tokens = state_.total_tokens;
  contents.state.total_samples = state_.total_samples;
  contents.state.schedule_index = state_.schedule_index;
  contents.state.optimizer_kind = optimizer_name(config_.optim.kind);
  contents.state.optimizer_steps = parts_.optimizer.steps();
  contents.state.cursor = parts_.rows.cursor();
  contents.state.torch_generator = generator_state();
  contents.state.config_sha256 = config_sha256_;
  contents.state.config = recorded_config_;
  contents.state.model_config = parts_.model.spec().json;
  contents.metrics = state_.last_metrics;
  contents.parameters = &parts_.model.named_parameters();
  contents.optimizer_state = &parts_.optimizer.state();
  contents.model_folder = parts_.model_folder;
  contents.tokenizer_folder = parts_.tokenizer_folder;
  return contents;
}

}  // namespace cairn::trainer
