// Rows of supervised fine-tuning: conversations rendered, tokenized and packed as docs/formats/sft-data.md says. Rows are read and
// tokenized when they are needed, so memory does not grow with the data set but for some eight bytes a row.
//
// As RowSource: not thread-safe. `skip` tokenizes what it passes in the first epoch and only counts in later ones. The cursor is
// bound to the files' names and sizes and to shuffle and seed, which decide the order; length of the rows, renderer and masks may
// change between stopping and going on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/renderer.h"
#include "dataset/row_source.h"

namespace cairn::dataset {

struct SftRowsOptions {
  std::string path;  // a file or folder of JSONL and Parquet
  RendererOptions renderer;
  RoleMask loss_mask = kAssistantOnly;
  bool shuffle = true;
  uint64_t seed = 0;
  int64_t seq_len = 0;           // a sample without a trainable token among its first seq_len is skipped
  int64_t micro_batch_size = 1;  // a row is seq_len * micro_batch_size tokens
  int64_t sample_tokens_max = 0;  // what is longer is cut; 0: only to a row
  uint32_t vocab_size = 0;       // of the model; a tokenizer with more ids is refused. 0: not checked
  // Rows end where the epoch ends, so that an epoch holds every sample once; no shuffle.
  bool validation = false;
  std::string tokenizer_name;    // for messages
  std::string scratch_folder;    // for Parquet; empty: TMPDIR or /tmp
  // Called with a whole sentence for the first skipped samples, once for each. May be empty.
  std::function<void(const std::string&)> warn;
};

// How a sample looks to a model, for people.
struct SftSample {
  std::string where;
  RenderedText rendered;
  TokenizedText tokens;
  size_t ids_used = 0;  // of the tokens, when a row holds no more of them (its last id is only a target)
  bool skipped = false;
};

class SftRows : public RowSource {
 public:
  // Also parses the rows of the first 256 MiB, so that a bad one is found before training begins. data_invalid,
  // data_missing_on_volume, config_invalid (a tokenizer that cannot carry the format).
  static Result<std::unique_ptr<SftRows>> open(const SftRowsOptions& options, std::shared_ptr<const Tokenizer> tokenizer,
                                               std::unique_ptr<Encoder> encoder);

  virtual uint64_t samples_per_epoch() const = 0;  // before any is skipped
  virtual size_t file_count() const = 0;
  // Files of other splits that were left aside.
  virtual const std::vector<std::string>& left_aside() const = 0;
  // The sample at `place` of the first epoch's order. REQUIRES: place < samples_per_epoch().
  virtual Result<SftSample> look(uint64_t place) = 0;
};

}  // namespace cairn::dataset
