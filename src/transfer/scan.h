// Streams a local tree in volume order (path_compare: a folder, then everything in it, then its next sibling), one folder's
// names in memory at a time and level, through the helper that never follows a link out of its root.
//
// Patterns (`--include`, `--exclude`, ignore files) are a subset of gitignore: `#` comments, `!` negates, a trailing `/`
// matches folders only, a pattern with a `/` that is not its last byte is anchored at its ignore file's folder (or at the
// root for flags), `*` and `?` do not match `/`, `**` does, `[a-z]` and `[!a-z]` are classes, `\` quotes. The last match
// wins; nothing below an excluded folder is looked at. `--include` patterns alone select: what matches none of them is left
// out (folders are entered and kept when something in them is).
//
// Scanner is used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transfer/progress.h"
#include "transfer/remote.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {

class PatternList {
 public:
  // One line of an ignore file. Comments and empty lines add nothing.
  void add_line(std::string_view line);
  void add_file(std::string_view text);
  bool empty() const { return patterns_.empty(); }
  // The verdict of the last pattern that matches `path` (relative to the list's folder): true = named, false = named by a
  // negated pattern, nothing = not named.
  std::optional<bool> match(std::string_view path, bool is_directory) const;

 private:
  struct Pattern {
    std::string glob;
    bool negated = false;
    bool directories_only = false;
    bool anchored = false;
  };
  std::vector<Pattern> patterns_;
};

struct ScanOptions {
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  // Names of ignore files that are read in each folder, e.g. {".gitignore", ".cairnignore"}.
  std::vector<std::string> ignore_file_names;
  // Further ignore files, by local path, whose patterns are anchored at the root (`--ignore-file`).
  std::vector<std::string> ignore_files;
  bool follow_links = false;
  bool keep_all_links = false;  // symlinks are kept as they are, wherever they point (sync)
};

struct ScanEntry {
  std::string path;  // relative to the root; "" is the root folder itself
  EntryKind kind = EntryKind::kFile;
  uint32_t mode = 0;  // permission bits, 07777
  FileIdentity identity;
  std::string target;  // of a symlink
};

struct ScanCounts {
  uint64_t skipped_special = 0;
  uint64_t skipped_links = 0;
  uint64_t skipped_names = 0;
  uint64_t unreadable = 0;
  uint64_t excluded = 0;
  uint64_t skipped() const { return skipped_special + skipped_links + skipped_names + unreadable; }
};

class Scanner {
 public:
  // `root` is a folder. Fails when it cannot be opened.
  static Result<std::unique_ptr<Scanner>> open(const std::string& root, ScanOptions options, Progress& progress);
  virtual ~Scanner() = default;
  // The next entry, first the root folder; nothing at the end.
  virtual Result<std::optional<ScanEntry>> next(const Deadline& deadline) = 0;
  // What stands at `path` is left out by a pattern (a mirror must not delete it on the volume).
  virtual bool excluded(const std::string& path, bool is_directory) = 0;
  virtual const ScanCounts& counts() const = 0;
  // The paths that `counts().unreadable` counts, in the order they were found.
  virtual const std::vector<std::string>& unreadable() const = 0;
};

}  // namespace cairn::transfer
