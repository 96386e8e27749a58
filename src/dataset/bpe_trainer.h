// Learns the merges of a byte-level BPE from counted words, as Hugging Face's BpeTrainer does: the most frequent pair first, of
// equally frequent ones the one with the lowest ids; words are changed in place and the counts of pairs follow.
//
// The result depends on the words and their counts alone, not on their order or the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "dataset/string_table.h"
#include "dataset/word_counter.h"
#include "dataset/worker_team.h"

namespace cairn::dataset {

struct LearnedBpe {
  StringTable tokens;  // the bytes of each id: single bytes in the order of their characters (byte_alphabet.h), then by merge
  std::vector<std::array<uint32_t, 2>> merges;  // by rank
};

// Stops at `vocab_size` tokens, or earlier when no pair occurs `min_frequency` times. REQUIRES: vocab_size >= 256.
// `progress` gets the number of tokens so far now and then.
LearnedBpe learn_bpe(CountedWords words, uint32_t vocab_size, uint64_t min_frequency, WorkerTeam& team,
                     const std::function<void(uint32_t tokens)>& progress);

}  // namespace cairn::dataset
