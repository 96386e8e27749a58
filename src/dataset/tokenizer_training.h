// Learns a byte-level BPE from text and writes it as a tokenizer.json with the shape of Qwen's: NFC, Qwen's Split pattern, added
// tokens behind the vocabulary. Hugging Face's tokenizers read it with the same ids, and their BpeTrainer learns the same merges
// from the same documents.
//
// Deterministic for any number of threads. Memory is bounded by WordCountLimits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/document_source.h"
#include "dataset/word_counter.h"

namespace cairn::dataset {

struct TrainedAddedToken {
  std::string content;
  bool special = true;  // left out by decoders on demand
};
// <|endoftext|>, <|im_start|>, <|im_end|> (special); <tool_call>, <tool_response>, <think> and their ends (as Qwen has them).
std::vector<TrainedAddedToken> default_added_tokens();

struct TokenizerTrainingProgress {
  bool learning = false;  // first words are counted, then merges learned
  uint64_t done = 0;      // bytes of input read, or tokens
  uint64_t total = 0;
};

struct TokenizerTrainingOptions {
  DocumentSourceOptions source;
  uint32_t vocab_size = 0;      // all ids, with the added tokens
  uint64_t min_frequency = 2;   // of a pair that is merged
  std::vector<TrainedAddedToken> added_tokens = default_added_tokens();
  std::string eos_token = "<|endoftext|>";  // one of them; also the padding
  size_t threads = 1;
  WordCountLimits limits;
  std::function<void(const TokenizerTrainingProgress&)> progress;  // from one thread at a time; may be empty
};

struct TrainedTokenizer {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  uint32_t vocab_size = 0;  // less than asked for when the text has too few pairs
  uint64_t merges = 0;
  uint64_t words = 0;       // different ones learned from
  // As in CountedWords.
  uint64_t documents = 0, text_bytes = 0, total_words = 0, rare_dropped = 0, long_left_out = 0;
  PassedOver passed_over;
};

// config_invalid: a vocabulary too small for bytes and added tokens, or an eos_token that is none of them; data_invalid: inputs
// without a word; else the errors of DocumentSource.
Result<TrainedTokenizer> train_tokenizer(const TokenizerTrainingOptions& options);

}  // namespace cairn::dataset
