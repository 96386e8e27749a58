#include "store/diff.h"

#include <memory>
#include <vector>

#include "store/paths.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {

// One side's position: an entry, or a subtree that has not been opened yet.
class Side {
 public:
  Side(NodeSource& source, const Deadline& deadline) : source_(source), deadline_(deadline) {}

  Status start(const RootRef& root) { return root.counts.entries == 0 ? ok() : open(root); }
  bool at_end() const { return steps_.empty(); }
  bool at_subtree() const { return steps_.back().node->level() > 0; }
  const Child& subtree() const { return steps_.back().node->children()[steps_.back().at]; }
  const EntryView& entry() const { return steps_.back().node->entries()[steps_.back().at]; }
  std::string_view path() const { return at_subtree() ? subtree().first_path : entry().path; }

  Status expand() {
    NodeRef ref = subtree().ref;
    return open(ref);
  }
  void skip() {
    ++steps_.back().at;
    while (!steps_.empty() && steps_.back().at == size(*steps_.back().node)) {
      steps_.pop_back();
      if (!steps_.empty()) ++steps_.back().at;
    }
  }

 private:
  struct Step {
    std::shared_ptr<const Node> node;
    size_t at = 0;
  };
  static size_t size(const Node& node) { return node.level() > 0 ? node.children().size() : node.entries().size(); }
  Status open(const NodeRef& ref) {
    CAIRN_TRY(auto node, source_.read_node(ref, deadline_));
    steps_.push_back({std::move(node), 0});
    return ok();
  }

  NodeSource& source_;
  const Deadline& deadline_;
  std::vector<Step> steps_;
};

// Both sides stand at something, at least one at a subtree: skips what is equal or opens what stands in the way. The views of
// an entry that is reported on its own are handed to `sink`.
Status step_subtrees(Side& a, Side& b, DiffSink& sink) {
  if (a.at_subtree() && b.at_subtree()) {
    const NodeRef& x = a.subtree().ref;
    const NodeRef& y = b.subtree().ref;
    if (x.digest == y.digest) {
      a.skip();
      b.skip();
      return ok();
    }
    int order = path_compare(a.path(), b.path());
    bool open_a = x.level > y.level || (x.level == y.level && order <= 0);
    bool open_b = y.level > x.level || (x.level == y.level && order >= 0);
    if (open_a) CAIRN_CHECK_OK(a.expand());
    if (open_b) CAIRN_CHECK_OK(b.expand());
    return ok();
  }
  bool a_is_entry = !a.at_subtree();
  Side& entry_side = a_is_entry ? a : b;
  Side& tree_side = a_is_entry ? b : a;
  if (path_compare(entry_side.path(), tree_side.path()) >= 0) return tree_side.expand();
  const EntryView* entry = &entry_side.entry();
  CAIRN_CHECK_OK(sink.on_change(a_is_entry ? entry : nullptr, a_is_entry ? nullptr : entry));
  entry_side.skip();
  return ok();
}

Status step_entries(Side& a, Side& b, DiffSink& sink) {
  const EntryView& x = a.entry();
  const EntryView& y = b.entry();
  int order = path_compare(x.path, y.path);
  if (order != 0 || !same_content(x, y)) {
    CAIRN_CHECK_OK(sink.on_change(order <= 0 ? &x : nullptr, order >= 0 ? &y : nullptr));
  }
  if (order <= 0) a.skip();
  if (order >= 0) b.skip();
  return ok();
}

Status report_rest(Side& side, bool removed, DiffSink& sink) {
  while (!side.at_end()) {
    if (side.at_subtree()) {
      CAIRN_CHECK_OK(side.expand());
      continue;
    }
    const EntryView* entry = &side.entry();
    CAIRN_CHECK_OK(sink.on_change(removed ? entry : nullptr, removed ? nullptr : entry));
    side.skip();
  }
  return ok();
}

}  // namespace

Status diff_trees(NodeSource& source, const RootRef& before, const RootRef& after, DiffSink& sink,
                  const Deadline& deadline) {
  if (before.digest == after.digest) return ok();
  Side a(source, deadline);
  Side b(source, deadline);
  CAIRN_CHECK_OK(a.start(before));
  CAIRN_CHECK_OK(b.start(after));
  while (!a.at_end() && !b.at_end()) {
    CAIRN_CHECK_OK(a.at_subtree() || b.at_subtree() ? step_subtrees(a, b, sink) : step_entries(a, b, sink));
  }
  CAIRN_CHECK_OK(report_rest(a, true, sink));
  return report_rest(b, false, sink);
}

}  // namespace cairn::store
