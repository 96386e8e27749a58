// The pattern by which a tokenizer splits text into words ("Split" and "ByteLevel" of tokenizer.json).
//
// The patterns of GPT-2, Llama 3 and Qwen 2 and 3 are matched by own code over a table of classes; others by PCRE2, where they use
// only what means the same to PCRE2 and to the library of Hugging Face's tokenizers (Oniguruma). For other properties
// than \p{L}, \p{N} and \s, PCRE2 takes code points that came after Unicode 14 for unassigned.
//
// A SplitPattern is immutable and shared; a Splitter belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cairn::dataset {

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class SplitPattern {
 public:
  // `use_own_code` false: PCRE2 for all patterns, to compare the two. format_unsupported: a construct that the two libraries read
  // differently; data_invalid: no pattern at all.
  static Result<std::shared_ptr<const SplitPattern>> compile(std::string_view pattern, const std::string& name, bool use_own_code = true);
  virtual ~SplitPattern() = default;
};

class Splitter {
 public:
  static std::unique_ptr<Splitter> create(std::shared_ptr<const SplitPattern> pattern);
  virtual ~Splitter() = default;

  // Appends the ends of some `count` pieces of `text`, matches and what lies between them, none empty, and moves `from` behind them:
  // at first 0, at the end text.size(). REQUIRES: `text` is well-formed. limit_exceeded: the pattern backtracks too long.
  virtual Status split(std::string_view text, size_t& from, size_t count, std::vector<size_t>& ends) = 0;
};

}  // namespace cairn::dataset
