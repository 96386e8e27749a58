// Builds a tree from sorted entries and whole subtrees of a base tree, level by level. Internal to store; merge_changes is the
// public face.
//
// Cuts depend only on what a node holds (is_node_boundary), so a subtree that stood in the base may be taken over whenever the
// builder stands at a cut on that level and all below it, and something cut the subtree's end too: the result is the tree a
// build from entries alone would give.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "store/node_source.h"
#include "store/tree_merge.h"
#include "store/tree_node.h"

namespace cairn::store {

using PackSet = std::unordered_set<PackId>;

// Writes the list chunks of one file with more than kInlineChunksMax chunks.
class ListWriter {
 public:
  explicit ListWriter(NodeSink& sink);
  Status add(const ChunkRef& chunk);
  // The list's root; the writer is then as new. REQUIRES: at least one chunk was added.
  Result<ListRef> finish();

  uint64_t lists_written() const { return lists_written_; }
  // Packs that the lists since the last take name, those of the lists themselves included.
  PackSet take_packs() { return std::exchange(packs_, {}); }

 private:
  // Writes the open list of that depth and hands it to the next.
  Result<ListRef> close(uint8_t depth);

  NodeSink* sink_;
  std::array<ListNodeBuilder, limits::kListDepthMax> open_;
  std::array<bool, limits::kListDepthMax> closed_any_{};
  std::optional<ListRef> last_closed_;
  uint64_t lists_written_ = 0;
  PackSet packs_;
};

class TreeBuilder {
 public:
  TreeBuilder(NodeSource& source, NodeSink& sink, const Deadline& deadline, uint64_t entries_max);

  // kPathTypeConflict when the entry lies below a file or symlink added just before.
  Status add_entry(const EntryView& entry);
  // True when nothing is open on `level` and below: add_subtree(level) is allowed.
  bool at_cut(uint8_t level) const;
  Status add_subtree(std::string_view first_path, const NodeRef& subtree);
  // A node of the base that is being taken apart: when a node with its digest comes out, the old one is kept.
  void remember(const NodeRef& node);

  Result<RootRef> finish();
  uint64_t nodes_written() const { return nodes_written_; }
  PackSet& packs() { return packs_; }

 private:
  struct Level {
    explicit Level(uint8_t level) : open(level) {}
    NodeBuilder open;
    NodeRef first_child;             // of the open node
    bool first_child_reused = false;
    bool closed_any = false;         // a node of this level or a higher one exists
    std::deque<NodeRef> remembered;  // the last few
  };

  Status check_parent(std::string_view path);
  Status close(uint8_t level);
  Status push_child(uint8_t level, std::string_view first_path, const NodeRef& child, bool reused);
  Result<RootRef> collapse(NodeRef root);

  NodeSource* source_;
  NodeSink* sink_;
  Deadline deadline_;
  uint64_t entries_max_;
  std::vector<Level> levels_;
  std::string last_path_;          // of the last entry; empty after a subtree
  EntryKind last_kind_ = EntryKind::kDirectory;
  uint64_t entries_ = 0;
  uint64_t nodes_written_ = 0;
  PackSet packs_;
};

}  // namespace cairn::store
