// Changes held in memory as a ChangeSource: for changes the server makes itself (rm, mkdir, mv, restore of a path) and for
// tests. Bounded by whoever fills it. Used by one thread at a time.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "store/changeset.h"
#include "store/paths.h"

namespace cairn::store {

class ChangeList final : public ChangeSource {
 public:
  // A file brings its chunks in `entry.chunks`, or a list in `entry.list` that is taken over as it is.
  void put(Entry entry) { changes_.push_back({Change::Kind::kPut, std::move(entry)}); }
  void remove(std::string path) { add_path(Change::Kind::kDelete, std::move(path)); }
  void remove_prefix(std::string path) { add_path(Change::Kind::kDeletePrefix, std::move(path)); }

  // Brings the changes into the order a merge wants; a delete prefix stays before a put of the same path.
  void sort() {
    std::stable_sort(changes_.begin(), changes_.end(), [](const Item& a, const Item& b) {
      int order = path_compare(a.entry.path, b.entry.path);
      return order != 0 ? order < 0 : a.kind == Change::Kind::kDeletePrefix && b.kind != Change::Kind::kDeletePrefix;
    });
  }
  // To the start again.
  void rewind() { at_ = 0; }
  size_t size() const { return changes_.size(); }

  Result<bool> next(Change& change) override {
    if (at_ == changes_.size()) return false;
    const Item& item = changes_[at_++];
    change = Change();
    change.kind = item.kind;
    change.entry = item.entry;
    change.entry.chunks.clear();
    chunks_at_ = 0;
    return true;
  }
  Result<std::span<const ChunkRef>> next_chunks() override {
    std::span<const ChunkRef> all(changes_[at_ - 1].entry.chunks);
    std::span<const ChunkRef> some = all.subspan(chunks_at_, std::min<size_t>(kChunksPerSegmentMax, all.size() - chunks_at_));
    chunks_at_ += some.size();
    return some;
  }

 private:
  struct Item {
    Change::Kind kind;
    Entry entry;
  };
  void add_path(Change::Kind kind, std::string path) {
    Entry entry;
    entry.path = std::move(path);
    changes_.push_back({kind, std::move(entry)});
  }

  std::vector<Item> changes_;
  size_t at_ = 0;
  size_t chunks_at_ = 0;
};

}  // namespace cairn::store
