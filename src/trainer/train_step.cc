#include "trainer/train_step.h"

#include <array>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trainer/torch_guard.h"

namespace cairn::trainer {
namespace {

// After a request to end, a step may go on this long before it is given up; saving must fit in the grace time, too.
constexpr seconds kFinishStep{20};

Result<double> value_of(const LossSum& loss) {
  return guard_torch("reading the loss", [&]() -> Result<double> { return loss.sum.item<double>(); });
}

}  // namespace

Result<StepSums> TrainStep::accumulate() {
  StepSums sums;
  CAIRN_TRY(bool whole, own_rows(sums));
  std::array<double, 5> values{sums.loss, sums.targets, sums.nan_rows, stop_.requested() ? 1.0 : 0.0, whole ? 0.0 : 1.0};
  CAIRN_CHECK_OK(group_.sum(values));
  sums.loss = values[0];
  sums.targets = values[1];
  sums.nan_rows = values[2];
  sums.stop = values[3] > 0;
  sums.abandoned = values[4] > 0;
  if (!sums.abandoned) CAIRN_CHECK_OK(group_.sum_in_pieces(model_.flat_gradients()));
  return sums;
}

// Row i of the step belongs to process i mod size; the others are skipped, so that all processes stand at the same row afterwards.
Result<bool> TrainStep::own_rows(StepSums& sums) {
  int64_t share = rows_per_step_ / group_.size();
  int64_t to_skip = group_.rank();
  learnt_.clear();
  careful_ = false;
  for (int64_t i = 0; i < share; ++i) {
    if (takes_too_long()) return false;
    if (to_skip > 0) CAIRN_CHECK_OK(rows_.skip(to_skip));
    CAIRN_TRY(dataset::Row row, rows_.next());
    to_skip = group_.size() - 1;
    CAIRN_TRY(bool learnt, learn_from(std::move(row), sums));
    if (!learnt) return false;
  }
  int64_t rest = group_.size() - 1 - group_.rank();
  if (rest > 0) CAIRN_CHECK_OK(rows_.skip(rest));
  return true;
}

// Forward and backward are one call, so a loss that is not finite is seen when the gradients are spoilt. It is rare: then the step
// begins anew without that row, and looks at the loss of every later row first.
Result<bool> TrainStep::learn_from(dataset::Row row, StepSums& sums) {
  if (careful_) {
    c10::NoGradGuard no_grad;
    CAIRN_TRY(LossSum loss, model_.loss_sum(row));
    CAIRN_TRY(double value, value_of(loss));
    if (!std::isfinite(value)) {
      ++sums.nan_rows;
      return true;
    }
  }
  CAIRN_TRY(LossSum loss, model_.loss_and_gradients(row));
  CAIRN_TRY(double value, value_of(loss));
  if (!std::isfinite(value)) {
    ++sums.nan_rows;
    careful_ = true;
    return learn_again();
  }
  sums.loss += value;
  sums.targets += static_cast<double>(loss.count);
  learnt_.push_back(std::move(row));
  return true;
}

bool TrainStep::takes_too_long() const { return stop_.requested() && stop_.age() > kFinishStep; }

Result<bool> TrainStep::learn_again() {
  model_.zero_gradients();
  for (const dataset::Row& row : learnt_) {
    if (takes_too_long()) return false;
    CAIRN_TRY([[maybe_unused]] LossSum loss, model_.loss_and_gradients(row));
  }
  return true;
}

Result<double> TrainStep::gradient_norm(double scale) const {
  return guard_torch("the gradient's norm", [&]() -> Result<double> {
    c10::NoGradGuard no_grad;
    std::vector<at::Tensor> norms;
    for (const NamedParameter& parameter : model_.named_parameters()) {
      if (parameter.tensor.grad().defined()) norms.push_back(at::linalg_vector_norm(parameter.tensor.grad(), 2).to(at::kDouble));
    }
    if (norms.empty()) return 0.0;
    return scale * at::linalg_vector_norm(at::stack(norms), 2).item<double>();
  });
}

}  // namespace cairn::trainer
