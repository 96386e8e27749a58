#include "trainer/validation.h"

#include <array>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trainer/torch_guard.h"

namespace cairn::trainer {

Result<std::optional<double>> Validation::mean_loss(Decoder& model, ProcessGroup& group, const StopRequest& stop) {
  c10::NoGradGuard no_grad;
  CAIRN_CHECK_OK(rows_.restore(start_));
  int64_t epoch = rows_.progress().epoch;
  std::array<double, 3> sums{};  // nats, targets, processes that were asked to end
  for (int64_t i = 0; rows_.progress().epoch == epoch && (rows_max_ == 0 || i < rows_max_); ++i) {
    if (stop.requested()) {
      sums[2] = 1;
      break;
    }
    if (i % group.size() != group.rank()) {
      CAIRN_CHECK_OK(rows_.skip(1));
      continue;
    }
    CAIRN_TRY(dataset::Row row, rows_.next());
    CAIRN_TRY(LossSum loss, model.loss_sum(row));
    CAIRN_TRY(double nats, guard_torch("validation", [&]() -> Result<double> { return loss.sum.item<double>(); }));
    sums[0] += nats;
    sums[1] += static_cast<double>(loss.count);
  }
  CAIRN_CHECK_OK(group.sum(sums));
  if (sums[2] > 0) return std::optional<double>();
  if (sums[1] == 0) return Error(Code::kDataInvalid, "the validation data has no token to score", "check [val.data]");
  return std::optional<double>(sums[0] / sums[1]);
}

}  // namespace cairn::trainer
