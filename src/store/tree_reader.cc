#include "store/tree_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "store/paths.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {

// Adds what of the node below `ref` lies at or under `prefix`. `end` is the first key after the node, if one is known.
Status add_counts(NodeSource& source, const NodeRef& ref, std::string_view prefix,
                  const std::optional<std::string_view>& end, const Deadline& deadline, Counts& counts) {
  CAIRN_TRY(auto node, source.read_node(ref, deadline));
  for (const EntryView& entry : node->entries()) {
    if (is_at_or_under(entry.path, prefix)) counts += entry.counts();
  }
  const std::vector<Child>& children = node->children();
  for (size_t i = 0; i < children.size(); ++i) {
    std::optional<std::string_view> child_end =
        i + 1 < children.size() ? std::optional(children[i + 1].first_path) : end;
    int start = compare_to_subtree(children[i].first_path, prefix);
    if (start > 0) break;
    if (child_end && path_compare(*child_end, prefix) <= 0) continue;
    if (start == 0 && child_end && is_at_or_under(*child_end, prefix)) {
      counts += children[i].ref.counts;
    } else {
      CAIRN_CHECK_OK(add_counts(source, children[i].ref, prefix, child_end, deadline, counts));
    }
  }
  return ok();
}

Entry without_chunks(const EntryView& view) {
  EntryView bare = view;
  bare.chunks = {};
  bare.list = nullptr;
  return bare.to_entry();
}

Entry implied_folder(std::string_view path) {
  Entry entry;
  entry.path = path;
  entry.kind = EntryKind::kDirectory;
  return entry;
}

}  // namespace

TreeReader::TreeReader(NodeSource& source, RootRef root, Deadline deadline)
    : source_(&source), root_(root), deadline_(std::move(deadline)) {}

Result<std::optional<Entry>> TreeReader::find(std::string_view path) {
  TreeCursor cursor(*source_, root_, deadline_);
  CAIRN_CHECK_OK(cursor.seek(path));
  if (!cursor.valid() || cursor.entry().path != path) return std::optional<Entry>();
  return std::optional<Entry>(cursor.entry().to_entry());
}

Result<std::optional<PathStat>> TreeReader::stat(std::string_view path) {
  PathStat stat{implied_folder(path), true};
  if (path.empty()) return std::optional<PathStat>(std::move(stat));
  TreeCursor cursor(*source_, root_, deadline_);
  CAIRN_CHECK_OK(cursor.seek(path));
  if (!cursor.valid() || !is_at_or_under(cursor.entry().path, path)) return std::optional<PathStat>();
  if (cursor.entry().path == path) {
    stat.entry = cursor.entry().to_entry();
    stat.implied = false;
  }
  return std::optional<PathStat>(std::move(stat));
}

Result<Counts> TreeReader::counts(std::string_view prefix) {
  if (prefix.empty() || root_.counts.entries == 0) return root_.counts;
  Counts counts;
  CAIRN_CHECK_OK(add_counts(*source_, root_, prefix, std::nullopt, deadline_, counts));
  return counts;
}

Result<LsPage> TreeReader::ls(std::string_view path, std::string_view after, size_t limit) {
  LsPage page;
  TreeCursor cursor(*source_, root_, deadline_);
  CAIRN_CHECK_OK(cursor.seek(path));
  if (!path.empty()) {
    if (!cursor.valid() || !is_at_or_under(cursor.entry().path, path)) {
      return Error(Code::kPathNotFound, fmt::format("there is nothing at '{}'", escape_for_display(path)));
    }
    if (cursor.entry().path == path) {
      if (cursor.entry().kind != EntryKind::kDirectory) {
        if (after.empty()) page.names.push_back({std::string(base_name(path)), without_chunks(cursor.entry()), false});
        return page;
      }
      CAIRN_CHECK_OK(cursor.next());
    }
  }
  if (!after.empty()) CAIRN_CHECK_OK(cursor.seek_past(join_path(path, after)));
  size_t skip = path.empty() ? 0 : path.size() + 1;
  while (cursor.valid() && is_under(cursor.entry().path, path)) {
    if (page.names.size() == std::max<size_t>(limit, 1)) {
      page.more = true;
      break;
    }
    const EntryView& entry = cursor.entry();
    size_t name_end = std::min(entry.path.find('/', skip), entry.path.size());
    std::string full(entry.path.substr(0, name_end));
    bool implied = name_end < entry.path.size();
    bool folder = implied || entry.kind == EntryKind::kDirectory;
    page.names.push_back({full.substr(skip), implied ? implied_folder(full) : without_chunks(entry), implied});
    CAIRN_CHECK_OK(folder ? cursor.seek_past(full) : cursor.next());
  }
  return page;
}

namespace {

// Moves to where a page starts; gives the first chunk of the first file.
Result<uint64_t> seek_page(TreeCursor& cursor, std::string_view prefix, const std::optional<ListCursor>& after) {
  CAIRN_CHECK_OK(cursor.seek(prefix));
  if (!after || path_compare(after->path, prefix) < 0) return 0;
  CAIRN_CHECK_OK(cursor.seek(after->path));
  bool there = cursor.valid() && cursor.entry().path == after->path;
  if (after->chunk == 0) {
    if (there) CAIRN_CHECK_OK(cursor.next());
    return 0;
  }
  if (!there || after->chunk >= cursor.entry().chunk_count) {
    return Error(Code::kRequestInvalid, fmt::format("a listing cannot go on at chunk {} of '{}'", after->chunk,
                                                    escape_for_display(after->path)));
  }
  return after->chunk;
}

// Writes a file's chunks from `first` on; gives the index of the first chunk that found no place on the page.
Result<uint64_t> write_chunks(NodeSource& source, const EntryView& entry, uint64_t first, uint64_t bytes_max,
                              ChangesetWriter& writer, const Deadline& deadline) {
  uint64_t index = first;
  ChunkCursor chunks(source, entry, deadline, first);
  while (index < entry.chunk_count) {
    CAIRN_TRY(auto some, chunks.next());
    if (some.empty()) return Error(Code::kDataCorrupt, "a chunk list ends early");
    CAIRN_CHECK_OK(writer.add_chunks(some));
    index += some.size();
    if (writer.raw_bytes() >= bytes_max) break;
  }
  return index;
}

}  // namespace

Result<ListingPage> write_listing(NodeSource& source, const RootRef& root, std::string_view prefix,
                                  const std::optional<ListCursor>& after, uint64_t bytes_max, ByteSink& sink,
                                  const Deadline& deadline) {
  TreeCursor cursor(source, root, deadline);
  CAIRN_TRY(uint64_t first_chunk, seek_page(cursor, prefix, after));
  ChangesetWriter writer(sink, ChangesetMode::kListing);
  ListingPage page;
  std::string last;
  while (cursor.valid() && is_at_or_under(cursor.entry().path, prefix)) {
    if (page.entries > 0 && writer.raw_bytes() >= bytes_max) {
      page.next = ListCursor{last, 0};
      break;
    }
    const EntryView& entry = cursor.entry();
    CAIRN_CHECK_OK(writer.put(entry, first_chunk));
    ++page.entries;
    CAIRN_TRY(uint64_t index, write_chunks(source, entry, first_chunk, bytes_max, writer, deadline));
    if (index < entry.chunk_count) {
      page.next = ListCursor{std::string(entry.path), index};
      break;
    }
    first_chunk = 0;
    last = entry.path;
    CAIRN_CHECK_OK(cursor.next());
  }
  CAIRN_CHECK_OK(writer.finish());
  return page;
}

}  // namespace cairn::store
