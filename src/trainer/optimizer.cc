#include "trainer/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trainer/optimizer_kinds.h"
#include "trainer/torch_guard.h"

namespace cairn::trainer {

Result<std::unique_ptr<Optimizer>> Optimizer::create(const config::OptimizerSettings& settings,
                                                     const std::vector<NamedParameter>& parameters) {
  using config::OptimizerKind;
  std::unique_ptr<Optimizer> optimizer;
  CAIRN_CHECK_OK(guard_torch("making the optimizer", [&]() -> Status {
    switch (settings.kind) {
      case OptimizerKind::kAdamW: optimizer = std::make_unique<AdamW>(settings, parameters); break;
      case OptimizerKind::kSgd: optimizer = std::make_unique<Sgd>(settings, parameters); break;
      case OptimizerKind::kSignSgd: optimizer = std::make_unique<SignSgd>(settings, parameters); break;
      case OptimizerKind::kMuon: optimizer = std::make_unique<Muon>(settings, parameters); break;
    }
    return ok();
  }));
  return optimizer;
}

Status Optimizer::step(double lr, double gradient_scale) {
  ++steps_;
  return guard_torch("the optimizer's step", [&]() -> Status {
    c10::NoGradGuard no_grad;
    update(lr, gradient_scale);
    return ok();
  });
}

Optimizer::Slot Optimizer::make_slot(const NamedParameter& parameter, const std::vector<std::string>& kinds) {
  c10::NoGradGuard no_grad;
  Slot slot{parameter.tensor, {}};
  for (const std::string& kind : kinds) {
    slot.state.push_back(at::zeros_like(parameter.tensor));
    state_.push_back(NamedParameter{kind + "/" + parameter.name, slot.state.back()});
  }
  return slot;
}

}  // namespace cairn::trainer
