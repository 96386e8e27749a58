// One optimizer step's gradients: forward and backward over the rows of the batch that belong to this process, then the sums over
// all processes. Gradients stay those of the summed loss; whoever uses them scales by 1 / targets.
//
// A row whose loss is not finite is left out of loss, gradients and count, and counted. Gradients must be zero before a step.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "dataset/row_source.h"
#include "trainer/decoder.h"
#include "trainer/process_group.h"
#include "trainer/stop_request.h"

namespace cairn::trainer {

struct StepSums {  // over all processes
  double loss = 0;     // nats
  double targets = 0;  // tokens that count
  double nan_rows = 0;
  bool stop = false;       // a process was asked to end: all end after this step
  bool abandoned = false;  // the step would have taken too long after such a request: nothing of it is to be used

  std::optional<double> mean_loss() const { return targets > 0 ? std::optional(loss / targets) : std::nullopt; }
};

class TrainStep {
 public:
  // `rows_per_step` rows over all processes. REQUIRES: divisible by the number of processes.
  TrainStep(Decoder& model, dataset::RowSource& rows, ProcessGroup& group, const StopRequest& stop, int64_t rows_per_step)
      : model_(model), rows_(rows), group_(group), stop_(stop), rows_per_step_(rows_per_step) {}

  // Reads the step's rows and leaves the summed gradients in the parameters. After `abandoned` the rows are used up all the same.
  Result<StepSums> accumulate();
  // The 2-norm of all gradients times `scale`.
  Result<double> gradient_norm(double scale) const;

 private:
  // These add to the sums and say false when the step is abandoned. They look before each row; a row itself is never cut short.
  Result<bool> own_rows(StepSums& sums);
  Result<bool> learn_from(dataset::Row row, StepSums& sums);
  // After a row has spoilt the gradients: those of the rows before it once more.
  Result<bool> learn_again();
  bool takes_too_long() const;

  Decoder& model_;
  dataset::RowSource& rows_;
  ProcessGroup& group_;
  const StopRequest& stop_;
  int64_t rows_per_step_;
  std::vector<dataset::Row> learnt_;  // of this step
  bool careful_ = false;              // in this step: look at a row's loss before learning from it
};

}  // namespace cairn::trainer
