// The four optimizers of [optim]. An Optimizer belongs to the parameters it was made for and keeps its state beside them, in fp32
// on their device, under names that checkpoints store. One update equals that of torch.optim (AdamW, SGD, Muon) to 1e-6; on CPU
// AdamW is one fused pass over each tensor.
//
// Weight decay applies to every parameter, norms and embeddings included. Not thread-safe; uses torch's threads itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/training_config.h"
#include "trainer/decoder.h"

namespace cairn::trainer {

class Optimizer {
 public:
  // Holds the tensors of `parameters` (not the vector). limit_exceeded when there is no memory for the state.
  static Result<std::unique_ptr<Optimizer>> create(const config::OptimizerSettings& settings,
                                                   const std::vector<NamedParameter>& parameters);
  virtual ~Optimizer() = default;

  // One update with learning rate `lr` from each parameter's gradient times `gradient_scale`; parameters without a gradient stay.
  Status step(double lr, double gradient_scale);

  // Updates made so far, which the bias correction of AdamW depends on.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // "<kind of state>/<parameter>", in a fixed order. A loader writes into these tensors.
  const std::vector<NamedParameter>& state() const { return state_; }

 protected:
  struct Slot {
    at::Tensor parameter;
    std::vector<at::Tensor> state;
  };
  Optimizer() = default;
  // A slot with one zero tensor for each kind.
  Slot make_slot(const NamedParameter& parameter, const std::vector<std::string>& kinds);
  // Called with steps() already counting this update; may throw as torch does.
  virtual void update(double lr, double gradient_scale) = 0;

 private:
  int64_t steps_ = 0;
  std::vector<NamedParameter> state_;
};

}  // namespace cairn::trainer
