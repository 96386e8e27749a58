// The optimizers behind Optimizer::create; included by their own files only. Constructors may throw as torch does.
#pragma once

#include "trainer/optimizer.h"

namespace cairn::trainer {

class AdamW final : public Optimizer {
 public:
  AdamW(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters);

 private:
  void update(double lr, double gradient_scale) override;
  config::OptimizerSettings settings_;
  std::vector<Slot> slots_;
};

// One AdamW update of one parameter: `state` holds exp_avg and exp_avg_sq, `steps` counts this update.
void adamw_update(const config::OptimizerSettings& settings, at::Tensor& parameter, std::vector<at::Tensor>& state, int64_t steps,
                  double lr, double gradient_scale);

class Sgd final : public Optimizer {
 public:
  Sgd(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters);

 private:
  void update(double lr, double gradient_scale) override;
  config::OptimizerSettings settings_;
  std::vector<Slot> slots_;
};

class SignSgd final : public Optimizer {
 public:
  SignSgd(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters);

 private:
  void update(double lr, double gradient_scale) override;
  config::OptimizerSettings settings_;
  std::vector<Slot> slots_;
};

// Matrices except embedding and lm_head by Muon, the rest by AdamW.
class Muon final : public Optimizer {
 public:
  Muon(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters);

 private:
  void update(double lr, double gradient_scale) override;
  config::OptimizerSettings settings_;
  std::vector<Slot> matrices_;
  std::vector<Slot> others_;
};

}  // namespace cairn::trainer
