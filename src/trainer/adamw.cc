#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "trainer/adamw_kernel.h"
#include "trainer/optimizer_kinds.h"

namespace cairn::trainer {
namespace {

constexpr int64_t kElementsPerThreadMin = 16 * 1024;

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

}  // namespace

void adamw_update(const config::OptimizerSettings& settings, at::Tensor& parameter, std::vector<at::Tensor>& state, int64_t steps,
                  double lr, double gradient_scale) {
  if (!parameter.grad().defined()) return;
  double correction1 = 1 - std::pow(settings.betas1, static_cast<double>(steps));
  double correction2 = 1 - std::pow(settings.betas2, static_cast<double>(steps));
  at::Tensor gradient = parameter.grad();
  at::Tensor& moment1 = state[0];
  at::Tensor& moment2 = state[1];
  if (is_plain(parameter) && is_plain(moment1) && is_plain(moment2) && gradient.device().is_cpu()) {
    at::Tensor plain = gradient.to(at::kFloat).contiguous();
    AdamWPass pass;
    pass.gradient_scale = static_cast<float>(gradient_scale);
    pass.decay = static_cast<float>(1 - lr * settings.weight_decay);
    pass.beta1 = static_cast<float>(settings.betas1);
    pass.beta2 = static_cast<float>(settings.betas2);
    pass.step_size = static_cast<float>(lr / correction1);
    pass.root_correction = static_cast<float>(std::sqrt(correction2));
    pass.eps = static_cast<float>(settings.eps);
    const float* g = plain.data_ptr<float>();
    float* w = parameter.data_ptr<float>();
    float* m = moment1.data_ptr<float>();
    float* v = moment2.data_ptr<float>();
    at::parallel_for(0, parameter.numel(), kElementsPerThreadMin, [&](int64_t begin, int64_t end) {
      adamw_pass(pass, g + begin, w + begin, m + begin, v + begin, end - begin);
    });
    return;
  }
  at::Tensor scaled = gradient * gradient_scale;
  parameter.mul_(1 - lr * settings.weight_decay);
  moment1.lerp_(scaled, 1 - settings.betas1);
  moment2.mul_(settings.betas2).addcmul_(scaled, scaled, 1 - settings.betas2);
  at::Tensor denominator = (moment2.sqrt() / std::sqrt(correction2)).add_(settings.eps);
  parameter.addcdiv_(moment1, denominator, -lr / correction1);
}

AdamW::AdamW(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters) : settings_(settings) {
  for (const NamedParameter& parameter : parameters) slots_.push_back(make_slot(parameter, {"exp_avg", "exp_avg_sq"}));
}

void AdamW::update(double lr, double gradient_scale) {
  for (Slot& slot : slots_) adamw_update(settings_, slot.parameter, slot.state, steps(), lr, gradient_scale);
}

}  // namespace cairn::trainer
