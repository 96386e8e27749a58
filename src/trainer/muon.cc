#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "trainer/optimizer_kinds.h"

namespace cairn::trainer {
namespace {

constexpr int kNewtonSchulzSteps = 5;
constexpr double kNewtonSchulzEps = 1e-7;

// A matrix near `matrix` with all singular values near 1. In fp32 on CPU; in bf16 on a GPU, where that is much faster and, as
// Muon's authors found, exact enough.
at::Tensor orthogonalized(const at::Tensor& matrix) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  at::Tensor x = matrix.device().is_cpu() ? matrix.clone() : matrix.to(at::kBFloat16);
  bool tall = x.size(0) > x.size(1);
  if (tall) x = x.t();
  x = x / x.norm().clamp_min(kNewtonSchulzEps);
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    at::Tensor gram = x.mm(x.t());
    at::Tensor update = at::addmm(gram, gram, gram, kB, kC);
    x = at::addmm(x, update, x, kA, 1);
  }
  return tall ? x.t() : x;
}

bool is_hidden_matrix(const NamedParameter& parameter) {
  return parameter.tensor.dim() == 2 && parameter.name.find("embed_tokens") == std::string::npos &&
         parameter.name.find("lm_head") == std::string::npos;
}

}  // namespace

Muon::Muon(const config::OptimizerSettings& settings, const std::vector<NamedParameter>& parameters) : settings_(settings) {
  for (const NamedParameter& parameter : parameters) {
    if (is_hidden_matrix(parameter)) matrices_.push_back(make_slot(parameter, {"momentum"}));
    else others_.push_back(make_slot(parameter, {"exp_avg", "exp_avg_sq"}));
  }
}

void Muon::update(double lr, double gradient_scale) {
  for (Slot& slot : matrices_) {
    if (!slot.parameter.grad().defined()) continue;
    at::Tensor gradient = slot.parameter.grad() * gradient_scale;
    at::Tensor& momentum = slot.state[0];
    momentum.lerp_(gradient, 1 - settings_.mu);
    at::Tensor direction = orthogonalized(gradient.lerp(momentum, settings_.mu));
    // "rms_norm": an update of about the size that AdamW's would have.
    double size = static_cast<double>(std::max(slot.parameter.size(0), slot.parameter.size(1)));
    slot.parameter.mul_(1 - lr * settings_.weight_decay);
    slot.parameter.add_(direction.to(slot.parameter.scalar_type()), -lr * 0.2 * std::sqrt(size));
  }
  for (Slot& slot : others_) adamw_update(settings_, slot.parameter, slot.state, steps(), lr, gradient_scale);
}

}  // namespace cairn::trainer
