// A Hugging Face tokenizer.json: byte-level BPE with NFC, a Split pattern and added tokens, giving the ids that Hugging Face's own
// tokenizers give. Other kinds of tokenizer.json are refused by name (format_unsupported).
//
// A Tokenizer is immutable and shared by threads. Encoding goes through an Encoder, one a thread, which holds the caches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr size_t kTokenizerBytesMax = 256u * 1024 * 1024;  // of a tokenizer.json

class Tokenizer {
 public:
  // `json` is the text of a tokenizer.json, `name` is for messages.
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json, const std::string& name);
  virtual ~Tokenizer() = default;

  // Ids are below this: vocabulary and added tokens.
  virtual uint32_t vocab_size() const = 0;
  // An entry of the vocabulary or an added token, as spelled in the file ("<|im_end|>").
  virtual std::optional<uint32_t> id_of(std::string_view token) const = 0;
  // Whether it is an added token that the file marks as special.
  virtual bool is_special(uint32_t id) const = 0;
  // The bytes of these ids; unknown ids give nothing. Special tokens are spelled out unless `skip_special`.
  virtual std::string decode(std::span<const uint32_t> ids, bool skip_special = false) const = 0;
};

class Encoder {
 public:
  static std::unique_ptr<Encoder> create(std::shared_ptr<const Tokenizer> tokenizer);
  virtual ~Encoder() = default;

  // Appends the ids of `text`. Added tokens in the text become their ids (as HF does without add_special_tokens: no post-processor).
  // Bytes that are no UTF-8 are first replaced by U+FFFD, one for each maximal ill-formed part. Fails with limit_exceeded only: a
  // Split pattern of the file that backtracks without end on this text (never with the patterns of Qwen, Llama or GPT), or a text
  // of 2 GiB and more, or a word of more than 64 MiB in it. `ids` is then as before.
  virtual Status encode(std::string_view text, std::vector<uint32_t>& ids) = 0;
  // The same; also appends, for each id, the offset in `text` of the first byte it stands for.
  virtual Status encode(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>& offsets) = 0;
};

}  // namespace cairn::dataset
