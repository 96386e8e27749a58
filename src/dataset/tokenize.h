// Documents in, shards out: reads with one thread, encodes with many, writes in the order of the documents. Which ids lie in which
// shard depends on the documents and the options alone, not on the number of workers.
//
// Shards are filled one after another up to max_tokens_per_shard (a shard may exceed it by one document). With `shuffle` the
// documents of each shard are written in the order of Permutation(documents, Permutation::key_of(seed, shard)); the ids wait in an
// unnamed file beside them. The output folder appears with all shards in it, or not at all. Memory is bounded by the documents in
// flight: about kInFlightBytesMax, and one document.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "dataset/document_source.h"
#include "dataset/tokenizer.h"

namespace cairn::dataset {

inline constexpr uint64_t kInFlightBytesMax = 512u * 1024 * 1024;
inline constexpr uint64_t kDocumentsPerShardMax = 16'000'000;
inline constexpr uint64_t kTokensPerShardDefault = 250'000'000;

struct TokenizeOptions {
  DocumentSourceOptions source;
  std::string output;                 // a folder that is absent or empty, else file_exists
  std::string tokenizer_name;         // for the metadata
  std::optional<uint32_t> eos_id;     // after each document, where given
  size_t workers = 1;                 // threads that encode
  bool shuffle = true;
  uint64_t seed = 0;
  uint64_t max_tokens_per_shard = kTokensPerShardDefault;
};

struct TokenizeProgress {
  uint64_t read_bytes = 0, total_bytes = 0;  // of input, as stored
  uint64_t text_bytes = 0;
  uint64_t documents = 0, tokens = 0;
  uint64_t shards = 0;       // complete ones
  PassedOver passed_over;
};

// `progress` is called by the calling thread, a few times a second at most; false from it ends the work (cancelled). data_invalid
// when the input holds no document.
Result<TokenizeProgress> tokenize(std::shared_ptr<const Tokenizer> tokenizer, const TokenizeOptions& options,
                                  const std::function<bool(const TokenizeProgress&)>& progress = {});

}  // namespace cairn::dataset
