#include "dataset/bpe_trainer.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "dataset/byte_alphabet.h"

namespace cairn::dataset {
namespace {

constexpr size_t kWordsForAllThreads = 2048;  // fewer are changed faster by one
constexpr uint32_t kTokensAProgress = 256;

uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

// From pairs to entries numbered in the order in which they came.
class PairIndex {
 public:
  // The number of `pair`; `size()` before the call when it is new.
  uint32_t add(uint64_t pair) {
    if ((pairs_.size() + 1) * 2 > slots_.size()) grow();
    size_t slot = slot_of(pair);
    if (slots_[slot] == 0) {
      pairs_.push_back(pair);
      slots_[slot] = static_cast<uint32_t>(pairs_.size());
    }
    return slots_[slot] - 1;
  }
  uint64_t operator[](uint32_t number) const { return pairs_[number]; }
  size_t size() const { return pairs_.size(); }
  void clear() {
    if (pairs_.size() * 8 > slots_.size()) {
      std::fill(slots_.begin(), slots_.end(), 0);
    } else {  // backwards, so that each is found before the slots before it are freed
      for (size_t i = pairs_.size(); i > 0; --i) slots_[slot_of(pairs_[i - 1])] = 0;
    }
    pairs_.clear();
  }

 private:
  size_t slot_of(uint64_t pair) const {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    size_t slot = (hash ^ hash >> 29) & (slots_.size() - 1);
    while (slots_[slot] != 0 && pairs_[slots_[slot] - 1] != pair) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }
  void grow() {
    slots_.assign(std::max<size_t>(64, slots_.size() * 2), 0);
    for (size_t i = 0; i < pairs_.size(); ++i) slots_[slot_of(pairs_[i])] = static_cast<uint32_t>(i + 1);
  }

  std::vector<uint64_t> pairs_;
  std::vector<uint32_t> slots_;  // number + 1; 0: free
};

// What a step changes: how often pairs occur, and in which words there are new ones.
class Changes {
 public:
  struct Entry {
    int64_t delta = 0;
    std::vector<uint32_t> words;
  };
  void add(uint64_t pair, int64_t delta, uint32_t word) {
    Entry& entry = entry_of(pair);
    entry.delta += delta;
    if (delta > 0 && (entry.words.empty() || entry.words.back() != word)) entry.words.push_back(word);
  }
  void take(Changes& other) {
    for (uint32_t i = 0; i < other.index_.size(); ++i) {
      Entry& entry = entry_of(other.index_[i]);
      entry.delta += other.entries_[i].delta;
      std::vector<uint32_t>& words = other.entries_[i].words;
      if (entry.words.empty()) {
        entry.words = std::move(words);
      } else {
        entry.words.insert(entry.words.end(), words.begin(), words.end());
      }
    }
    other.clear();
  }
  size_t size() const { return index_.size(); }
  uint64_t pair(uint32_t number) const { return index_[number]; }
  Entry& entry(uint32_t number) { return entries_[number]; }
  void clear() {
    index_.clear();
    entries_.clear();
  }

 private:
  Entry& entry_of(uint64_t pair) {
    const uint32_t number = index_.add(pair);
    if (number == entries_.size()) entries_.emplace_back();
    return entries_[number];
  }

  PairIndex index_;
  std::vector<Entry> entries_;
};

class Learner {
 public:
  Learner(CountedWords words, WorkerTeam& team) : counts_(std::move(words.counts)), team_(team), changes_(team.size()) {
    std::array<unsigned char, 256> order{};
    std::iota(order.begin(), order.end(), static_cast<unsigned char>(0));
    const auto& characters = byte_characters();
    std::sort(order.begin(), order.end(), [&](unsigned char a, unsigned char b) { return characters[a] < characters[b]; });
    std::array<uint32_t, 256> ids{};
    for (unsigned char byte : order) {
      const char text[1] = {static_cast<char>(byte)};
      ids[byte] = learned_.tokens.add(std::string_view(text, 1));
    }
    symbols_.reserve(words.bytes.size());
    for (char byte : words.bytes) symbols_.push_back(ids[static_cast<unsigned char>(byte)]);
    begins_.reserve(words.ends.size());
    lengths_.reserve(words.ends.size());
    size_t begin = 0;
    for (size_t end : words.ends) {
      begins_.push_back(begin);
      lengths_.push_back(static_cast<uint32_t>(end - begin));
      begin = end;
    }
  }

  LearnedBpe run(uint32_t vocab_size, uint64_t min_frequency, const std::function<void(uint32_t)>& progress) {
    count_pairs();
    uint32_t told = 0;
    while (learned_.tokens.size() < vocab_size && !heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), comes_later);
      Candidate top = std::move(heap_.back());
      heap_.pop_back();
      const int64_t count = pair_counts_[pairs_.add(top.pair)];
      if (top.count != count) {  // it was overtaken: back into its place
        top.count = count;
        push(std::move(top));
        continue;
      }
      if (top.count < 1 || static_cast<uint64_t>(top.count) < min_frequency) break;
      merge(top);
      if (progress && learned_.tokens.size() >= told + kTokensAProgress) progress(told = learned_.tokens.size());
    }
    keep_last_ranks();
    return std::move(learned_);
  }

 private:
  // A pair and the words where it came up in one step; a pair whose parts come up again later has several.
  struct Candidate {
    int64_t count = 0;
    uint64_t pair = 0;
    uint64_t step = 0;
    std::vector<uint32_t> words;
  };
  static bool comes_later(const Candidate& a, const Candidate& b) {
    if (a.count != b.count) return a.count < b.count;
    if (a.pair != b.pair) return a.pair > b.pair;
    return a.step > b.step;
  }
  void push(Candidate candidate) {
    heap_.push_back(std::move(candidate));
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
  }

  void count_pairs() {
    team_.run([this](size_t worker) {
      const size_t first = lengths_.size() * worker / team_.size(), last = lengths_.size() * (worker + 1) / team_.size();
      for (size_t word = first; word < last; ++word) {
        const uint32_t* symbols = &symbols_[begins_[word]];
        for (uint32_t i = 0; i + 1 < lengths_[word]; ++i) {
          changes_[worker].add(pair_of(symbols[i], symbols[i + 1]), static_cast<int64_t>(counts_[word]), static_cast<uint32_t>(word));
        }
      }
    });
    apply_changes();
  }

  void merge(const Candidate& top) {
    const auto left = static_cast<uint32_t>(top.pair >> 32), right = static_cast<uint32_t>(top.pair);
    std::string joined(learned_.tokens[left]);
    joined += learned_.tokens[right];
    const uint32_t id = learned_.tokens.add(joined);  // may be there already, by other parts
    learned_.merges.push_back({left, right});
    if (top.words.size() < kWordsForAllThreads) {
      for (uint32_t word : top.words) merge_in(word, left, right, id, changes_[0]);
    } else {  // no word is named twice, so no two threads change the same one
      team_.run([&](size_t worker) {
        const size_t first = top.words.size() * worker / team_.size(), last = top.words.size() * (worker + 1) / team_.size();
        for (size_t i = first; i < last; ++i) merge_in(top.words[i], left, right, id, changes_[worker]);
      });
    }
    ++step_;
    apply_changes();
  }

  void merge_in(uint32_t word, uint32_t left, uint32_t right, uint32_t id, Changes& changes) {
    uint32_t* symbols = &symbols_[begins_[word]];
    const uint32_t length = lengths_[word];
    const auto count = static_cast<int64_t>(counts_[word]);
    uint32_t to = 0;
    for (uint32_t from = 0; from < length; ++to) {
      if (symbols[from] != left || from + 1 == length || symbols[from + 1] != right) {
        symbols[to] = symbols[from++];
        continue;
      }
      if (to > 0) {
        changes.add(pair_of(symbols[to - 1], left), -count, word);
        changes.add(pair_of(symbols[to - 1], id), count, word);
      }
      from += 2;
      if (from < length) {
        changes.add(pair_of(right, symbols[from]), -count, word);
        changes.add(pair_of(id, symbols[from]), count, word);
      }
      symbols[to] = id;
    }
    lengths_[word] = to;
  }

  void apply_changes() {
    for (size_t worker = 1; worker < changes_.size(); ++worker) changes_[0].take(changes_[worker]);
    for (uint32_t i = 0; i < changes_[0].size(); ++i) {
      const uint64_t pair = changes_[0].pair(i);
      Changes::Entry& entry = changes_[0].entry(i);
      const uint32_t number = pairs_.add(pair);
      if (number == pair_counts_.size()) pair_counts_.push_back(0);
      pair_counts_[number] += entry.delta;
      if (!entry.words.empty() && pair_counts_[number] > 0) push({pair_counts_[number], pair, step_, std::move(entry.words)});
    }
    changes_[0].clear();
  }

  // A pair that was merged twice keeps its last rank, as in Hugging Face's trainer.
  void keep_last_ranks() {
    PairIndex seen;
    std::vector<std::array<uint32_t, 2>> kept;
    for (auto merge = learned_.merges.rbegin(); merge != learned_.merges.rend(); ++merge) {
      const size_t before = seen.size();
      if (seen.add(pair_of((*merge)[0], (*merge)[1])) == before) kept.push_back(*merge);
    }
    learned_.merges.assign(kept.rbegin(), kept.rend());
  }

  std::vector<uint64_t> counts_;    // of each word
  std::vector<uint32_t> symbols_;   // of all words; each keeps its place while it shrinks
  std::vector<size_t> begins_;
  std::vector<uint32_t> lengths_;
  WorkerTeam& team_;
  std::vector<Changes> changes_;    // of each worker
  PairIndex pairs_;
  std::vector<int64_t> pair_counts_;
  std::vector<Candidate> heap_;
  uint64_t step_ = 0;
  LearnedBpe learned_;
};

}  // namespace

LearnedBpe learn_bpe(CountedWords words, uint32_t vocab_size, uint64_t min_frequency, WorkerTeam& team,
                     const std::function<void(uint32_t)>& progress) {
  return Learner(std::move(words), team).run(vocab_size, min_frequency, progress);
}

}  // namespace cairn::dataset
