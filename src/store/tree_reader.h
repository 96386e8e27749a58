// Reads one tree: an entry, a range of entries, one level of a folder, the counts below a path, a file's chunks.
//
// A TreeReader is cheap (a root and a reference) and used by one thread at a time; several may share one NodeSource.
// Every read is bounded by the tree's height (<= 16) and by node size, whatever is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "store/changeset.h"
#include "store/node_source.h"
#include "store/types.h"

namespace cairn::store {

// Walks entries in path order.
//
//   TreeCursor cursor(source, root, deadline);
//   CAIRN_CHECK_OK(cursor.seek("data"));
//   while (cursor.valid() && is_at_or_under(cursor.entry().path, "data")) { ...; CAIRN_CHECK_OK(cursor.next()); }
class TreeCursor {
 public:
  TreeCursor(NodeSource& source, const RootRef& root, Deadline deadline);
  ~TreeCursor();
  TreeCursor(TreeCursor&&) noexcept;
  TreeCursor& operator=(TreeCursor&&) noexcept;

  // To the first entry at or after `path` (the first of all for the empty path).
  Status seek(std::string_view path);
  // To the first entry after everything at or under `path`; past the end for the empty path.
  Status seek_past(std::string_view path);
  bool valid() const;
  // Valid until the cursor moves. REQUIRES: valid().
  const EntryView& entry() const;
  Status next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The chunks of one file in order, in spans of bounded length.
class ChunkCursor {
 public:
  // `entry` must stay valid until the last call. Starts at chunk `first` without reading what lies before it.
  ChunkCursor(NodeSource& source, const EntryView& entry, Deadline deadline, uint64_t first = 0);
  ~ChunkCursor();
  // Empty at the end. Valid until the next call.
  Result<std::span<const ChunkRef>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What stands at a path. `implied` folders have entries below them but none of their own (mode and time unknown: 0).
struct PathStat {
  Entry entry;
  bool implied = false;
};

struct LsName {
  std::string name;  // the last segment
  Entry entry;       // full path; chunks are left out
  bool implied = false;
};

struct LsPage {
  std::vector<LsName> names;
  bool more = false;  // ask again with `after` = the last name
};

class TreeReader {
 public:
  TreeReader(NodeSource& source, RootRef root, Deadline deadline);

  const RootRef& root() const { return root_; }
  // The entry with this very path; nothing for implied folders and for what is not there.
  Result<std::optional<Entry>> find(std::string_view path);
  // Entry or implied folder; the empty path is an implied folder always. Nothing when there is neither.
  Result<std::optional<PathStat>> stat(std::string_view path);
  // Everything at and under `prefix` by at most two descents. The empty prefix gives the whole tree's counts.
  Result<Counts> counts(std::string_view prefix);
  // One level of folder `path`, in path order, starting behind `after` (a name; empty for the start). Subfolders are
  // skipped by seek. A file gives itself as the one name. kPathNotFound when there is nothing at `path`.
  Result<LsPage> ls(std::string_view path, std::string_view after, size_t limit);

 private:
  NodeSource* source_;
  RootRef root_;
  Deadline deadline_;
};

// Where a listing goes on. With chunk == 0 behind `path`; else inside the file `path` at that chunk.
struct ListCursor {
  std::string path;
  uint64_t chunk = 0;
  bool operator==(const ListCursor&) const = default;
};

struct ListingPage {
  std::optional<ListCursor> next;  // nothing when the listing is complete
  uint64_t entries = 0;
};

// Writes one page of the entries at and under `prefix` to `sink`, a whole listing-mode changeset of about `bytes_max` raw
// bytes (at least one record of progress, at most bytes_max + 1 MiB).
Result<ListingPage> write_listing(NodeSource& source, const RootRef& root, std::string_view prefix,
                                  const std::optional<ListCursor>& after, uint64_t bytes_max, ByteSink& sink,
                                  const Deadline& deadline);

}  // namespace cairn::store
