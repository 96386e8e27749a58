// Rows of made-up ids, to try a model, a config or a machine without data: samples of seq_len positions, or with
// `variable_length` of 1 to seq_len - 1, packed as those of fine-tuning. Sample n holds the id n (modulo the vocabulary), or random
// ids. Every target counts.
//
// As RowSource: not thread-safe. Samples depend on the seed and their number alone, so `skip` and `restore` cost next to nothing.
// An epoch never ends, unless `rows_per_epoch` is given (for validation): then the same rows come again.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "dataset/row_source.h"

namespace cairn::dataset {

struct FakeRowsOptions {
  int64_t seq_len = 0;
  int64_t micro_batch_size = 1;
  uint32_t vocab_size = 0;
  bool variable_length = false;
  bool random_ids = false;
  uint64_t seed = 0;
  int64_t rows_per_epoch = 0;
};

// config_invalid when a number is out of range.
Result<std::unique_ptr<RowSource>> make_fake_rows(const FakeRowsOptions& options);

}  // namespace cairn::dataset
