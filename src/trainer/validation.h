// The held-out loss: the token-weighted mean over one epoch of the validation rows, or its first so many rows. Every evaluation sees
// the same rows: the source is put back to where it stood when the Validation was made. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "dataset/row_source.h"
#include "trainer/decoder.h"
#include "trainer/process_group.h"
#include "trainer/stop_request.h"

namespace cairn::trainer {

class Validation {
 public:
  // `rows_max` rows over all processes; 0: all of an epoch. Holds both.
  Validation(dataset::RowSource& rows, int64_t rows_max) : rows_(rows), rows_max_(rows_max), start_(rows.cursor()) {}

  // Nats a token; data_invalid when no target counts. Nothing in every process when one was asked to end: an epoch of these rows may
  // take longer than the grace time. Every process must call it.
  Result<std::optional<double>> mean_loss(Decoder& model, ProcessGroup& group, const StopRequest& stop);

 private:
  dataset::RowSource& rows_;
  int64_t rows_max_;
  std::string start_;
};

}  // namespace cairn::trainer
