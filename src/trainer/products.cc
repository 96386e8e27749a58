#include "trainer/products.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trainer/cpu_ops.h"

namespace cairn::trainer {

void add_product(const at::Tensor& grad, const at::Tensor& dy, const at::Tensor& x) {
  at::NoGradGuard no_grad;
  if (dy.scalar_type() == at::kFloat) {
    at::Tensor to = grad;
    to.addmm_(dy.t(), x);
  } else {
    at::Tensor product = at::mm(dy.t(), x);
    if (grad.device().is_cpu()) {
      cpu_accumulate(grad, product);
    } else {
      grad.add_(product);
    }
  }
}

void add_row_sum(const at::Tensor& grad, const at::Tensor& dy) {
  at::NoGradGuard no_grad;
  grad.add_(dy.sum({0}, false, at::kFloat));
}

void add_rows(const at::Tensor& grad, const at::Tensor& ids, const at::Tensor& rows) {
  at::NoGradGuard no_grad;
  if (grad.device().is_cpu()) {
    cpu_add_rows(grad, ids, rows);
  } else {
    at::Tensor to = grad;
    to.index_put_({ids}, rows, true);  // sorts: the same result every time, unlike index_add_
  }
}

double cross_entropy_rows(at::Tensor& logits, const at::Tensor& targets, double scale) {
  at::NoGradGuard no_grad;
  if (logits.device().is_cpu()) return cpu_cross_entropy(logits, targets, scale);
  at::Tensor log_probabilities = at::log_softmax(logits, -1, at::kFloat);
  at::Tensor chosen = targets.unsqueeze(1);
  double loss = -log_probabilities.gather(1, chosen).sum(at::kDouble).item<double>();
  if (scale == 0) return loss;
  at::Tensor gradient = log_probabilities.exp_();
  gradient.scatter_add_(1, chosen, at::full({1, 1}, -1.0, gradient.options()).expand_as(chosen));
  logits.copy_(gradient.mul_(scale));
  return loss;
}

}  // namespace cairn::trainer
