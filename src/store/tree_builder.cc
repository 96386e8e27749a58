#include "store/tree_builder.h"

#include <fmt/format.h>

#include "base/check.h"
#include "store/paths.h"

namespace cairn::store {

namespace {

// Nodes of the base remembered a level: the one being taken apart and its neighbours.
constexpr size_t kRememberedMax = 4;

std::string_view kind_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile: return "a file";
    case EntryKind::kDirectory: return "a folder";
    case EntryKind::kSymlink: return "a symlink";
  }
  return "unknown";
}

}  // namespace

ListWriter::ListWriter(NodeSink& sink)
    : sink_(&sink), open_{ListNodeBuilder(1), ListNodeBuilder(2), ListNodeBuilder(3)} {}

Status ListWriter::add(const ChunkRef& chunk) {
  bool cut = open_[0].add_chunk(chunk);
  for (uint8_t depth = 1; cut; ++depth) {
    if (depth == limits::kListDepthMax) return Error(Code::kLimitExceeded, "a file has more chunks than a list can hold");
    CAIRN_TRY(ListRef closed, close(depth));
    ListChild child{closed.chunk_count, open_[depth - 1].bytes(), closed.digest, closed.frame};
    open_[depth - 1].clear();
    closed_any_[depth - 1] = true;
    cut = open_[depth].add_child(child);
  }
  return ok();
}

Result<ListRef> ListWriter::close(uint8_t depth) {
  ListNodeBuilder& open = open_[depth - 1];
  CAIRN_TRY(Bytes raw, open.encode());
  ListRef list;
  list.digest = open.digest();
  list.depth = depth;
  list.chunk_count = open.chunk_count();
  CAIRN_TRY(list.frame, sink_->add(raw));
  ++lists_written_;
  packs_.insert(open.packs().begin(), open.packs().end());
  packs_.insert(list.frame.place.pack);
  last_closed_ = list;
  return list;
}

Result<ListRef> ListWriter::finish() {
  ListRef root;
  for (uint8_t depth = 1; depth <= limits::kListDepthMax; ++depth) {
    ListNodeBuilder& open = open_[depth - 1];
    if (open.items() == 0) continue;
    bool top = !closed_any_[depth - 1];
    if (top && depth > 1 && open.items() == 1) {
      root = *last_closed_;  // one list alone needs none above it
      break;
    }
    CAIRN_TRY(root, close(depth));
    if (top) break;
    open_[depth].add_child(ListChild{root.chunk_count, open.bytes(), root.digest, root.frame});
  }
  for (ListNodeBuilder& open : open_) open.clear();
  closed_any_ = {};
  last_closed_.reset();
  return root;
}

TreeBuilder::TreeBuilder(NodeSource& source, NodeSink& sink, const Deadline& deadline, uint64_t entries_max)
    : source_(&source), sink_(&sink), deadline_(deadline), entries_max_(entries_max) {
  // One more than a tree may have: it only ever holds the root as its one child.
  levels_.reserve(limits::kTreeHeightMax + 1);
  for (uint8_t level = 0; level <= limits::kTreeHeightMax; ++level) levels_.emplace_back(level);
}

Status TreeBuilder::check_parent(std::string_view path) {
  if (last_path_.empty() || last_kind_ == EntryKind::kDirectory || !is_under(path, last_path_)) return ok();
  return Error(Code::kPathTypeConflict,
               fmt::format("'{}' cannot stand below '{}', which is {}", escape_for_display(path),
                           escape_for_display(last_path_), kind_name(last_kind_)),
               "remove or rename one of the two and try again");
}

Status TreeBuilder::add_entry(const EntryView& entry) {
  CAIRN_CHECK_OK(check_parent(entry.path));
  if (++entries_ > entries_max_) {
    return Error(Code::kLimitExceeded, fmt::format("a volume holds at most {} entries", entries_max_));
  }
  last_path_ = entry.path;
  last_kind_ = entry.kind;
  return levels_[0].open.add_entry(entry) ? close(0) : ok();
}

bool TreeBuilder::at_cut(uint8_t level) const {
  for (uint8_t i = 0; i <= level; ++i) {
    if (!levels_[i].open.empty()) return false;
  }
  return true;
}

Status TreeBuilder::add_subtree(std::string_view first_path, const NodeRef& subtree) {
  CAIRN_CHECK(at_cut(subtree.level));
  CAIRN_CHECK_OK(check_parent(first_path));
  last_path_.clear();
  entries_ += subtree.counts.entries;
  if (entries_ > entries_max_) {
    return Error(Code::kLimitExceeded, fmt::format("a volume holds at most {} entries", entries_max_));
  }
  for (uint8_t i = 0; i <= subtree.level; ++i) levels_[i].closed_any = true;
  return push_child(subtree.level + 1, first_path, subtree, true);
}

void TreeBuilder::remember(const NodeRef& node) {
  auto& remembered = levels_[node.level].remembered;
  remembered.push_back(node);
  if (remembered.size() > kRememberedMax) remembered.pop_front();
}

Status TreeBuilder::push_child(uint8_t level, std::string_view first_path, const NodeRef& child, bool reused) {
  Level& parent = levels_[level];
  if (parent.open.empty()) {
    parent.first_child = child;
    parent.first_child_reused = reused;
  }
  return parent.open.add_child(first_path, child) ? close(level) : ok();
}

Status TreeBuilder::close(uint8_t level) {
  if (level >= limits::kTreeHeightMax) return Error(Code::kLimitExceeded, "the tree would be higher than 16 levels");
  NodeBuilder& open = levels_[level].open;
  levels_[level].closed_any = true;
  NodeRef node;
  node.level = level;
  node.digest = open.digest();
  node.counts = open.counts();
  bool reused = false;
  for (const NodeRef& old : levels_[level].remembered) {
    if (old.digest != node.digest) continue;
    node = old;
    reused = true;
    break;
  }
  if (!reused) {
    CAIRN_CHECK_OK(deadline_.check());
    CAIRN_TRY(Bytes raw, open.encode());
    CAIRN_TRY(node.frame, sink_->add(raw));
    ++nodes_written_;
    packs_.insert(open.packs().begin(), open.packs().end());
    packs_.insert(node.frame.place.pack);
  }
  std::string first_path = open.first_path();
  open.clear();
  return push_child(level + 1, first_path, node, reused);
}

Result<RootRef> TreeBuilder::finish() {
  for (uint8_t level = 0; level <= limits::kTreeHeightMax; ++level) {
    Level& here = levels_[level];
    if (here.open.empty()) continue;
    if (level > 0 && here.open.items() == 1 && !here.closed_any) {
      if (!here.first_child_reused) return here.first_child;
      return collapse(here.first_child);
    }
    CAIRN_CHECK_OK(close(level));
  }
  return empty_root();
}

// Only a subtree of the base can have a single child at its top: the right-most node of a level that was longer once.
Result<RootRef> TreeBuilder::collapse(NodeRef root) {
  while (root.level > 0) {
    CAIRN_TRY(auto node, source_->read_node(root, deadline_));
    if (node->children().size() > 1) break;
    root = node->children().front().ref;
  }
  return root;
}

}  // namespace cairn::store
