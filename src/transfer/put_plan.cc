#include "transfer/put_plan.h"

#include "store/paths.h"
#include "transfer/content_id.h"

namespace cairn::transfer {
namespace {

std::string_view kind_name(store::EntryKind kind) {
  switch (kind) {
    case store::EntryKind::kFile: return "a file";
    case store::EntryKind::kDirectory: return "a folder";
    case store::EntryKind::kSymlink: return "a link";
  }
  return "an entry";
}

Error conflict(const std::string& path, std::string_view there, std::string_view ours) {
  std::string name = store::escape_for_display(path);
  return Error(Code::kPathTypeConflict, "'" + name + "' is " + std::string(there) + " on the volume and " + std::string(ours) + " here",
               "remove it from the volume first (cairn volumes rm), or put to another path");
}

}  // namespace

Error below_runs(const std::string& path) {
  return Error(Code::kRunsReadOnly, "'" + store::escape_for_display(path) + "' is below runs/, which only runs and sessions write",
               "rename the local folder or put to another path");
}

namespace {

class Joiner {
 public:
  Joiner(const PutPlanInput& input, SpoolWriter& plan, Progress& progress, const Deadline& deadline)
      : in_(input), plan_(plan), progress_(progress), deadline_(deadline) {}

  Result<PutPlanCounts> run() {
    CAIRN_CHECK_OK(next_base());
    while (true) {
      CAIRN_TRY(std::optional<ScanEntry> entry, in_.scanner->next(deadline_));
      if (!entry) break;
      CAIRN_CHECK_OK(take(*entry));
    }
    while (have_base_) CAIRN_CHECK_OK(base_only());
    return counts_;
  }

 private:
  Status next_base() {
    base_chunks_read_ = false;
    if (in_.base == nullptr) return ok();
    CAIRN_TRY(have_base_, in_.base->next(base_));
    return ok();
  }

  // The base entry's chunks, as far as they are few enough to be kept, and their content id; all go into the table.
  Status read_base_chunks() {
    if (base_chunks_read_) return ok();
    base_chunks_read_ = true;
    chunks_.clear();
    ContentHasher hasher;
    while (true) {
      CAIRN_TRY(std::span<const store::ChunkRef> part, in_.base->next_chunks());
      if (part.empty()) break;
      hasher.add(part);
      for (const store::ChunkRef& chunk : part) in_.table->add(chunk);
      if (chunks_.size() + part.size() <= kChunksKept) chunks_.insert(chunks_.end(), part.begin(), part.end());
    }
    base_content_ = hasher.finish();
    return ok();
  }

  Status take(const ScanEntry& scanned) {
    std::string path = store::join_path(in_.target, scanned.path);
    if (scanned.path.empty()) path = in_.target;
    if (scanned.kind != store::EntryKind::kDirectory) {
      ++(scanned.kind == store::EntryKind::kSymlink ? counts_.links : counts_.files);
      counts_.bytes += scanned.kind == store::EntryKind::kFile ? scanned.identity.size : 0;
      progress_.files_total.fetch_add(1);
      progress_.bytes_total.fetch_add(scanned.kind == store::EntryKind::kFile ? scanned.identity.size : 0);
    }
    if (path.empty()) return ok();  // the volume's root is no entry
    if (store::is_under_runs(path)) {
      return below_runs(path);
    }
    while (have_base_ && store::path_compare(base_.entry.path, path) < 0) CAIRN_CHECK_OK(base_only());
    bool both = have_base_ && base_.entry.path == path;
    bool folder = scanned.kind == store::EntryKind::kDirectory;
    if (!both && !folder && have_base_ && store::is_under(base_.entry.path, path)) {
      return conflict(path, "a folder", kind_name(scanned.kind));
    }
    if (both && folder != (base_.entry.kind == store::EntryKind::kDirectory)) {
      return conflict(path, kind_name(base_.entry.kind), kind_name(scanned.kind));
    }
    CAIRN_CHECK_OK(compare(scanned, path, both));
    return both ? next_base() : ok();
  }

  Status compare(const ScanEntry& scanned, const std::string& path, bool both) {
    SpoolEntry entry;
    entry.entry.path = path;
    entry.entry.kind = scanned.kind;
    entry.entry.mode = scanned.kind == store::EntryKind::kSymlink ? 0777 : scanned.mode;
    entry.entry.mtime_ns = scanned.identity.mtime_ns;
    entry.entry.target = scanned.target;
    entry.local = scanned.path.empty() ? in_.file_name : scanned.path;
    entry.identity = scanned.identity;
    bool same_kind = both && base_.entry.kind == scanned.kind;
    bool same_metadata = same_kind && base_.entry.mode == entry.entry.mode && base_.entry.mtime_ns == entry.entry.mtime_ns;
    if (scanned.kind != store::EntryKind::kFile) {
      if (same_metadata && base_.entry.target == scanned.target) return done(scanned);
      return add(entry, {}, scanned);
    }
    entry.entry.size = scanned.identity.size;
    if (!same_kind) {
      entry.action = Action::kRead;
      return add(entry, {}, scanned);
    }
    CAIRN_CHECK_OK(read_base_chunks());
    entry.content = base_content_;
    std::optional<ContentId> known;
    if (!in_.checksum && base_.entry.size == scanned.identity.size) known = in_.cache->find(scanned.identity);
    bool whole = chunks_.size() == base_.entry.chunk_count;
    if (known && *known == base_content_) {
      if (same_metadata) return done(scanned);
      if (whole) {
        entry.entry.chunk_count = chunks_.size();
        return add(entry, chunks_, scanned);
      }
    }
    entry.action = Action::kRead;
    entry.same_metadata = same_metadata;
    entry.entry.chunk_count = chunks_.size();
    return add(entry, chunks_, scanned);
  }

  Status done(const ScanEntry& scanned) {
    if (scanned.kind == store::EntryKind::kDirectory) return ok();
    progress_.files_done.fetch_add(1);
    if (scanned.kind == store::EntryKind::kFile) progress_.bytes_done.fetch_add(scanned.identity.size);
    return ok();
  }

  Status add(const SpoolEntry& entry, std::span<const store::ChunkRef> chunks, const ScanEntry& scanned) {
    ++counts_.entries;
    ++counts_.changed;
    if (entry.action == Action::kRead) counts_.bytes_to_read += scanned.identity.size;
    else if (scanned.kind == store::EntryKind::kSymlink) progress_.files_done.fetch_add(1);
    return plan_.add(entry, chunks);
  }

  Status base_only() {
    const std::string& path = base_.entry.path;
    bool folder = base_.entry.kind == store::EntryKind::kDirectory;
    CAIRN_CHECK_OK(read_base_chunks());
    if (in_.mirror && !store::is_under_runs(path) && path != in_.target) {
      std::string local = path.substr(in_.target.empty() ? 0 : in_.target.size() + 1);
      if (!in_.scanner->excluded(local, folder)) {
        SpoolEntry entry;
        entry.action = Action::kDelete;
        entry.entry.path = path;
        entry.entry.kind = base_.entry.kind;
        ++counts_.entries;
        ++counts_.deleted;
        CAIRN_CHECK_OK(plan_.add(entry));
      }
    }
    return next_base();
  }

  static constexpr size_t kChunksKept = 65'536;
  const PutPlanInput& in_;
  SpoolWriter& plan_;
  Progress& progress_;
  const Deadline& deadline_;
  PutPlanCounts counts_;
  SpoolEntry base_;
  bool have_base_ = false;
  bool base_chunks_read_ = false;
  ContentId base_content_;
  std::vector<store::ChunkRef> chunks_;
};

}  // namespace

Result<PutPlanCounts> make_put_plan(const PutPlanInput& input, SpoolWriter& plan, Progress& progress,
                                    const Deadline& deadline) {
  return Joiner(input, plan, progress, deadline).run();
}

}  // namespace cairn::transfer
