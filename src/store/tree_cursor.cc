#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/check.h"
#include "store/paths.h"
#include "store/tree_node.h"
#include "store/tree_reader.h"

namespace cairn::store {

struct TreeCursor::State {
  State(NodeSource& s, const RootRef& r, Deadline d) : source(&s), root(r), deadline(std::move(d)) {}

  struct Step {
    std::shared_ptr<const Node> node;
    size_t at = 0;
  };

  NodeSource* source;
  RootRef root;
  Deadline deadline;
  std::vector<Step> steps;  // from the root to the leaf; empty: past the end

  Status push(const NodeRef& ref, const std::string_view* first_path);
  // Goes down to the first entry of the child the last step stands at.
  Status go_down();
  // After the leaf's end: to the next leaf, if there is one.
  Status settle();

  // To the first entry for which `reached` holds; it must hold for all entries from some point on.
  template <class Reached>
  Status seek(const Reached& reached);
};

Status TreeCursor::State::push(const NodeRef& ref, const std::string_view* first_path) {
  auto read = source->read_node(ref, deadline);
  if (!read) {
    steps.clear();
    return read.error();
  }
  std::shared_ptr<const Node> node = *std::move(read);
  if (first_path != nullptr && node->first_path() != *first_path) {
    Error error(Code::kDataCorrupt, fmt::format("a tree node starts at '{}', its parent says '{}'",
                                                escape_for_display(node->first_path()), escape_for_display(*first_path)));
    steps.clear();
    return error;
  }
  steps.push_back({std::move(node), 0});
  return ok();
}

Status TreeCursor::State::go_down() {
  while (steps.back().node->level() > 0) {
    const Child& child = steps.back().node->children()[steps.back().at];
    CAIRN_CHECK_OK(push(child.ref, &child.first_path));
  }
  return ok();
}

Status TreeCursor::State::settle() {
  if (steps.back().at < steps.back().node->entries().size()) return ok();
  steps.pop_back();
  while (!steps.empty() && steps.back().at + 1 >= steps.back().node->children().size()) steps.pop_back();
  if (steps.empty()) return ok();
  ++steps.back().at;
  return go_down();
}

template <class Reached>
Status TreeCursor::State::seek(const Reached& reached) {
  auto before = [&](const auto& item) {
    if constexpr (requires { item.first_path; }) {
      return !reached(item.first_path);
    } else {
      return !reached(item.path);
    }
  };
  if (!steps.empty()) {
    // Near moves stay in the leaf.
    const auto& entries = steps.back().node->entries();
    if (before(entries.front()) && !before(entries.back())) {
      steps.back().at = static_cast<size_t>(std::partition_point(entries.begin(), entries.end(), before) - entries.begin());
      return ok();
    }
  }
  steps.clear();
  if (root.counts.entries == 0) return ok();
  CAIRN_CHECK_OK(push(root, nullptr));
  while (steps.back().node->level() > 0) {
    const auto& children = steps.back().node->children();
    size_t next = static_cast<size_t>(std::partition_point(children.begin(), children.end(), before) - children.begin());
    steps.back().at = next == 0 ? 0 : next - 1;
    const Child& child = children[steps.back().at];
    CAIRN_CHECK_OK(push(child.ref, &child.first_path));
  }
  const auto& entries = steps.back().node->entries();
  steps.back().at = static_cast<size_t>(std::partition_point(entries.begin(), entries.end(), before) - entries.begin());
  return settle();
}

TreeCursor::TreeCursor(NodeSource& source, const RootRef& root, Deadline deadline)
    : state_(std::make_unique<State>(source, root, std::move(deadline))) {}
TreeCursor::~TreeCursor() = default;
TreeCursor::TreeCursor(TreeCursor&&) noexcept = default;
TreeCursor& TreeCursor::operator=(TreeCursor&&) noexcept = default;

Status TreeCursor::seek(std::string_view path) {
  return state_->seek([path](std::string_view other) { return path_compare(other, path) >= 0; });
}

Status TreeCursor::seek_past(std::string_view path) {
  return state_->seek([path](std::string_view other) { return compare_to_subtree(other, path) > 0; });
}

bool TreeCursor::valid() const { return !state_->steps.empty(); }

const EntryView& TreeCursor::entry() const {
  CAIRN_CHECK(valid());
  return state_->steps.back().node->entries()[state_->steps.back().at];
}

Status TreeCursor::next() {
  CAIRN_CHECK(valid());
  ++state_->steps.back().at;
  return state_->settle();
}

struct ChunkCursor::State {
  struct Step {
    std::shared_ptr<const ListNode> node;
    size_t at = 0;
  };

  NodeSource* source = nullptr;
  Deadline deadline = Deadline::never();
  EntryView entry;
  uint64_t skip = 0;  // chunks still to be passed over
  bool started = false;
  std::vector<Step> steps;
  std::shared_ptr<const ListNode> current;

  Status push(const ListRef& ref);
  Result<std::span<const ChunkRef>> next_of_list();
};

Status ChunkCursor::State::push(const ListRef& ref) {
  CAIRN_TRY(auto node, source->read_list(ref, deadline));
  steps.push_back({std::move(node), 0});
  return ok();
}

Result<std::span<const ChunkRef>> ChunkCursor::State::next_of_list() {
  if (!started) {
    started = true;
    CAIRN_CHECK_OK(push(*entry.list));
    if (steps.back().node->bytes() != entry.size) {
      return Error(Code::kDataCorrupt, fmt::format("the chunk list of '{}' is not as long as the file",
                                                   escape_for_display(entry.path)));
    }
  }
  while (!steps.empty()) {
    Step& step = steps.back();
    if (step.node->depth() == 1) {
      current = step.node;
      steps.pop_back();
      std::span<const ChunkRef> chunks(current->chunks());
      size_t skipped = std::min<uint64_t>(skip, chunks.size());
      skip -= skipped;
      if (skipped < chunks.size()) return chunks.subspan(skipped);
      continue;
    }
    if (step.at == step.node->children().size()) {
      steps.pop_back();
      continue;
    }
    const ListChild& child = step.node->children()[step.at++];
    if (skip >= child.chunk_count) {
      skip -= child.chunk_count;
      continue;
    }
    auto depth = static_cast<uint8_t>(step.node->depth() - 1);
    CAIRN_CHECK_OK(push(ListRef{child.digest, depth, child.chunk_count, child.frame}));
  }
  return std::span<const ChunkRef>();
}

ChunkCursor::ChunkCursor(NodeSource& source, const EntryView& entry, Deadline deadline, uint64_t first)
    : state_(std::make_unique<State>()) {
  state_->source = &source;
  state_->deadline = std::move(deadline);
  state_->entry = entry;
  state_->skip = first;
}

ChunkCursor::~ChunkCursor() = default;

Result<std::span<const ChunkRef>> ChunkCursor::next() {
  State& s = *state_;
  if (s.entry.list != nullptr) return s.next_of_list();
  if (s.started) return std::span<const ChunkRef>();
  s.started = true;
  return s.entry.chunks.subspan(std::min<uint64_t>(s.skip, s.entry.chunks.size()));
}

}  // namespace cairn::store
