#include "dataset/tokenizer_training.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dataset/bpe_trainer.h"
#include "dataset/byte_alphabet.h"
#include "dataset/split_pattern.h"
#include "dataset/tokenizer.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {
namespace {

constexpr uint32_t kBytes = 256;
constexpr uint32_t kTrainedVocabMax = 4u << 20;

std::string as_json(std::string_view text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

Status check(const TokenizerTrainingOptions& options) {
  const uint64_t least = kBytes + options.added_tokens.size();
  if (options.vocab_size < least || options.vocab_size > kTrainedVocabMax) {
    return Error(Code::kConfigInvalid, fmt::format("a vocabulary of {} entries; it must be from {} (256 bytes and {} added tokens) to {}", options.vocab_size, least, options.added_tokens.size(), kTrainedVocabMax));
  }
  bool eos_known = false;
  std::vector<std::string_view> seen;
  for (const TrainedAddedToken& token : options.added_tokens) {
    // Shorter ones would be vocabulary entries.
    if (token.content.size() < 2 || token.content.size() > 256 || well_formed_prefix(token.content) != token.content.size()) {
      return Error(Code::kConfigInvalid, fmt::format("the added token {} is not 2 to 256 bytes of UTF-8", as_json(token.content)));
    }
    if (std::find(seen.begin(), seen.end(), token.content) != seen.end()) return Error(Code::kConfigInvalid, fmt::format("the added token {} is given twice", as_json(token.content)));
    seen.push_back(token.content);
    eos_known = eos_known || token.content == options.eos_token;
  }
  if (!eos_known) return Error(Code::kConfigInvalid, fmt::format("the end-of-text token {} is none of the added tokens", as_json(options.eos_token)), "name it with --add-token too");
  return ok();
}

// The members of an added token that tokenizer.json and tokenizer_config.json share.
std::string flags_of(const TrainedAddedToken& token) {
  return fmt::format(R"("content": {}, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": {})", as_json(token.content), token.special);
}

// Behind the vocabulary, except a token that was learned too (possible for one that is a word).
std::vector<uint32_t> added_ids(const LearnedBpe& bpe, const std::vector<TrainedAddedToken>& added) {
  std::vector<uint32_t> ids;
  uint32_t next = bpe.tokens.size();
  for (const TrainedAddedToken& token : added) {
    std::optional<std::string> bytes = bytes_of_spelling(token.content);
    const uint32_t learned = bytes ? bpe.tokens.find(*bytes) : kNoId;
    ids.push_back(learned != kNoId ? learned : next++);
  }
  return ids;
}

std::string tokenizer_json(const LearnedBpe& bpe, const std::vector<TrainedAddedToken>& added, const std::vector<uint32_t>& ids) {
  constexpr std::string_view kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false})";
  std::string json = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": [";
  for (size_t i = 0; i < added.size(); ++i) json += fmt::format("{}\n    {{\"id\": {}, {}}}", i == 0 ? "" : ",", ids[i], flags_of(added[i]));
  json += fmt::format(R"(
  ],
  "normalizer": {{"type": "NFC"}},
  "pre_tokenizer": {{
    "type": "Sequence",
    "pretokenizers": [
      {{"type": "Split", "pattern": {{"Regex": {}}}, "behavior": "Isolated", "invert": false}},
      {}
    ]
  }},
  "post_processor": {},
  "decoder": {},
  "model": {{
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": "",
    "end_of_word_suffix": "",
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {{)",
                      as_json(kQwenPattern), kByteLevel, kByteLevel, kByteLevel);
  std::vector<std::string> spelled;
  spelled.reserve(bpe.tokens.size());
  for (uint32_t id = 0; id < bpe.tokens.size(); ++id) {
    spelled.push_back(spell_bytes(bpe.tokens[id]));
    json += fmt::format("{}\n      {}: {}", id == 0 ? "" : ",", as_json(spelled.back()), id);
  }
  json += "\n    },\n    \"merges\": [";
  for (size_t i = 0; i < bpe.merges.size(); ++i) {
    json += fmt::format("{}\n      {}", i == 0 ? "" : ",", as_json(spelled[bpe.merges[i][0]] + " " + spelled[bpe.merges[i][1]]));
  }
  json += bpe.merges.empty() ? "]\n  }\n}\n" : "\n    ]\n  }\n}\n";
  return json;
}

std::string tokenizer_config_json(const TokenizerTrainingOptions& options, const std::vector<uint32_t>& ids) {
  std::string decoder, more;
  for (size_t i = 0; i < options.added_tokens.size(); ++i) {
    const TrainedAddedToken& token = options.added_tokens[i];
    decoder += fmt::format("{}\n    \"{}\": {{{}}}", i == 0 ? "" : ",", ids[i], flags_of(token));
    if (token.special && token.content != options.eos_token) more += fmt::format("{}{}", more.empty() ? "" : ", ", as_json(token.content));
  }
  return fmt::format(R"({{
  "add_bos_token": false,
  "add_prefix_space": false,
  "added_tokens_decoder": {{{}
  }},
  "additional_special_tokens": [{}],
  "bos_token": null,
  "clean_up_tokenization_spaces": false,
  "eos_token": {},
  "errors": "replace",
  "pad_token": {},
  "split_special_tokens": false,
  "tokenizer_class": "PreTrainedTokenizerFast",
  "unk_token": null
}}
)",
                     decoder, more, as_json(options.eos_token), as_json(options.eos_token));
}

}  // namespace

std::vector<TrainedAddedToken> default_added_tokens() {
  return {{"<|endoftext|>", true}, {"<|im_start|>", true},    {"<|im_end|>", true},        {"<tool_call>", false}, {"</tool_call>", false},
          {"<tool_response>", false}, {"</tool_response>", false}, {"<think>", false}, {"</think>", false}};
}

Result<TrainedTokenizer> train_tokenizer(const TokenizerTrainingOptions& options) {
  CAIRN_CHECK_OK(check(options));
  CAIRN_TRY(auto source, DocumentSource::open(options.source));
  CAIRN_TRY(auto pattern, SplitPattern::compile(kQwenPattern, "the tokenizer to be"));
  WorkerTeam team(std::max<size_t>(1, options.threads));
  auto tell = [&](bool learning, uint64_t done, uint64_t total) {
    if (options.progress) options.progress({learning, done, total});
  };
  const uint64_t total_bytes = source->total_bytes();
  CAIRN_TRY(CountedWords words, count_words(*source, options.source.text_key, pattern, options.limits, team, [&](uint64_t read) { tell(false, read, total_bytes); }));
  if (words.ends.empty()) return Error(Code::kDataInvalid, fmt::format("{} documents with {} bytes of text hold no word to learn from", words.documents, words.text_bytes));

  TrainedTokenizer trained;
  trained.passed_over = source->passed_over();
  trained.words = words.ends.size();
  trained.documents = words.documents;
  trained.text_bytes = words.text_bytes;
  trained.total_words = words.total;
  trained.rare_dropped = words.rare_dropped;
  trained.long_left_out = words.long_left_out;
  const auto target = options.vocab_size - static_cast<uint32_t>(options.added_tokens.size());
  const LearnedBpe bpe = learn_bpe(std::move(words), target, options.min_frequency, team, [&](uint32_t tokens) { tell(true, tokens, target); });
  trained.merges = bpe.merges.size();
  const std::vector<uint32_t> ids = added_ids(bpe, options.added_tokens);
  trained.tokenizer_json = tokenizer_json(bpe, options.added_tokens, ids);
  trained.tokenizer_config_json = tokenizer_config_json(options, ids);
  // What is written must be readable.
  CAIRN_TRY(auto readable, Tokenizer::parse(trained.tokenizer_json, "the learned tokenizer"));
  trained.vocab_size = readable->vocab_size();
  return trained;
}

}  // namespace cairn::dataset
