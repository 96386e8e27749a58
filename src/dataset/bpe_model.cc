#include "dataset/bpe_model.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "dataset/byte_alphabet.h"

namespace cairn::dataset {
namespace {

constexpr size_t kShortWord = 48;  // bytes; longer words take the heap

uint64_t mix(uint64_t value) {
  value *= 0x9E3779B97F4A7C15u;
  return value ^ value >> 29;
}

}  // namespace

Result<BpeModel> BpeModel::create(StringTable tokens, const std::vector<std::array<uint32_t, 2>>& merges, bool whole_words_first,
                                  const std::string& name) {
  BpeModel model;
  model.tokens_ = std::move(tokens);
  model.whole_words_first_ = whole_words_first;
  model.begins_.reserve(model.tokens_.size() + 1);
  model.begins_.push_back(0);
  for (uint32_t id = 0; id < model.tokens_.size(); ++id) {
    std::optional<std::string> bytes = bytes_of_spelling(model.tokens_[id]);
    if (bytes) {
      model.bytes_.append(*bytes);
    } else {
      model.bytes_.append(model.tokens_[id]);
    }
    model.begins_.push_back(model.bytes_.size());
  }
  model.has_all_bytes_ = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char text[1] = {static_cast<char>(byte)};
    model.byte_ids_[byte] = model.tokens_.find(spell_bytes(std::string_view(text, 1)));
    if (model.byte_ids_[byte] == kNoId) model.has_all_bytes_ = false;
  }

  model.merges_.resize(std::bit_ceil(merges.size() * 2 + 16));
  const size_t mask = model.merges_.size() - 1;
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    auto [left, right] = merges[rank];
    joined.assign(model.tokens_[left]).append(model.tokens_[right]);
    const uint32_t id = model.tokens_.find(joined);
    if (id == kNoId) {
      return Error(Code::kDataInvalid, fmt::format("{}: merge {} makes '{}', which is not in the vocabulary", name, rank, joined));
    }
    const uint64_t pair = uint64_t{left} << 32 | right;
    size_t slot = mix(pair) & mask;
    while (model.merges_[slot].pair != kFree && model.merges_[slot].pair != pair) slot = (slot + 1) & mask;
    model.merges_[slot] = {pair, static_cast<uint32_t>(rank), id};  // of a merge given twice the last rank counts, as in Hugging Face's
  }
  return model;
}

BpeModel::Merge BpeModel::merge_of(uint32_t left, uint32_t right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  const size_t mask = merges_.size() - 1;
  size_t slot = mix(pair) & mask;
  while (true) {
    const Merge& merge = merges_[slot];
    if (merge.pair == pair) return merge;
    if (merge.pair == kFree) return {};
    slot = (slot + 1) & mask;
  }
}

void BpeModel::encode(std::string_view word, BpeScratch& scratch, std::vector<uint32_t>& ids) const {
  if (whole_words_first_) {
    if (uint32_t id = tokens_.find(spell_bytes(word)); id != kNoId) {
      ids.push_back(id);
      return;
    }
  }
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (char byte : word) {
    const uint32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id == kNoId) continue;
    const auto at = static_cast<uint32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1, kNoRank});
  }
  if (symbols.size() > 1) {
    if (symbols.size() <= kShortWord) {
      merge_short(scratch);
    } else {
      merge_long(scratch);
    }
  }
  for (const BpeScratch::Symbol& symbol : symbols) {
    if (symbol.id != kNoId) ids.push_back(symbol.id);
  }
}

// Symbols lie side by side; the lowest rank is looked for anew each time.
void BpeModel::merge_short(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) symbols[i].rank = merge_of(symbols[i].id, symbols[i + 1].id).rank;
  symbols[count - 1].rank = kNoRank;
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (symbols[i].rank < symbols[best].rank) best = i;
    }
    if (symbols[best].rank == kNoRank) break;
    symbols[best].id = merge_of(symbols[best].id, symbols[best + 1].id).id;
    for (size_t i = best + 1; i + 1 < count; ++i) symbols[i] = symbols[i + 1];
    --count;
    symbols[best].rank = best + 1 < count ? merge_of(symbols[best].id, symbols[best + 1].id).rank : kNoRank;
    if (best > 0) symbols[best - 1].rank = merge_of(symbols[best - 1].id, symbols[best].id).rank;
  }
  symbols.resize(count);
}

// O(n log n): a linked list and a heap of candidates, of which those that no longer hold are dropped when they come up.
void BpeModel::merge_long(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<BpeScratch::Candidate>& heap = scratch.heap;
  const auto end = static_cast<uint32_t>(symbols.size());
  auto later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  heap.clear();
  auto consider = [&](uint32_t position, bool push) {
    BpeScratch::Symbol& symbol = symbols[position];
    const Merge merge = symbol.next < end ? merge_of(symbol.id, symbols[symbol.next].id) : Merge{};
    symbol.rank = merge.rank;
    if (merge.rank == kNoRank) return;
    heap.push_back({merge.rank, position, merge.id});
    if (push) std::push_heap(heap.begin(), heap.end(), later);
  };
  for (uint32_t i = 0; i < end; ++i) consider(i, false);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    const BpeScratch::Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), later);
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[top.position];
    if (left.id == kNoId || left.rank != top.rank) continue;
    BpeScratch::Symbol& right = symbols[left.next];
    left.id = top.id;
    left.next = right.next;
    right.id = kNoId;
    if (left.next < end) symbols[left.next].prev = top.position;
    consider(top.position, true);
    if (left.prev < end) consider(left.prev, true);
  }
  std::erase_if(symbols, [](const BpeScratch::Symbol& symbol) { return symbol.id == kNoId; });
}

}  // namespace cairn::dataset
