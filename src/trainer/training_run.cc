#include "trainer/training_run.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include "config/training_difference.h"
#include "trainer/hashing_files.h"
#include "trainer/run_folder.h"
#include "trainer/runtime.h"
#include "trainer/torch_guard.h"
#include "trainer/training_data.h"
#include "trainer/training_loop.h"
#include "trainer/training_model.h"
#include "trainer/volume_paths.h"

namespace cairn::trainer {
namespace {

// What is found out and checked before anything large is made.
struct Prepared {
  std::string model_folder;      // empty: the smoke model
  std::string tokenizer_folder;
  DecoderSpec spec;
  std::optional<CheckpointPlace> resume;
  std::optional<CheckpointState> resume_state;
  TrainingRows rows;
};

Result<std::optional<CheckpointPlace>> checkpoint_to_resume(const RunPlan& plan, Checkpoints& checkpoints) {
  os::FileSystem& files = os::posix_file_system();
  if (plan.config.resume) {
    config::ResumeSettings resume = *plan.config.resume;
    if (!resume.dir.empty()) {
      CAIRN_TRY(resume.dir, path_on_volume(plan.volume_root, resume.dir));
    }
    CAIRN_TRY(CheckpointPlace place, find_checkpoint(files, resume, checkpoints));
    return std::optional<CheckpointPlace>(std::move(place));
  }
  CAIRN_TRY(std::vector<CheckpointPlace> earlier, checkpoints.complete());
  if (!earlier.empty()) {
    return Error(Code::kFileExists, fmt::format("{} holds checkpoints up to step {} of an earlier run", plan.output_dir, earlier.back().step),
                 "add [resume] to go on from there, or choose another output folder");
  }
  return std::optional<CheckpointPlace>();
}

// What changes the results without changing a shape.
Status check_same_computation(const CheckpointPlace& place, const DecoderSpec& saved, const DecoderSpec& spec) {
  auto differs = [&](std::string_view key, auto theirs, auto ours) -> Status {
    if (theirs == ours) return ok();
    return Error(Code::kCheckpointMismatch, fmt::format("{} is of a model with {} = {}, this config's has {}", place.folder, key, theirs, ours),
                 "give config.json the value the checkpoint was trained with");
  };
  CAIRN_CHECK_OK(differs("num_attention_heads", saved.num_heads, spec.num_heads));
  CAIRN_CHECK_OK(differs("head_dim", saved.head_dim, spec.head_dim));
  CAIRN_CHECK_OK(differs("rope_theta", saved.rope_theta, spec.rope_theta));
  return differs("rms_norm_eps", saved.rms_norm_eps, spec.rms_norm_eps);
}

Status check_same_model(const CheckpointPlace& place, const CheckpointState& state, const DecoderSpec& spec) {
  CAIRN_TRY(DecoderSpec saved, parse_decoder_spec(state.model_config, place.folder + "/trainer/state.json"));
  std::vector<ParameterSpec> theirs = parameter_specs(saved);
  std::vector<ParameterSpec> ours = parameter_specs(spec);
  for (size_t i = 0; i < std::min(theirs.size(), ours.size()); ++i) {
    if (theirs[i].name == ours[i].name && theirs[i].shape == ours[i].shape) continue;
    return Error(Code::kCheckpointMismatch,
                 fmt::format("{} is of another model: '{}' [{}] against this config's '{}' [{}]", place.folder, theirs[i].name,
                             fmt::join(theirs[i].shape, ", "), ours[i].name, fmt::join(ours[i].shape, ", ")),
                 "name the model the checkpoint was trained from");
  }
  if (theirs.size() == ours.size()) return check_same_computation(place, saved, spec);
  return Error(Code::kCheckpointMismatch, fmt::format("{} is of a model with {} tensors, this config's has {}", place.folder,
                                                      theirs.size(), ours.size()),
               "name the model the checkpoint was trained from");
}

config::CheckpointSettings loading(const RunPlan& plan) { return plan.config.ckpt.value_or(config::CheckpointSettings{}); }

// Retention and `latest` go by the number of the step: a run that begins before checkpoints of its own folder would lose the new
// ones and be resumed from the old.
Status check_nothing_later(const RunPlan& plan, const Checkpoints& checkpoints, int64_t start) {
  CAIRN_TRY(std::vector<CheckpointPlace> own, checkpoints.complete());
  if (own.empty() || own.back().step <= start) return ok();
  return Error(Code::kFileExists, fmt::format("{} holds checkpoints up to step {}, and this run would begin at step {}", plan.output_dir,
                                              own.back().step, start + 1),
               "delete the later ones, or choose another output folder and name the checkpoint by resume.dir");
}

Result<Prepared> prepare(const RunPlan& plan, Checkpoints& checkpoints, RunLog& log) {
  Prepared prepared;
  if (!plan.config.model.name.empty()) {
    CAIRN_TRY(prepared.model_folder, path_on_volume(plan.volume_root, plan.config.model.name));
  }
  CAIRN_TRY(prepared.tokenizer_folder, tokenizer_folder(plan.config, plan.volume_root));
  CAIRN_TRY(prepared.spec, training_spec(plan.config, prepared.model_folder));
  CAIRN_TRY(prepared.resume, checkpoint_to_resume(plan, checkpoints));
  if (prepared.resume) {
    CAIRN_TRY(CheckpointState state, load_state(os::posix_file_system(), *prepared.resume));
    CAIRN_CHECK_OK(check_same_model(*prepared.resume, state, prepared.spec));
    CAIRN_CHECK_OK(check_nothing_later(plan, checkpoints, loading(plan).skip_progress ? 0 : state.step));
    prepared.resume_state = std::move(state);
  }
  CAIRN_TRY(prepared.rows, open_rows(plan.config, prepared.spec, plan.volume_root,
                                     [&log](const std::string& text) { log.warning(text); }));
  bool has_cursor = prepared.resume_state && !prepared.resume_state->cursor.empty();
  if (has_cursor && !loading(plan).skip_dataloader) {
    Status restored = prepared.rows.train->restore(prepared.resume_state->cursor);
    if (!restored) {
      return std::move(restored).error().with_hint("resume with the same data settings, or set ckpt.skip_dataloader = true");
    }
  }
  return prepared;
}

// Weights and optimizer of the checkpoint, and where the run stands after it.
Result<TrainingState> resume(const RunPlan& plan, const Prepared& prepared, bool verify, Decoder& model, Optimizer& optimizer) {
  os::FileSystem& files = os::posix_file_system();
  const CheckpointPlace& place = *prepared.resume;
  const CheckpointState& saved = *prepared.resume_state;
  config::CheckpointSettings skip = loading(plan);
  if (verify) CAIRN_CHECK_OK(verify_checkpoint(files, place));
  CAIRN_CHECK_OK(load_parameters(files, place, model.named_parameters()));
  model.parameters_changed();
  if (!skip.skip_optimizer) CAIRN_CHECK_OK(load_optimizer(files, place, saved, optimizer, plan.config.optim.kind));
  TrainingState state;
  if (!skip.skip_progress) {
    state.step = saved.step;
    state.total_tokens = saved.total_tokens;
    state.total_samples = saved.total_samples;
    state.last_metrics = place.marker.metrics;
  }
  if (!skip.skip_scheduler) state.schedule_index = saved.schedule_index;
  return state;
}

// A schedule that starts anew decays over what is left of the run.
std::optional<int64_t> schedule_steps(const RunPlan& plan, const TrainingState& state) {
  if (!plan.config.max_steps) return std::nullopt;
  bool anew = loading(plan).skip_scheduler;
  return anew ? std::max<int64_t>(1, *plan.config.max_steps - state.step) : *plan.config.max_steps;
}

Result<RunLog> open_log(const RunPlan& plan, const RunFolder& folder, Clock& clock) {
  bool first = plan.membership.rank == 0;
  RunLog::Settings settings;
  settings.least = parse_line_level(plan.config.monitors.level);
  settings.json = plan.config.monitors.json_logging;
  settings.to_stdout = first;
  if (!first) settings.least = LineLevel::kError;
  if (first) settings.file = folder.attempt_logs + "/trainer.log";
  return RunLog::open(settings, clock);
}

bool has_other_tokenizer(const Prepared& prepared) {
  if (prepared.tokenizer_folder.empty()) return false;
  for (const CheckpointFile& file : prepared.resume->marker.files) {
    if (file.path != "tokenizer/tokenizer.json") continue;
    auto digest = hash_file(os::posix_file_system(), prepared.tokenizer_folder + "/tokenizer.json");
    return digest && digest->hex() != file.sha256;
  }
  return false;
}

// What is to be said about a checkpoint of another config; an imported model has none.
std::optional<std::string> config_difference(const CheckpointState& saved, const config::TrainingConfig& config) {
  constexpr size_t kNamedMax = 5;
  if (saved.config_sha256.empty() || saved.config_sha256 == config_fingerprint(config)) return std::nullopt;
  std::string text = "the config is not the one that the checkpoint was made with";
  if (saved.config.empty()) return text;
  std::vector<std::string> keys = config::config_differences(saved.config, recorded_config(config));
  if (keys.empty()) return text + ": env_vars differ";
  size_t named = std::min(keys.size(), kNamedMax);
  text += fmt::format(": {}", fmt::join(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(named), "; "));
  if (keys.size() > named) text += fmt::format("; and {} more", keys.size() - named);
  return text;
}

void describe(RunLog& log, const RunPlan& plan, const Prepared& prepared, const RuntimeFacts& facts, const DeviceFacts& device,
              bool bfloat16) {
  const config::TrainingConfig& config = plan.config;
  for (const std::string& warning : facts.warnings) log.warning(warning);
  for (const std::string& warning : prepared.rows.warnings) log.warning(warning);
  log.info(fmt::format("Device {}, {} thread{}, libtorch {}, computing in {}", device.text(), facts.threads,
                       facts.threads == 1 ? "" : "s", facts.torch_version, bfloat16 ? "bf16" : "fp32"));
  log.info(fmt::format("Model with {:.2f} M parameters, {} layers, vocabulary {}",
                       static_cast<double>(parameter_count(prepared.spec)) / 1e6, prepared.spec.num_layers, prepared.spec.vocab_size));
  log.info(fmt::format("{} rows of {} tokens a step in {} process{}, {} steps", rows_per_step(config),
                       config.data.seq_len * config.data.micro_batch_size, plan.membership.size,
                       plan.membership.size == 1 ? "" : "es", config.max_steps ? std::to_string(*config.max_steps) : "endless"));
  if (!prepared.resume) return;
  log.info(fmt::format("Resuming from {}", prepared.resume->folder));
  if (auto difference = config_difference(*prepared.resume_state, config)) log.warning(*difference);
  if (has_other_tokenizer(prepared)) log.warning("the tokenizer is not the one that the checkpoint was made with");
}

// Only the first process touches the run folder; the others learn its names.
Result<RunFolder> run_folder(const RunPlan& plan) {
  if (plan.membership.rank == 0) return prepare_run_folder(plan.output_dir);
  RunFolder folder;
  folder.root = plan.output_dir;
  return folder;
}

Status seed_torch(uint64_t seed, const std::optional<CheckpointState>& saved) {
  return guard_torch("seeding torch", [&]() -> Status {
    at::manual_seed(seed);
    if (saved && !saved->torch_generator.empty()) {
      at::Tensor state = at::empty({static_cast<int64_t>(saved->torch_generator.size())}, at::kByte);
      std::copy(saved->torch_generator.begin(), saved->torch_generator.end(), state.data_ptr<uint8_t>());
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      generator.set_state(state);
    }
    return ok();
  });
}

// Weights, optimizer and place in the run: of the checkpoint, or those of a beginning.
Result<TrainingState> begin(const RunPlan& plan, const Prepared& prepared, ProcessGroup& group, Decoder& model, Optimizer& optimizer) {
  CAIRN_CHECK_OK(seed_torch(plan.config.seed, prepared.resume_state));
  TrainingState state;
  if (prepared.resume) {
    CAIRN_TRY(state, resume(plan, prepared, group.is_first(), model, optimizer));
  } else {
    CAIRN_CHECK_OK(first_weights(plan.config, prepared.model_folder, model));
  }
  CAIRN_CHECK_OK(group.copy_from_first_in_pieces(model.flat_parameters()));
  model.parameters_changed();
  return state;
}

Result<int> run_logged(const RunPlan& plan, const RunFolder& folder, RunLog& log, StopRequest& stop, Clock& clock) {
  RuntimeSettings runtime;
  runtime.threads = plan.threads;
  runtime.processes = plan.membership.size;
  RuntimeFacts facts = set_up_runtime(runtime);
  CAIRN_TRY(c10::Device device, training_device(look_for_gpus(plan.config.gpu_type), plan.membership.rank, plan.membership.size));
  c10::DeviceGuard on_device(device);

  Checkpoints checkpoints(os::posix_file_system(), folder.checkpoints());
  CAIRN_TRY(Prepared prepared, prepare(plan, checkpoints, log));
  CAIRN_TRY(bool bfloat16, computes_bfloat16(plan.config, device));
  CAIRN_TRY(std::unique_ptr<ProcessGroup> group, ProcessGroup::join(plan.membership, device));
  if (group->is_first()) {
    CAIRN_CHECK_OK(save_resolved_config(folder, plan.config));
    CAIRN_TRY(auto torn, checkpoints.remove_torn());
    for (const auto& [step, why] : torn) log.warning(fmt::format("{}; it was removed", why));
  }
  DeviceFacts device_facts = group->is_first() ? DeviceFacts(device) : DeviceFacts();
  describe(log, plan, prepared, facts, device_facts, bfloat16);

  CAIRN_TRY(std::unique_ptr<Decoder> model, make_model(plan.config, prepared.spec, device, bfloat16));
  CAIRN_TRY(std::unique_ptr<Optimizer> optimizer, Optimizer::create(plan.config.optim, model->named_parameters()));
  CAIRN_TRY(TrainingState state, begin(plan, prepared, *group, *model, *optimizer));
  Metrics metrics(clock, log);
  if (group->is_first()) {
    CAIRN_TRY(metrics, Metrics::open(folder.monitors(), plan.config.monitors, clock, log));
  }
  std::optional<Validation> validation;
  if (prepared.rows.validation) validation.emplace(*prepared.rows.validation, prepared.rows.validation_rows_max);

  LoopParts parts{plan.config, *model, *optimizer, *prepared.rows.train, validation ? &*validation : nullptr, *group, checkpoints,
                  metrics, log, stop, clock, device_facts, prepared.model_folder, prepared.tokenizer_folder};
  std::optional<int64_t> total = schedule_steps(plan, state);
  if (plan.config.max_steps && state.step >= *plan.config.max_steps) {
    log.warning(fmt::format("the checkpoint is of step {} and max_steps is {}: there is nothing left to train", state.step,
                            *plan.config.max_steps));
  }
  TrainingLoop loop(parts, std::move(state), total);
  CAIRN_TRY(LoopEnd end, loop.run());
  if (end == LoopEnd::kStopped) return kExitStopped;
  log.success(plan.config.mode == config::TrainingMode::kSft ? "SFT trainer finished!" : "Pretrain trainer finished!");
  return 0;
}

}  // namespace

Result<int> run_training(const RunPlan& plan, StopRequest& stop, Clock& clock) {
  CAIRN_TRY(RunFolder folder, run_folder(plan));
  CAIRN_TRY(RunLog log, open_log(plan, folder, clock));
  Result<int> code = run_logged(plan, folder, log, stop, clock);
  if (!code) log.error_to_file(code.error().to_string());
  return code;
}

}  // namespace cairn::trainer
