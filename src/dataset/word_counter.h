// How often each word occurs in documents, counted on many threads: the input of a BPE's training. Words are cut as the tokenizer
// will cut them (NFC, then the Split pattern).
//
// The counts depend on the documents alone, not on the number of threads. Memory is bounded: documents are counted in rounds, and
// when there are too many different words after a round, the rarest are dropped (again the same ones for any number of threads).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "dataset/document_source.h"
#include "dataset/split_pattern.h"
#include "dataset/worker_team.h"

namespace cairn::dataset {

struct WordCountLimits {
  size_t words_max = size_t{16} << 20;       // different words kept after a round
  size_t bytes_max = size_t{1} << 30;        // of those words
  size_t word_bytes_max = 16 * 1024;         // longer ones (no spaces: encoded data) are left out
  size_t blocks_a_round = 64;                // of some 4 MiB
};

// Different words in no particular order.
struct CountedWords {
  std::string bytes;           // back to back
  std::vector<size_t> ends;    // of each
  std::vector<uint64_t> counts;
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
  uint64_t total = 0;          // all words met
  uint64_t rare_dropped = 0;   // different words dropped because there were too many, with the count they had by then
  uint64_t long_left_out = 0;  // words longer than word_bytes_max
};

// `progress` gets the bytes of input read so far, from one thread at a time.
Result<CountedWords> count_words(DocumentSource& source, const std::string& text_key, const std::shared_ptr<const SplitPattern>& pattern,
                                 const WordCountLimits& limits, WorkerTeam& team, const std::function<void(uint64_t read_bytes)>& progress);

}  // namespace cairn::dataset
