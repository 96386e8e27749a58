#include <ATen/ATen.h>

#include "trainer/optimizer_kinds.h"

namespace cairn::trainer {

Sgd::Sgd(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters) : settings_(settings) {
  std::vector<std::string> kinds;
  if (settings.momentum != 0) kinds.push_back("momentum");
  for (const NamedParameter& parameter : parameters) slots_.push_back(make_slot(parameter, kinds));
}

void Sgd::update(double lr, double gradient_scale) {
  for (Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    at::Tensor direction = slot.parameter.grad() * gradient_scale;
    // As torch.optim.SGD: the decay is part of the gradient, unlike in the other three.
    if (settings_.weight_decay != 0) direction.add_(slot.parameter, settings_.weight_decay);
    if (settings_.momentum != 0) {
      at::Tensor& momentum = slot.state[0];
      momentum.mul_(settings_.momentum).add_(direction);
      if (settings_.nesterov) direction.add_(momentum, settings_.momentum);
      else direction = momentum;
    }
    slot.parameter.add_(direction, -lr);
  }
}

}  // namespace cairn::trainer
