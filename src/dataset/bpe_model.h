// The merges of a byte-level BPE: a word (bytes) in, ids out. Vocabulary entries are numbered without holes.
//
// A BpeModel is immutable after `create` and shared by threads; a BpeScratch belongs to one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataset/string_table.h"

namespace cairn::dataset {

inline constexpr size_t kVocabEntriesMax = 8u << 20;

struct BpeScratch {
  struct Symbol {
    uint32_t id, prev, next;
    uint32_t rank;  // of the pair with the next symbol
  };
  struct Candidate {
    uint32_t rank, position, id;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;

  // Frees what a very long word took.
  void give_back() {
    if (symbols.capacity() > kSymbolsKept) symbols = {};
    if (heap.capacity() > kSymbolsKept) heap = {};
  }
  static constexpr size_t kSymbolsKept = 1u << 20;
};

class BpeModel {
 public:
  // `tokens[id]` as spelled in the file; `merges` in order of rank as pairs of ids. data_invalid: a merge whose result is no token.
  static Result<BpeModel> create(StringTable tokens, const std::vector<std::array<uint32_t, 2>>& merges, bool whole_words_first, const std::string& name);

  // Appends the ids of `word`. Bytes without a token are left out, as Hugging Face's tokenizers do.
  void encode(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const;

  const StringTable& tokens() const { return tokens_; }
  std::string_view bytes_of(uint32_t id) const { return std::string_view(bytes_).substr(begins_[id], begins_[id + 1] - begins_[id]); }
  size_t length_of(uint32_t id) const { return begins_[id + 1] - begins_[id]; }
  uint32_t id_of_byte(unsigned char byte) const { return byte_ids_[byte]; }
  bool has_all_bytes() const { return has_all_bytes_; }

 private:
  struct Merge {
    uint64_t pair = kFree;  // left id and right id
    uint32_t rank = kNoRank, id = kNoId;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  Merge merge_of(uint32_t left, uint32_t right) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  StringTable tokens_;
  std::string bytes_;           // what each token stands for
  std::vector<size_t> begins_;
  std::array<uint32_t, 256> byte_ids_{};
  bool has_all_bytes_ = false;
  bool whole_words_first_ = false;
  std::vector<Merge> merges_;   // open addressing, a power of two
};

}  // namespace cairn::dataset
