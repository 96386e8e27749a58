// Merges a sorted stream of changes into a tree and writes the nodes that are new. The result has the same digest as a tree
// built from the resulting entries in one go, whatever the history. Subtrees in whose key range no change falls are reused
// without being read; nodes are reused only from `base`, never by hash.
//
// Memory is bounded: one open node a level, one pack under construction, one list path, the set of named packs.
// Everything runs on the caller's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/deadline.h"
#include "base/limits.h"
#include "base/result.h"
#include "store/changeset.h"
#include "store/node_source.h"
#include "store/pack.h"
#include "store/types.h"

namespace cairn::store {

// Called for each chunk a changeset names, before the tree names it: volume's rules F2 and F8 (the pack belongs to this
// store and this writer may name it; its sealed index holds that hash with these lengths at that offset). An error ends
// the merge with it.
class PlaceChecker {
 public:
  virtual ~PlaceChecker() = default;
  virtual Status check(const ChunkRef& chunk) = 0;
};

// Issues ids for node packs and stores them, one PUT each. next() is called before a pack's first node, store() once when
// it is full or the merge ends well. A pack whose merge failed is not stored: its id stays unused.
class NodePackAllocator {
 public:
  virtual ~NodePackAllocator() = default;
  virtual Result<PackId> next() = 0;
  virtual Status store(const PackId& id, const BuiltPack& pack) = 0;
};

// Where new nodes and lists go.
class NodeSink {
 public:
  virtual ~NodeSink() = default;
  virtual Result<FrameRef> add(ByteView raw) = 0;
  // Everything added before is durable when this returns well.
  virtual Status finish() = 0;
};

// The NodeSink that fills node packs. `allocator` must outlive it.
class NodePackWriter final : public NodeSink {
 public:
  explicit NodePackWriter(NodePackAllocator& allocator, uint64_t pack_bytes_target = limits::kPackBytesTarget);
  ~NodePackWriter() override;
  Result<FrameRef> add(ByteView raw) override;
  Status finish() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct MergeOptions {
  // An entry that is put with the content it already has keeps the places it has, so that nothing is rewritten for it. False
  // takes the new places (repair).
  bool keep_base_places = true;
  // kContentsExceedSize is the caller's to decide from `root.counts`; this bound only stops an endless merge.
  uint64_t entries_max = limits::kEntriesMax;
};

struct MergeResult {
  RootRef root;
  uint64_t entries_put = 0;      // puts that changed something
  uint64_t entries_removed = 0;  // explicit entries that were there and are not any more, where they were read
  uint64_t nodes_written = 0;
  uint64_t lists_written = 0;
  // Every pack a new node or list names, the packs of the new nodes themselves included, sorted: what a publication must
  // touch (F1). Empty when the root is that of `base`.
  std::vector<PackId> packs_named_by_new_nodes;
};

// kPathTypeConflict names both paths when the result would have an entry below a file or symlink. `checker` may be null
// (server-side changes whose chunks come from kept roots). The sink is finished when this returns well.
Result<MergeResult> merge_changes(NodeSource& source, const RootRef& base, ChangeSource& changes, NodeSink& sink,
                                  PlaceChecker* checker, const Deadline& deadline, const MergeOptions& options = {});

}  // namespace cairn::store
