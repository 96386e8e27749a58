#include <ATen/ATen.h>

#include "trainer/optimizer_kinds.h"

namespace cairn::trainer {

SignSgd::SignSgd(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters) : settings_(settings) {
  for (const NamedParameter& parameter : parameters) slots_.push_back(make_slot(parameter, {}));
}

void SignSgd::update(double lr, double) {
  for (Slot& slot : slots_) {
    if (!slot.parameter.grad().defined()) continue;
    slot.parameter.mul_(1 - lr * settings_.weight_decay);
    slot.parameter.add_(slot.parameter.grad().sign(), -lr);
  }
}

}  // namespace cairn::trainer
