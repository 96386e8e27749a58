#include "transfer/sync_plan.h"

#include <algorithm>
#include <optional>

#include "store/paths.h"

namespace cairn::transfer {
namespace {

constexpr size_t kNamesPerFolder = 2'000'000;
constexpr size_t kFailedPathsMax = 100;
constexpr size_t kChunksKept = 65'536;

FileIdentity identity_of(const os::EntryStat& stat) {
  return FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
}

// The device number of an overlay changes with every mount.
bool same_inode_and_times(const FileIdentity& a, const FileIdentity& b) {
  return a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns;
}

class Walker {
 public:
  Walker(const SyncPlanInput& input, SpoolWriter& plan, Progress& progress, const Deadline& deadline)
      : in_(input), plan_(plan), progress_(progress), deadline_(deadline) {}

  Result<SyncPlanCounts> run() {
    CAIRN_CHECK_OK(next_known());
    CAIRN_CHECK_OK(walk(std::string(), in_.upper != nullptr));
    while (have_known_) CAIRN_CHECK_OK(gone());
    return counts_;
  }

 private:
  Status next_known() {
    CAIRN_TRY(have_known_, in_.manifest->next(known_));
    return ok();
  }
  bool known_before(const std::string& path) const {
    return have_known_ && store::path_compare(known_.entry.path, path) < 0;
  }
  bool known_at(const std::string& path) const { return have_known_ && known_.entry.path == path; }

  // What the manifest has and the mount has not.
  Status gone() {
    SpoolEntry entry;
    entry.action = Action::kDelete;
    entry.entry.path = known_.entry.path;
    entry.entry.kind = known_.entry.kind;
    ++counts_.entries;
    ++counts_.deleted;
    CAIRN_CHECK_OK(plan_.add(entry));
    return next_known();
  }

  // The manifest's entries at and below `path` stay as they are.
  Status pass_over(const std::string& path) {
    while (have_known_ && store::is_at_or_under(known_.entry.path, path)) CAIRN_CHECK_OK(next_known());
    return ok();
  }

  Status failed(const std::string& path, const Error& error) {
    progress_.notice(Notice::Kind::kUnreadable, path, error.message());
    ++counts_.failed;
    if (counts_.failed_paths.size() < kFailedPathsMax) counts_.failed_paths.push_back(path);
    return pass_over(path);
  }

  Result<std::vector<os::TreeEntry>> list_mounted(const std::string& path) const {
    if (path.empty()) return in_.mounted->list(kNamesPerFolder);
    CAIRN_TRY(os::Directory folder, in_.mounted->open_directory(path));
    return folder.list(kNamesPerFolder);
  }

  // `by_upper`: only names that upper has may have changed. Without it (plain copy, or a folder that the manifest does not
  // know) everything is looked at.
  Status walk(const std::string& path, bool by_upper) {
    CAIRN_CHECK_OK(deadline_.check());
    auto listed = list_mounted(path);
    if (!listed) return path.empty() ? Status(listed.error()) : failed(path, listed.error());
    std::vector<std::string> upper;
    if (by_upper) {
      auto names = list_upper(path);
      if (!names) return path.empty() ? Status(names.error()) : failed(path, names.error());
      upper = std::move(*names);
    }
    for (const os::TreeEntry& found : *listed) {
      bool changed = !by_upper || std::binary_search(upper.begin(), upper.end(), found.name);
      CAIRN_CHECK_OK(visit(store::join_path(path, found.name), found.stat, changed, by_upper));
    }
    // Manifest entries behind the last name.
    while (have_known_ && !path.empty() && store::is_under(known_.entry.path, path)) CAIRN_CHECK_OK(gone());
    return ok();
  }

  Result<std::vector<std::string>> list_upper(const std::string& path) const {
    if (path.empty()) return in_.upper->list_names(kNamesPerFolder);
    CAIRN_TRY(os::Directory folder, in_.upper->open_directory(path));
    return folder.list_names(kNamesPerFolder);
  }

  Status visit(const std::string& path, const os::EntryStat& stat, bool changed, bool by_upper) {
    while (known_before(path)) CAIRN_CHECK_OK(gone());
    if (!store::is_valid_path(path)) {
      ++counts_.skipped;
      progress_.notice(Notice::Kind::kSkippedName, path, "a name that a volume cannot hold");
      return ok();
    }
    if (stat.type == os::FileType::kOther) {
      ++counts_.skipped;
      progress_.notice(Notice::Kind::kSkippedSpecial, path, "a device, socket or pipe");
      return ok();
    }
    if (!changed && have_known_ && store::is_at_or_under(known_.entry.path, path)) return pass_over(path);
    // What upper has not and the manifest does not know either comes from the lower: it is new to the volume.
    bool inside_by_upper = by_upper && changed;
    if (stat.type == os::FileType::kDirectory) return visit_folder(path, stat, inside_by_upper);
    return visit_file(path, stat);
  }

  SpoolEntry entry_of(const std::string& path, const os::EntryStat& stat, store::EntryKind kind) const {
    SpoolEntry entry;
    entry.entry.path = path;
    entry.entry.kind = kind;
    entry.entry.mode = kind == store::EntryKind::kSymlink ? 0777 : stat.mode;
    entry.entry.mtime_ns = stat.mtime_ns;
    entry.identity = identity_of(stat);
    entry.local = path;
    return entry;
  }

  Status visit_folder(const std::string& path, const os::EntryStat& stat, bool by_upper) {
    bool same = known_at(path) && known_.entry.kind == store::EntryKind::kDirectory &&
                known_.entry.mode == stat.mode && known_.entry.mtime_ns == stat.mtime_ns;
    if (known_at(path)) CAIRN_CHECK_OK(next_known());
    if (!same) CAIRN_CHECK_OK(add(entry_of(path, stat, store::EntryKind::kDirectory), {}, 0));
    return walk(path, by_upper);
  }

  Status visit_file(const std::string& path, const os::EntryStat& stat) {
    bool link = stat.type == os::FileType::kSymlink;
    SpoolEntry entry = entry_of(path, stat, link ? store::EntryKind::kSymlink : store::EntryKind::kFile);
    if (link) {
      auto target = in_.mounted->read_link(path);
      if (!target) return failed(path, target.error());
      entry.entry.target = std::move(*target);
    }
    bool same_kind = known_at(path) && known_.entry.kind == entry.entry.kind;
    std::vector<store::ChunkRef> chunks;
    if (same_kind) {
      entry.same_metadata = known_.entry.mode == entry.entry.mode && known_.entry.mtime_ns == entry.entry.mtime_ns;
      bool same = link ? entry.same_metadata && known_.entry.target == entry.entry.target
                       : entry.same_metadata && same_inode_and_times(known_.identity, entry.identity);
      if (same) return next_known();
      entry.content = known_.content;
      CAIRN_TRY(chunks, known_chunks());
    }
    if (known_at(path)) CAIRN_CHECK_OK(next_known());
    if (link) return add(std::move(entry), {}, 0);
    entry.action = Action::kRead;
    entry.entry.size = stat.size;
    entry.entry.chunk_count = chunks.size();
    return add(std::move(entry), chunks, stat.size);
  }

  Result<std::vector<store::ChunkRef>> known_chunks() {
    bool truncated = false;
    CAIRN_TRY(std::vector<store::ChunkRef> chunks, read_chunks(*in_.manifest, kChunksKept, &truncated));
    for (const store::ChunkRef& chunk : chunks) in_.table->add(chunk);
    return chunks;
  }

  Status add(SpoolEntry entry, std::span<const store::ChunkRef> chunks, uint64_t bytes) {
    ++counts_.entries;
    ++counts_.changed;
    counts_.bytes_changed += bytes;
    if (entry.entry.kind != store::EntryKind::kDirectory) progress_.files_total.fetch_add(1);
    if (entry.entry.kind == store::EntryKind::kSymlink) progress_.files_done.fetch_add(1);
    progress_.bytes_total.fetch_add(bytes);
    return plan_.add(entry, chunks);
  }

  const SyncPlanInput& in_;
  SpoolWriter& plan_;
  Progress& progress_;
  const Deadline& deadline_;
  SyncPlanCounts counts_;
  SpoolEntry known_;
  bool have_known_ = false;
};

}  // namespace

Result<SyncPlanCounts> make_sync_plan(const SyncPlanInput& input, SpoolWriter& plan, Progress& progress,
                                      const Deadline& deadline) {
  return Walker(input, plan, progress, deadline).run();
}

}  // namespace cairn::transfer
