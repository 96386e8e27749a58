#include "dataset/tokenizer.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "dataset/tokenizer_impl.h"
#include "dataset/unicode_classes.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {
namespace {

constexpr size_t kTextBytesEnd = size_t{1} << 31;
constexpr size_t kWordBytesMax = 64u << 20;  // merging takes some 30 bytes of memory for each
constexpr size_t kPiecesAtOnce = 4096;

// Words met lately with their ids; a slot is one cache line, and a newer word takes the slot of an older one.
class WordCache {
 public:
  static constexpr size_t kWordBytesMax = 31, kIdsMax = 8;

  struct Key {
    std::array<uint64_t, 4> words{};  // the bytes of the word, zeros, and its length in the last byte
    friend bool operator==(const Key& a, const Key& b) {  // without a call of memcmp
      return ((a.words[0] ^ b.words[0]) | (a.words[1] ^ b.words[1]) | (a.words[2] ^ b.words[2]) | (a.words[3] ^ b.words[3])) == 0;
    }
  };
  struct alignas(64) Slot {
    Key key;
    std::array<uint32_t, kIdsMax> ids{};  // kNoId: no more
  };

  WordCache() : slots_(kSlots) {}

  // REQUIRES: 0 < word.size() <= kWordBytesMax.
  static Key key_of(std::string_view word) {
    Key key;
    const uint64_t length = uint64_t{word.size()} << 56;
    for (uint64_t& part : key.words) {
      part = StringTable::word_of(word);
      word.remove_prefix(std::min<size_t>(word.size(), 8));
    }
    key.words[3] |= length;
    return key;
  }
  Slot& slot_of(const Key& key) {
    uint64_t hash = key.words[0] * 0x9E3779B97F4A7C15u ^ key.words[1] * 0xC2B2AE3D27D4EB4Fu ^ (key.words[2] + 0x165667B19E3779F9u) * key.words[3];
    hash ^= hash >> 32;
    return slots_[(hash * 0xD6E8FEB86659FD93u) >> (64 - kSlotBits)];
  }

 private:
  static constexpr unsigned kSlotBits = 15;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;
  std::vector<Slot> slots_;  // 2 MiB
};

class EncoderImpl final : public Encoder {
 public:
  explicit EncoderImpl(std::shared_ptr<const TokenizerImpl> tokenizer) : tokenizer_(std::move(tokenizer)), parts_(tokenizer_->parts()) {
    for (const auto& pattern : parts_.splits) splitters_.push_back(Splitter::create(pattern));
    if (parts_.byte_level_split != nullptr) byte_level_splitter_ = Splitter::create(parts_.byte_level_split);
    ends_.resize(splitters_.size());
  }

  Status encode(std::string_view text, std::vector<uint32_t>& ids) override { return encode_text(text, ids, nullptr); }
  Status encode(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>& offsets) override { return encode_text(text, ids, &offsets); }

 private:
  Status encode_text(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>* offsets);
  Status encode_raw(std::string_view text);
  Status encode_normalized(std::string_view text, size_t base);
  Status split(std::string_view text, size_t base, size_t step);
  Status byte_level(std::string_view text, size_t base);
  Status add_word(std::string_view word, size_t base, bool prefixed);
  void add_ids(std::string_view word, std::vector<uint32_t>& ids);
  void add_offsets(std::string_view word, size_t base, bool prefixed, size_t first);
  void add_token(uint32_t id, size_t at);
  size_t source_of(size_t normalized_offset) const;

  std::shared_ptr<const TokenizerImpl> tokenizer_;
  const TokenizerParts& parts_;
  std::vector<std::unique_ptr<Splitter>> splitters_;
  std::unique_ptr<Splitter> byte_level_splitter_;
  WordCache cache_;
  BpeScratch scratch_;

  // Of the text at hand.
  std::vector<uint32_t>* ids_ = nullptr;
  std::vector<size_t>* offsets_ = nullptr;  // may be null
  std::string repaired_, normalized_, prefixed_;
  std::vector<TextPiece> repairs_, changes_;  // empty: nothing was changed
  size_t piece_begin_ = 0;                    // in the repaired text, of the piece that `changes_` tells of
  std::vector<AddedTokenMatcher::Part> raw_found_, found_;
  std::vector<std::vector<size_t>> ends_;
  std::vector<size_t> byte_level_ends_;
};

Status EncoderImpl::encode_text(std::string_view text, std::vector<uint32_t>& ids, std::vector<size_t>* offsets) {
  if (text.size() >= kTextBytesEnd) {
    return Error(Code::kLimitExceeded, fmt::format("a text of {} bytes; the tokenizer takes less than {}", text.size(), kTextBytesEnd), "split the document");
  }
  ids_ = &ids;
  offsets_ = offsets;
  const size_t ids_before = ids.size(), offsets_before = offsets != nullptr ? offsets->size() : 0;
  repairs_.clear();
  if (well_formed_prefix(text) != text.size()) {
    repair_utf8(text, repaired_, &repairs_);
    text = repaired_;
  }
  Status done = encode_raw(text);
  scratch_.give_back();
  if (!done) {
    ids.resize(ids_before);
    if (offsets != nullptr) offsets->resize(offsets_before);
  }
  return done;
}

Status EncoderImpl::encode_raw(std::string_view text) {
  raw_found_.clear();
  tokenizer_->raw_tokens().find(text, raw_found_);
  for (const AddedTokenMatcher::Part& part : raw_found_) {
    changes_.clear();
    piece_begin_ = part.begin;
    if (part.token != nullptr) {
      add_token(part.token->id, 0);
      continue;
    }
    std::string_view piece = text.substr(part.begin, part.end - part.begin);
    if (parts_.nfc && !is_nfc(piece)) {
      CAIRN_CHECK_OK(to_nfc(piece, normalized_, offsets_ != nullptr ? &changes_ : nullptr));
      piece = normalized_;
    }
    if (tokenizer_->normalized_tokens().empty()) {
      CAIRN_CHECK_OK(encode_normalized(piece, 0));
      continue;
    }
    found_.clear();
    tokenizer_->normalized_tokens().find(piece, found_);
    for (const AddedTokenMatcher::Part& inner : found_) {
      if (inner.token != nullptr) {
        add_token(inner.token->id, inner.begin);
      } else {
        CAIRN_CHECK_OK(encode_normalized(piece.substr(inner.begin, inner.end - inner.begin), inner.begin));
      }
    }
  }
  return ok();
}

Status EncoderImpl::encode_normalized(std::string_view text, size_t base) { return split(text, base, 0); }

Status EncoderImpl::split(std::string_view text, size_t base, size_t step) {
  if (step == splitters_.size()) return byte_level(text, base);
  std::vector<size_t>& ends = ends_[step];
  const bool plain = step + 1 == splitters_.size() && byte_level_splitter_ == nullptr && !parts_.prefix_space;
  size_t begin = 0;
  for (size_t from = 0; from < text.size();) {
    ends.clear();
    CAIRN_CHECK_OK(splitters_[step]->split(text, from, kPiecesAtOnce, ends));
    for (size_t end : ends) {
      std::string_view piece = text.substr(begin, end - begin);
      if (plain) {
        CAIRN_CHECK_OK(add_word(piece, base + begin, false));
      } else {
        CAIRN_CHECK_OK(split(piece, base + begin, step + 1));
      }
      begin = end;
    }
  }
  return ok();
}

Status EncoderImpl::byte_level(std::string_view text, size_t base) {
  const bool prefixed = parts_.prefix_space && text[0] != ' ';
  if (prefixed) {
    prefixed_.assign(1, ' ').append(text);
    text = prefixed_;
  }
  if (byte_level_splitter_ == nullptr) return add_word(text, base, prefixed);
  size_t begin = 0;
  for (size_t from = 0; from < text.size();) {
    byte_level_ends_.clear();
    CAIRN_CHECK_OK(byte_level_splitter_->split(text, from, kPiecesAtOnce, byte_level_ends_));
    for (size_t end : byte_level_ends_) {
      const bool first = prefixed && begin == 0;
      CAIRN_CHECK_OK(add_word(text.substr(begin, end - begin), base + begin - (prefixed && !first ? 1 : 0), first));
      begin = end;
    }
  }
  return ok();
}

Status EncoderImpl::add_word(std::string_view word, size_t base, bool prefixed) {
  if (word.size() > kWordBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("a word of {} bytes (no place to split it); the limit is {}", word.size(), kWordBytesMax), "leave such documents out, or put spaces into them");
  }
  const size_t first = ids_->size();
  add_ids(word, *ids_);
  if (offsets_ != nullptr) add_offsets(word, base, prefixed, first);
  return ok();
}

void EncoderImpl::add_ids(std::string_view word, std::vector<uint32_t>& ids) {
  if (word.size() > WordCache::kWordBytesMax) return parts_.model.encode(word, scratch_, ids);
  const WordCache::Key key = WordCache::key_of(word);
  WordCache::Slot& slot = cache_.slot_of(key);
  if (slot.key == key) {
    for (uint32_t id : slot.ids) {
      if (id == kNoId) break;
      ids.push_back(id);
    }
    return;
  }
  const size_t first = ids.size();
  parts_.model.encode(word, scratch_, ids);
  const size_t count = ids.size() - first;
  if (count > WordCache::kIdsMax) return;
  slot.key = key;
  slot.ids.fill(kNoId);
  std::copy(ids.begin() + static_cast<ptrdiff_t>(first), ids.end(), slot.ids.begin());
}

// `base` is where `word` begins in the normalized piece, without the space put before it.
void EncoderImpl::add_offsets(std::string_view word, size_t base, bool prefixed, size_t first) {
  const BpeModel& model = parts_.model;
  const bool whole = ids_->size() == first + 1 && model.length_of(ids_->back()) == word.size();
  const bool dropped = !model.has_all_bytes() && !whole;
  auto missing = [&](size_t at) { return at < word.size() && model.id_of_byte(static_cast<unsigned char>(word[at])) == kNoId; };
  size_t at = 0;
  for (size_t i = first; i < ids_->size(); ++i) {
    while (dropped && missing(at)) ++at;
    offsets_->push_back(source_of(base + at - (prefixed && at > 0 ? 1 : 0)));
    size_t length = model.length_of((*ids_)[i]);
    if (!dropped) {
      at += length;
    } else {
      for (; length > 0; ++at) length -= missing(at) ? 0 : 1;
    }
  }
}

void EncoderImpl::add_token(uint32_t id, size_t at) {
  ids_->push_back(id);
  if (offsets_ != nullptr) offsets_->push_back(source_of(at));
}

size_t EncoderImpl::source_of(size_t normalized_offset) const {
  size_t at = piece_begin_ + (changes_.empty() ? normalized_offset : offset_before(changes_, normalized_offset));
  return repairs_.empty() ? at : offset_before(repairs_, at);
}

}  // namespace

Result<std::shared_ptr<const TokenizerImpl>> TokenizerImpl::create(TokenizerParts parts) {
  auto made = std::make_shared<TokenizerImpl>();
  made->parts_ = std::move(parts);
  made->vocab_size_ = made->parts_.model.tokens().size();
  std::array<std::vector<std::string>, 2> contents;  // raw, normalized
  std::array<std::vector<const AddedToken*>, 2> tokens;
  for (const AddedToken& token : made->parts_.added) {
    made->vocab_size_ = std::max(made->vocab_size_, token.id + 1);
    made->added_by_id_[token.id] = &token;
    made->added_by_content_[token.content] = token.id;
    std::string content = token.content;
    if (token.normalized && made->parts_.nfc) CAIRN_CHECK_OK(to_nfc(token.content, content, nullptr));
    const size_t kind = token.normalized ? 1 : 0;
    contents[kind].push_back(std::move(content));
    tokens[kind].push_back(&token);
  }
  made->raw_tokens_ = AddedTokenMatcher(std::move(contents[0]), std::move(tokens[0]));
  made->normalized_tokens_ = AddedTokenMatcher(std::move(contents[1]), std::move(tokens[1]));
  return std::shared_ptr<const TokenizerImpl>(std::move(made));
}

std::optional<uint32_t> TokenizerImpl::id_of(std::string_view token) const {
  if (auto added = added_by_content_.find(token); added != added_by_content_.end()) return added->second;
  uint32_t id = parts_.model.tokens().find(token);
  if (id == kNoId) return std::nullopt;
  return id;
}

bool TokenizerImpl::is_special(uint32_t id) const {
  auto added = added_by_id_.find(id);
  return added != added_by_id_.end() && added->second->special;
}

std::string TokenizerImpl::decode(std::span<const uint32_t> ids, bool skip_special) const {
  std::string text;
  for (uint32_t id : ids) {
    if (auto added = added_by_id_.find(id); added != added_by_id_.end()) {
      if (!skip_special || !added->second->special) text += added->second->content;
    } else if (id < parts_.model.tokens().size()) {
      text += parts_.model.bytes_of(id);
    }
  }
  return text;
}

std::unique_ptr<Encoder> Encoder::create(std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_unique<EncoderImpl>(std::static_pointer_cast<const TokenizerImpl>(std::move(tokenizer)));
}

}  // namespace cairn::dataset
