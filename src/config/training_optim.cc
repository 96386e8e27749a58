#include "config/training_sections.h"

namespace cairn::config {
namespace {

constexpr double kLearningRateMax = 1000;
constexpr double kWeightDecayMax = 1000;
constexpr double kNormMin = 1e-12;
constexpr double kNormMax = 1e12;
constexpr double kBelowOne = 0.99999999999;

// Whether `key` is a setting of the optimizer that was chosen; complains when it stands there and is not.
bool belongs(TomlSection section, const std::string& key, bool here, const std::string& type) {
  if (!here) refuse_foreign(section, {key}, type);
  return here;
}

}  // namespace

void read_optimizer(TomlSection section, OptimizerSettings& optim) {
  std::string type = "adamw";
  section.choice("type", type, {"adamw", "sgd", "muon", "sign_sgd"});
  bool adamw = type == "adamw", sgd = type == "sgd", muon = type == "muon";
  optim.kind = adamw ? OptimizerKind::kAdamW
               : sgd ? OptimizerKind::kSgd
               : muon ? OptimizerKind::kMuon
                      : OptimizerKind::kSignSgd;
  if (muon) optim.betas2 = 0.95;
  section.real("lr", optim.lr, 0, kLearningRateMax);
  section.real("weight_decay", optim.weight_decay, 0, kWeightDecayMax);
  double norm = 0;
  std::string none;
  if (!section.is_text("max_norm")) {
    if (section.real("max_norm", norm, kNormMin, kNormMax)) optim.max_norm = norm;
  } else if (section.choice("max_norm", none, {"none", "None"})) {
    optim.max_norm.reset();
  }
  if (belongs(section, "betas1", adamw || muon, type)) section.real("betas1", optim.betas1, 0, kBelowOne);
  if (belongs(section, "betas2", adamw || muon, type)) section.real("betas2", optim.betas2, 0, kBelowOne);
  if (belongs(section, "momentum", sgd, type)) section.real("momentum", optim.momentum, 0, kBelowOne);
  if (belongs(section, "nesterov", sgd, type)) section.boolean("nesterov", optim.nesterov);
  if (belongs(section, "mu", muon, type)) section.real("mu", optim.mu, 0, kBelowOne);
}

void read_scheduler(TomlSection section, TrainingMode mode, SchedulerSettings& scheduler) {
  bool pretrain = mode == TrainingMode::kPretrain;
  std::string type = pretrain ? "linear" : "constant";
  section.choice("type", type, {"constant", "linear", "cosine"});
  scheduler.kind = type == "linear" ? SchedulerKind::kLinear : type == "cosine" ? SchedulerKind::kCosine : SchedulerKind::kConstant;
  scheduler.decay_steps = pretrain ? 0 : 10;
  if (scheduler.kind == SchedulerKind::kConstant) {
    refuse_foreign(section, {"warmup_steps", "decay_steps", "min_lr"}, type);
    return;
  }
  section.number("warmup_steps", scheduler.warmup_steps, 0, kStepsMax);
  section.real("min_lr", scheduler.min_lr, 0, kLearningRateMax);
  if (belongs(section, "decay_steps", scheduler.kind == SchedulerKind::kLinear, type)) {
    section.number("decay_steps", scheduler.decay_steps, 0, kStepsMax);
  }
}

}  // namespace cairn::config
