// Tokenizer::parse: a tokenizer.json into TokenizerParts. Whatever would change ids and is not built here is refused by name.
#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dataset/tokenizer_impl.h"

namespace cairn::dataset {
namespace {

using Json = nlohmann::json;

constexpr size_t kSplitsMax = 8;
constexpr std::string_view kHint = "use a byte-level BPE tokenizer.json (Qwen, Llama 3, GPT-2), or train one: cairn tokenizer train";

Error invalid(const std::string& name, std::string what) { return Error(Code::kDataInvalid, fmt::format("{}: {}", name, what), "get the file anew from where the model came from"); }

Error unsupported(const std::string& name, std::string what) { return Error(Code::kFormatUnsupported, fmt::format("{}: {}", name, what), std::string(kHint)); }

// The member `key`, or null.
const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }
std::string type_of(const Json& object) { return text_of(member(object, "type")); }

Result<bool> flag(const std::string& name, const Json& object, const char* key, std::optional<bool> otherwise) {
  const Json& value = member(object, key);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_null() && otherwise) return *otherwise;
  return invalid(name, fmt::format("'{}' of a {} is not true or false", key, type_of(object).empty() ? "token" : type_of(object)));
}

Result<bool> read_normalizer(const std::string& name, const Json& normalizer) {
  if (normalizer.is_null()) return false;
  if (type_of(normalizer) == "NFC") return true;
  const Json& list = member(normalizer, "normalizers");
  if (type_of(normalizer) == "Sequence" && list.is_array()) {
    bool nfc = false;
    for (const Json& one : list) {
      if (type_of(one) != "NFC") return unsupported(name, fmt::format("the normalizer '{}' is not built, only NFC is", type_of(one)));
      nfc = true;
    }
    return nfc;
  }
  return unsupported(name, fmt::format("the normalizer '{}' is not built, only NFC is", type_of(normalizer)));
}

Status read_split(const std::string& name, const Json& split, TokenizerParts& parts) {
  const Json& regex = member(member(split, "pattern"), "Regex");
  if (!regex.is_string()) return unsupported(name, "a Split without a 'Regex' pattern is not built");
  if (text_of(member(split, "behavior")) != "Isolated") {
    return unsupported(name, fmt::format("a Split with behavior '{}' is not built, only 'Isolated' is", text_of(member(split, "behavior"))));
  }
  CAIRN_TRY(bool invert, flag(name, split, "invert", false));
  if (invert) return unsupported(name, "a Split with 'invert' is not built");
  if (parts.splits.size() == kSplitsMax) return unsupported(name, fmt::format("more than {} Splits", kSplitsMax));
  CAIRN_TRY(auto pattern, SplitPattern::compile(regex.get_ref<const std::string&>(), name));
  parts.splits.push_back(std::move(pattern));
  return ok();
}

Status read_byte_level(const std::string& name, const Json& byte_level, TokenizerParts& parts) {
  CAIRN_TRY(parts.prefix_space, flag(name, byte_level, "add_prefix_space", true));
  CAIRN_TRY(bool own_pattern, flag(name, byte_level, "use_regex", true));
  if (own_pattern) {
    CAIRN_TRY(parts.byte_level_split, SplitPattern::compile(kGpt2Pattern, name));
  }
  return ok();
}

Status read_pre_tokenizer(const std::string& name, const Json& pre_tokenizer, TokenizerParts& parts) {
  std::vector<const Json*> steps;
  const Json& list = member(pre_tokenizer, "pretokenizers");
  if (type_of(pre_tokenizer) == "Sequence" && list.is_array()) {
    for (const Json& step : list) steps.push_back(&step);
  } else {
    steps.push_back(&pre_tokenizer);
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string type = type_of(*steps[i]);
    const bool last = i + 1 == steps.size();
    if (type == "Split" && !last) {
      CAIRN_CHECK_OK(read_split(name, *steps[i], parts));
    } else if (type == "ByteLevel" && last) {
      return read_byte_level(name, *steps[i], parts);
    } else if (type == "Split" || type == "ByteLevel") {
      return unsupported(name, "ByteLevel does not come last in its pre-tokenizer");
    } else {
      return unsupported(name, fmt::format("the pre-tokenizer '{}' is not built, only Split and ByteLevel are", type.empty() ? "none" : type));
    }
  }
  return unsupported(name, "its pre-tokenizer is empty");
}

Status check_decoder(const std::string& name, const Json& decoder) {
  const Json& list = member(decoder, "decoders");
  const Json& one = type_of(decoder) == "Sequence" && list.is_array() && list.size() == 1 ? list[0] : decoder;
  if (one.is_null() || type_of(one) == "ByteLevel") return ok();
  return unsupported(name, fmt::format("the decoder '{}' is not built, only ByteLevel is", type_of(one)));
}

Result<StringTable> read_vocab(const std::string& name, const Json& vocab) {
  if (!vocab.is_object() || vocab.empty()) return invalid(name, "'model.vocab' is missing or empty");
  if (vocab.size() > kVocabEntriesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: {} entries in the vocabulary; the limit is {}", name, vocab.size(), kVocabEntriesMax));
  }
  std::vector<const std::string*> by_id(vocab.size(), nullptr);
  size_t bytes = 0;
  for (auto entry = vocab.begin(); entry != vocab.end(); ++entry) {
    if (!entry->is_number_unsigned()) return invalid(name, fmt::format("the id of '{}' is not a number from 0", entry.key()));
    const auto id = entry->get<uint64_t>();
    if (id >= by_id.size()) return invalid(name, fmt::format("'{}' has id {}, but the vocabulary has {} entries: there are holes", entry.key(), id, by_id.size()));
    if (by_id[id] != nullptr) return invalid(name, fmt::format("'{}' and '{}' both have id {}", *by_id[id], entry.key(), id));
    by_id[id] = &entry.key();
    bytes += entry.key().size();
  }
  StringTable tokens;
  tokens.reserve(by_id.size(), bytes);
  for (const std::string* token : by_id) tokens.add(*token);
  return tokens;
}

Result<std::vector<std::array<uint32_t, 2>>> read_merges(const std::string& name, const Json& list, const StringTable& tokens) {
  if (!list.is_array()) return invalid(name, "'model.merges' is not a list");
  std::vector<std::array<uint32_t, 2>> merges;
  merges.reserve(list.size());
  for (const Json& merge : list) {
    std::string_view left, right;
    if (merge.is_string()) {
      const std::string_view both = merge.get_ref<const std::string&>();
      const size_t space = both.find(' ');
      if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos) {
        left = both.substr(0, space);
        right = both.substr(space + 1);
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    }
    if (left.empty() || right.empty()) return invalid(name, fmt::format("merge {} is not a pair of tokens", merges.size()));
    const uint32_t left_id = tokens.find(left), right_id = tokens.find(right);
    if (left_id == kNoId || right_id == kNoId) {
      return invalid(name, fmt::format("merge {} names '{}', which is not in the vocabulary", merges.size(), left_id == kNoId ? left : right));
    }
    merges.push_back({left_id, right_id});
  }
  return merges;
}

Status read_model(const std::string& name, const Json& model, TokenizerParts& parts) {
  const std::string type = type_of(model);
  if (!model.is_object()) return invalid(name, "it has no 'model'");
  if (type != "BPE" && !(type.empty() && model.contains("merges"))) {
    return unsupported(name, fmt::format("the model '{}' is not built, only BPE is", type));
  }
  const Json& dropout = member(model, "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0)) return unsupported(name, "BPE with dropout is not built");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!member(model, affix).is_null() && text_of(member(model, affix)) != "") return unsupported(name, fmt::format("BPE with '{}' is not built", affix));
  }
  CAIRN_TRY(bool whole_words_first, flag(name, model, "ignore_merges", false));
  CAIRN_TRY(StringTable tokens, read_vocab(name, member(model, "vocab")));
  CAIRN_TRY(auto merges, read_merges(name, member(model, "merges"), tokens));
  CAIRN_TRY(parts.model, BpeModel::create(std::move(tokens), merges, whole_words_first, name));
  // With a token for each byte nothing is ever unknown, and these two are never used.
  const bool unknown = !member(model, "unk_token").is_null() || member(model, "byte_fallback") == true;
  if (unknown && !parts.model.has_all_bytes()) return unsupported(name, "BPE with 'unk_token' or 'byte_fallback' and without a token for each byte is not built");
  return ok();
}

// The ids that Hugging Face's tokenizers would give: the id of a vocabulary entry, else the next one behind all.
Status read_added_tokens(const std::string& name, const Json& list, TokenizerParts& parts) {
  if (list.is_null()) return ok();
  if (!list.is_array()) return invalid(name, "'added_tokens' is not a list");
  if (list.size() > kAddedTokensMax) return Error(Code::kLimitExceeded, fmt::format("{}: {} added tokens; the limit is {}", name, list.size(), kAddedTokensMax));
  uint32_t next = parts.model.tokens().size();
  std::unordered_set<std::string> seen;
  parts.added.reserve(list.size());
  for (const Json& entry : list) {
    AddedToken token;
    token.content = text_of(member(entry, "content"));
    if (token.content.empty()) return invalid(name, "an added token has no 'content'");
    if (token.content.size() > kAddedTokenBytesMax) {
      return Error(Code::kLimitExceeded, fmt::format("{}: an added token of {} bytes; the limit is {}", name, token.content.size(), kAddedTokenBytesMax));
    }
    CAIRN_TRY(token.single_word, flag(name, entry, "single_word", std::nullopt));
    CAIRN_TRY(token.lstrip, flag(name, entry, "lstrip", std::nullopt));
    CAIRN_TRY(token.rstrip, flag(name, entry, "rstrip", std::nullopt));
    CAIRN_TRY(token.normalized, flag(name, entry, "normalized", std::nullopt));
    CAIRN_TRY(token.special, flag(name, entry, "special", std::nullopt));
    const uint32_t in_vocab = parts.model.tokens().find(token.content);
    token.id = in_vocab != kNoId ? in_vocab : next++;
    const Json& id = member(entry, "id");
    if (!id.is_number_unsigned() || id.get<uint64_t>() != token.id) {
      // Only a number is shown: printing what is nested goes as deep as the file likes.
      return invalid(name, fmt::format("the added token '{}' has id {}; it must be {} ({})", token.content,
                                       id.is_number() ? id.dump() : fmt::format("of type {}", id.type_name()), token.id,
                                       in_vocab != kNoId ? "its id in the vocabulary" : "the next one behind the vocabulary"));
    }
    if (!seen.insert(token.content).second) return invalid(name, fmt::format("the added token '{}' comes twice", token.content));
    parts.added.push_back(std::move(token));
  }
  return ok();
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json, const std::string& name) {
  if (json.size() > kTokenizerBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("{}: {} bytes; the limit of a tokenizer.json is {}", name, json.size(), kTokenizerBytesMax));
  }
  const Json root = Json::parse(json.begin(), json.end(), nullptr, false);
  if (root.is_discarded()) return invalid(name, "it is not JSON");
  if (!root.is_object()) return invalid(name, "it is not a JSON object");
  TokenizerParts parts;
  parts.name = name;
  CAIRN_CHECK_OK(read_model(name, member(root, "model"), parts));
  CAIRN_TRY(parts.nfc, read_normalizer(name, member(root, "normalizer")));
  CAIRN_CHECK_OK(read_pre_tokenizer(name, member(root, "pre_tokenizer"), parts));
  CAIRN_CHECK_OK(check_decoder(name, member(root, "decoder")));
  CAIRN_CHECK_OK(read_added_tokens(name, member(root, "added_tokens"), parts));
  CAIRN_TRY(std::shared_ptr<const Tokenizer> made, TokenizerImpl::create(std::move(parts)));
  return made;
}

}  // namespace cairn::dataset
