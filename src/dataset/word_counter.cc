#include "dataset/word_counter.h"

#include <array>
#include <mutex>
#include <optional>

#include "dataset/string_table.h"
#include "dataset/unicode_classes.h"
#include "dataset/utf8_repair.h"

namespace cairn::dataset {
namespace {

constexpr size_t kShards = 64;
constexpr size_t kPiecesAtOnce = 4096;

struct Counts {
  StringTable words;
  std::vector<uint64_t> counts;

  void add(std::string_view word, uint64_t hash, uint64_t count) {
    const uint32_t number = words.add(word, hash);
    if (number == counts.size()) counts.push_back(0);
    counts[number] += count;
  }
};

struct Shard {
  std::mutex mutex;
  Counts counts;
};

size_t shard_of(uint64_t hash) { return hash >> 58; }
static_assert(kShards == 64);

// Of one thread.
struct Counter {
  std::unique_ptr<Splitter> splitter;
  Counts block;
  std::string repaired, normalized;
  std::vector<size_t> ends;
  uint64_t documents = 0, text_bytes = 0, total = 0, long_left_out = 0;

  Status add_document(std::string_view text, size_t word_bytes_max) {
    ++documents;
    text_bytes += text.size();
    if (well_formed_prefix(text) != text.size()) {
      repair_utf8(text, repaired, nullptr);
      text = repaired;
    }
    if (!is_nfc(text)) {
      CAIRN_CHECK_OK(to_nfc(text, normalized, nullptr));
      text = normalized;
    }
    size_t begin = 0;
    for (size_t from = 0; from < text.size();) {
      ends.clear();
      CAIRN_CHECK_OK(splitter->split(text, from, kPiecesAtOnce, ends));
      for (size_t end : ends) {
        std::string_view word = text.substr(begin, end - begin);
        begin = end;
        if (word.size() > word_bytes_max) {
          ++long_left_out;
        } else {
          block.add(word, StringTable::hash_of(word), 1);
        }
      }
      total += ends.size();
    }
    return ok();
  }
};

class WordCounter {
 public:
  WordCounter(DocumentSource& source, const std::string& text_key, const WordCountLimits& limits, const std::function<void(uint64_t)>& progress)
      : source_(source), text_key_(text_key), limits_(limits), progress_(progress) {}

  Result<CountedWords> run(const std::shared_ptr<const SplitPattern>& pattern, WorkerTeam& team) {
    std::vector<Counter> counters(team.size());
    for (Counter& counter : counters) counter.splitter = Splitter::create(pattern);
    while (!ended_) {
      taken_ = 0;
      team.run([&](size_t worker) { work(counters[worker]); });
      if (error_) return *std::move(error_);
      drop_rare();
    }
    return collect(counters);
  }

 private:
  // The next block of this round.
  bool take(DocumentBlock& block) {
    std::lock_guard lock(source_mutex_);
    if (ended_ || error_ || taken_ == limits_.blocks_a_round) return false;
    Result<bool> more = source_.next(block);
    if (!more) {
      error_ = std::move(more).error();
      return false;
    }
    if (!*more) {
      ended_ = true;
      return false;
    }
    ++taken_;
    read_bytes_ += block.read_bytes;
    if (progress_) progress_(read_bytes_);
    return true;
  }

  void work(Counter& counter) {
    DocumentBlock block;
    while (take(block)) {
      Status counted = documents_of(block, text_key_, [&](std::string_view text) { return counter.add_document(text, limits_.word_bytes_max); });
      if (!counted) {
        std::lock_guard lock(source_mutex_);
        if (!error_) error_ = std::move(counted).error();
        return;
      }
      hand_over(counter.block);
    }
  }

  void hand_over(Counts& block) {
    std::array<std::vector<uint32_t>, kShards> numbers;
    for (uint32_t number = 0; number < block.words.size(); ++number) numbers[shard_of(StringTable::hash_of(block.words[number]))].push_back(number);
    for (size_t i = 0; i < kShards; ++i) {
      std::lock_guard lock(shards_[i].mutex);
      for (uint32_t number : numbers[i]) {
        std::string_view word = block.words[number];
        shards_[i].counts.add(word, StringTable::hash_of(word), block.counts[number]);
      }
    }
    block.words.clear();
    block.counts.clear();
  }

  void drop_rare() {
    for (uint64_t least = 2;; least *= 2) {
      size_t words = 0, bytes = 0;
      for (const Shard& shard : shards_) {
        words += shard.counts.words.size();
        bytes += shard.counts.words.bytes();
      }
      if (words <= limits_.words_max && bytes <= limits_.bytes_max) return;
      for (Shard& shard : shards_) {
        Counts kept;
        for (uint32_t number = 0; number < shard.counts.words.size(); ++number) {
          std::string_view word = shard.counts.words[number];
          if (shard.counts.counts[number] >= least) {
            kept.add(word, StringTable::hash_of(word), shard.counts.counts[number]);
          } else {
            ++rare_dropped_;
          }
        }
        shard.counts = std::move(kept);
      }
    }
  }

  CountedWords collect(const std::vector<Counter>& counters) {
    CountedWords all;
    all.rare_dropped = rare_dropped_;
    for (const Counter& counter : counters) {
      all.documents += counter.documents;
      all.text_bytes += counter.text_bytes;
      all.total += counter.total;
      all.long_left_out += counter.long_left_out;
    }
    for (Shard& shard : shards_) {
      for (uint32_t number = 0; number < shard.counts.words.size(); ++number) {
        all.bytes.append(shard.counts.words[number]);
        all.ends.push_back(all.bytes.size());
        all.counts.push_back(shard.counts.counts[number]);
      }
      shard.counts = Counts();
    }
    return all;
  }

  DocumentSource& source_;
  const std::string& text_key_;
  const WordCountLimits& limits_;
  const std::function<void(uint64_t)>& progress_;

  std::mutex source_mutex_;  // the source and the members up to the blank line
  size_t taken_ = 0;
  uint64_t read_bytes_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;

  std::array<Shard, kShards> shards_;
  uint64_t rare_dropped_ = 0;
};

}  // namespace

Result<CountedWords> count_words(DocumentSource& source, const std::string& text_key, const std::shared_ptr<const SplitPattern>& pattern,
                                 const WordCountLimits& limits, WorkerTeam& team, const std::function<void(uint64_t)>& progress) {
  return WordCounter(source, text_key, limits, progress).run(pattern, team);
}

}  // namespace cairn::dataset
