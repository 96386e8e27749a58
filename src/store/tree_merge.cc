#include "store/tree_merge.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "store/paths.h"
#include "store/tree_builder.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {

Error invalid(std::string what) { return Error(Code::kChangesetInvalid, std::move(what)); }

// Walks the base tree and the changes side by side. `current_` is the next change that was not applied yet; `removing_` is the
// last delete prefix, as long as entries of the base may still lie below it.
class Merger {
 public:
  Merger(NodeSource& source, ChangeSource& changes, NodeSink& sink, PlaceChecker* checker, const Deadline& deadline,
         const MergeOptions& options)
      : source_(source),
        changes_(changes),
        checker_(checker),
        deadline_(deadline),
        options_(options),
        builder_(source, sink, deadline, options.entries_max),
        lists_(sink) {}

  Result<MergeResult> run(const RootRef& base);

 private:
  using UpperBound = std::optional<std::string_view>;  // first key after; nothing: open-ended

  Status advance();
  bool change_before(const UpperBound& end) const {
    return has_current_ && (!end || path_compare(current_.entry.path, *end) < 0);
  }
  Status walk(const NodeRef& ref, std::string_view first_path, const UpperBound& end);
  Status descend(const NodeRef& ref, const std::string_view* first_path, const UpperBound& end);
  Status merge_leaf(const Node& leaf, const UpperBound& end);
  // Applies the changes at and before `base`; true when the base's entry stays.
  Result<bool> merge_entry(const EntryView& base);
  // Applies changes for which the base has nothing.
  Status apply_before(const UpperBound& end);
  Status begin_removing(const std::string& prefix);
  bool is_removed(std::string_view path) const { return removing_ && is_at_or_under(path, *removing_); }
  Status put(const EntryView* base);
  Status take_chunks(Entry& entry);

  NodeSource& source_;
  ChangeSource& changes_;
  PlaceChecker* checker_;
  const Deadline& deadline_;
  MergeOptions options_;
  TreeBuilder builder_;
  ListWriter lists_;
  Change current_;
  bool has_current_ = false;
  std::string last_path_;
  bool last_was_prefix_ = false;
  std::optional<std::string> removing_;
  MergeResult result_;
};

Status Merger::advance() {
  CAIRN_TRY(has_current_, changes_.next(current_));
  if (!has_current_) return ok();
  const std::string& path = current_.entry.path;
  CAIRN_CHECK_OK(validate_path(path));
  int order = last_path_.empty() ? 1 : path_compare(path, last_path_);
  bool replaces = order == 0 && last_was_prefix_ && current_.kind == Change::Kind::kPut;
  if (order < 0 || (order == 0 && !replaces) || current_.first_chunk != 0) {
    return invalid(fmt::format("the changes are not sorted at '{}'", escape_for_display(path)));
  }
  last_path_ = path;
  last_was_prefix_ = current_.kind == Change::Kind::kDeletePrefix;
  return ok();
}

Result<MergeResult> Merger::run(const RootRef& base) {
  CAIRN_CHECK_OK(advance());
  if (!has_current_) {
    result_.root = base;
    return result_;
  }
  if (base.counts.entries > 0) CAIRN_CHECK_OK(descend(base, nullptr, std::nullopt));
  CAIRN_CHECK_OK(apply_before(std::nullopt));
  CAIRN_TRY(result_.root, builder_.finish());
  if (options_.keep_base_places && result_.root.digest == base.digest) {
    // Nothing changed: the base's own node serves, and nothing new is needed.
    result_.root = base;
    return result_;
  }
  result_.nodes_written = builder_.nodes_written();
  result_.lists_written = lists_.lists_written();
  result_.packs_named_by_new_nodes.assign(builder_.packs().begin(), builder_.packs().end());
  std::sort(result_.packs_named_by_new_nodes.begin(), result_.packs_named_by_new_nodes.end());
  return result_;
}

Status Merger::walk(const NodeRef& ref, std::string_view first_path, const UpperBound& end) {
  if (removing_ && compare_to_subtree(first_path, *removing_) > 0) removing_.reset();
  if (removing_ && end && is_at_or_under(*end, *removing_)) {
    // All of it goes, unread.
    result_.entries_removed += ref.counts.entries;
    return apply_before(end);
  }
  if (!removing_ && !change_before(end) && builder_.at_cut(ref.level)) return builder_.add_subtree(first_path, ref);
  return descend(ref, &first_path, end);
}

Status Merger::descend(const NodeRef& ref, const std::string_view* first_path, const UpperBound& end) {
  CAIRN_TRY(auto node, source_.read_node(ref, deadline_));
  if (first_path != nullptr && node->first_path() != *first_path) {
    return Error(Code::kDataCorrupt, fmt::format("a tree node starts at '{}', its parent says '{}'",
                                                 escape_for_display(node->first_path()), escape_for_display(*first_path)));
  }
  if (options_.keep_base_places) builder_.remember(ref);
  if (node->level() == 0) return merge_leaf(*node, end);
  const std::vector<Child>& children = node->children();
  for (size_t i = 0; i < children.size(); ++i) {
    UpperBound child_end = i + 1 < children.size() ? UpperBound(children[i + 1].first_path) : end;
    CAIRN_CHECK_OK(walk(children[i].ref, children[i].first_path, child_end));
  }
  return ok();
}

Status Merger::merge_leaf(const Node& leaf, const UpperBound& end) {
  for (const EntryView& entry : leaf.entries()) {
    CAIRN_TRY(bool stays, merge_entry(entry));
    if (stays) CAIRN_CHECK_OK(builder_.add_entry(entry));
  }
  return apply_before(end);
}

Result<bool> Merger::merge_entry(const EntryView& base) {
  bool stays = true;
  while (has_current_) {
    int order = path_compare(current_.entry.path, base.path);
    if (order > 0) break;
    switch (current_.kind) {
      case Change::Kind::kDeletePrefix:
        CAIRN_CHECK_OK(begin_removing(current_.entry.path));
        break;
      case Change::Kind::kDelete:
        if (order == 0 && !is_removed(base.path)) {
          stays = false;
          ++result_.entries_removed;
        }
        break;
      case Change::Kind::kPut:
        if (order < 0) {
          CAIRN_CHECK_OK(put(nullptr));
        } else {
          CAIRN_CHECK_OK(put(is_removed(base.path) ? nullptr : &base));
          stays = false;
        }
        break;
    }
    CAIRN_CHECK_OK(advance());
  }
  if (stays && is_removed(base.path)) {
    ++result_.entries_removed;
    return false;
  }
  return stays;
}

Status Merger::apply_before(const UpperBound& end) {
  while (change_before(end)) {
    if (current_.kind == Change::Kind::kPut) CAIRN_CHECK_OK(put(nullptr));
    if (current_.kind == Change::Kind::kDeletePrefix) CAIRN_CHECK_OK(begin_removing(current_.entry.path));
    CAIRN_CHECK_OK(advance());
  }
  return ok();
}

Status Merger::begin_removing(const std::string& prefix) {
  if (!is_removed(prefix)) removing_ = prefix;
  return ok();
}

Status Merger::put(const EntryView* base) {
  Entry& entry = current_.entry;
  if (entry.mode > 07777) return invalid(fmt::format("mode {:o} holds more than permission bits", entry.mode));
  switch (entry.kind) {
    case EntryKind::kFile:
      CAIRN_CHECK_OK(take_chunks(entry));
      break;
    case EntryKind::kDirectory:
      break;
    case EntryKind::kSymlink:
      CAIRN_CHECK_OK(validate_symlink_target(entry.target));
      break;
  }
  if (base != nullptr && options_.keep_base_places && same_content(*base, entry)) {
    lists_.take_packs();
    return builder_.add_entry(*base);
  }
  PackSet named = lists_.take_packs();
  builder_.packs().insert(named.begin(), named.end());
  ++result_.entries_put;
  return builder_.add_entry(entry);
}

Status Merger::take_chunks(Entry& entry) {
  entry.chunks.clear();
  if (entry.list) {
    if (entry.list->chunk_count != entry.chunk_count || entry.chunk_count <= limits::kInlineChunksMax) {
      return invalid("a chunk list is not that of its file");
    }
    return ok();
  }
  bool listed = entry.chunk_count > limits::kInlineChunksMax;
  uint64_t count = 0;
  uint64_t bytes = 0;
  while (entry.chunk_count > 0) {
    CAIRN_TRY(auto chunks, changes_.next_chunks());
    if (chunks.empty()) break;
    CAIRN_CHECK_OK(deadline_.check());
    if (chunks.size() > entry.chunk_count - count) return invalid("a file has more chunks than it says");
    for (const ChunkRef& chunk : chunks) {
      if (chunk.raw_len == 0 || chunk.raw_len > limits::kChunkBytesMax) return invalid("a chunk is empty or too long");
      if (checker_ != nullptr) CAIRN_CHECK_OK(checker_->check(chunk));
      bytes += chunk.raw_len;
      if (listed) {
        CAIRN_CHECK_OK(lists_.add(chunk));
      } else {
        entry.chunks.push_back(chunk);
      }
    }
    count += chunks.size();
  }
  if (count != entry.chunk_count || bytes != entry.size || bytes > limits::kFileBytesMax) {
    return invalid(fmt::format("'{}' says {} bytes in {} chunks, but has {} bytes in {}", escape_for_display(entry.path),
                               entry.size, entry.chunk_count, bytes, count));
  }
  if (listed) {
    CAIRN_TRY(entry.list, lists_.finish());
  }
  return ok();
}

}  // namespace

Result<MergeResult> merge_changes(NodeSource& source, const RootRef& base, ChangeSource& changes, NodeSink& sink,
                                  PlaceChecker* checker, const Deadline& deadline, const MergeOptions& options) {
  Merger merger(source, changes, sink, checker, deadline, options);
  CAIRN_TRY(MergeResult result, merger.run(base));
  CAIRN_CHECK_OK(sink.finish());
  return result;
}

}  // namespace cairn::store
