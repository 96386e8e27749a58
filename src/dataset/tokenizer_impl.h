// What a tokenizer.json holds, read and checked: shared by its reader (tokenizer_json.cc) and the encoder (tokenizer.cc).
//
// Immutable once made; any thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dataset/added_tokens.h"
#include "dataset/bpe_model.h"
#include "dataset/split_pattern.h"
#include "dataset/tokenizer.h"

namespace cairn::dataset {

struct TokenizerParts {
  std::string name;
  BpeModel model;
  std::vector<AddedToken> added;
  bool nfc = false;
  std::vector<std::shared_ptr<const SplitPattern>> splits;  // in order
  std::shared_ptr<const SplitPattern> byte_level_split;     // after them; may be null
  bool prefix_space = false;                                // before each piece that `splits` leave
};

class TokenizerImpl final : public Tokenizer {
 public:
  // REQUIRES: ids of added tokens are those of their vocabulary entry, or go on without holes behind the vocabulary.
  static Result<std::shared_ptr<const TokenizerImpl>> create(TokenizerParts parts);

  uint32_t vocab_size() const override { return vocab_size_; }
  std::optional<uint32_t> id_of(std::string_view token) const override;
  bool is_special(uint32_t id) const override;
  std::string decode(std::span<const uint32_t> ids, bool skip_special) const override;

  const TokenizerParts& parts() const { return parts_; }
  const AddedTokenMatcher& raw_tokens() const { return raw_tokens_; }                // before the normalizer
  const AddedTokenMatcher& normalized_tokens() const { return normalized_tokens_; }  // after it

 private:
  TokenizerParts parts_;
  uint32_t vocab_size_ = 0;
  std::unordered_map<uint32_t, const AddedToken*> added_by_id_;
  std::unordered_map<std::string_view, uint32_t> added_by_content_;
  AddedTokenMatcher raw_tokens_, normalized_tokens_;
};

}  // namespace cairn::dataset
