// The held-out loss: the token-weighted mean over one epoch of the validation rows, or its first so many rows. Every evaluation sees
// the same rows: the source is put back to where it stood when the Validation was made. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "dataset/row_source.h"
#include "trainer/decoder.h"
#include "trainer/process_group.h"

namespace cairn::trainer {

class Validation {
 public:
  // `rows_max` rows over all processes; 0: all of an epoch. Holds both.
  Validation(dataset::RowSource& rows, int64_t rows_max) : rows_(rows), rows_max_(rows_max), start_(rows.cursor()) {}

  // Nats a token; data_invalid when no target counts. Every process must call it.
  Result<double> mean_loss(Decoder& model, ProcessGroup& group);

 private:
  dataset::RowSource& rows_;
  int64_t rows_max_;
  std::string start_;
};

}  // namespace cairn::trainer
