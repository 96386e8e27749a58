#include "transfer/stage.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "codec/digest.h"
#include "os/disk.h"
#include "os/file_system.h"
#include "store/paths.h"
#include "transfer/content_id.h"
#include "transfer/entry_spool.h"
#include "transfer/fetcher.h"
#include "transfer/folder_cache.h"
#include "transfer/listing.h"
#include "transfer/lower_check.h"
#include "transfer/lower_store.h"
#include "transfer/restorer.h"

namespace cairn::transfer {

class LowerUse {
 public:
  explicit LowerUse(os::Fd fd) : fd_(std::move(fd)) {}

 private:
  os::Fd fd_;
};

namespace {

constexpr uint32_t kModeKept = 01777;
constexpr auto kOtherStagingMax = hours(12);
// Longer chunk lists get no content id: such files are fetched anew and compared by hashing.
constexpr size_t kChunksGathered = 65'536;

FileIdentity identity_of(const os::EntryStat& stat) {
  return FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
}

Error incomplete(const std::string& what) {
  return Error(Code::kVolumeSyncIncomplete, "the staged volume is not complete: " + what, "start the run again");
}

// Builds one lower. Holds the exclusive lock of its root.
class Staging {
 public:
  Staging(const NodeCacheOptions& options, const LowerStore& lowers, Remote& remote, const PinGrant& pin, Progress& progress,
          const Deadline& deadline)
      : options_(options), lowers_(lowers), remote_(remote), pin_(pin), progress_(progress), deadline_(deadline) {}

  Status run(StagedLower& staged) {
    CAIRN_CHECK_OK(lowers_.remove(pin_.root + ".part"));
    progress_.set_phase(Phase::kScanning);
    CAIRN_CHECK_OK(open_nearest());
    CAIRN_TRY(listing_, make_scratch_file(options_.dir + "/scratch"));
    CAIRN_CHECK_OK(read_listing());
    CAIRN_CHECK_OK(check_space());
    std::string part = lowers_.part_dir(pin_.root);
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(part + "/tree", 0755));
    CAIRN_TRY(tree_, os::Directory::open(part + "/tree"));
    progress_.set_phase(Phase::kMoving);
    CAIRN_CHECK_OK(fill());
    CAIRN_CHECK_OK(verify_and_record(part));
    if (::syncfs(tree_.fd()) != 0) return Error::from_errno(errno, part);
    LowerMarker marker;
    marker.volume = remote_.volume_name();
    marker.snapshot = pin_.snapshot;
    marker.files = pin_.files;
    marker.bytes = pin_.bytes;
    CAIRN_CHECK_OK(lowers_.write_marker(part, marker));
    CAIRN_CHECK_OK(lowers_.install(pin_.root));
    staged.files_linked = linked_;
    staged.bytes_received = progress_.bytes_moved.load() - moved_before_;
    return ok();
  }

 private:
  // The lower to link from: the newest of the same volume, else the one used last.
  Status open_nearest() {
    CAIRN_TRY(std::vector<std::string> roots, lowers_.roots());
    std::string best;
    LowerMarker best_marker;
    for (const std::string& root : roots) {
      std::optional<LowerMarker> marker = lowers_.marker(root);
      if (!marker || root == pin_.root) continue;
      bool ours = marker->volume == remote_.volume_name();
      bool best_ours = best_marker.volume == remote_.volume_name();
      bool better = best.empty() || (ours && !best_ours) ||
                    (ours == best_ours && (ours ? marker->snapshot > best_marker.snapshot : marker->used_ns > best_marker.used_ns));
      if (better) {
        best = root;
        best_marker = *marker;
      }
    }
    if (best.empty()) return ok();
    CAIRN_TRY(near_lock_, lowers_.lock(best, false, false, deadline_));
    if (!near_lock_.valid() || !lowers_.marker(best)) return ok();
    auto manifest = SpoolReader::open(lowers_.manifest_file(best));
    auto tree = os::Directory::open(lowers_.tree_dir(best));
    if (!manifest || !tree) return ok();
    near_manifest_ = std::move(*manifest);
    near_tree_ = std::move(*tree);
    return ok();
  }

  // Moves the nearest manifest to `path`; true when it is there. A damaged manifest ends the linking, not the staging.
  bool near_has(const std::string& path) {
    while (near_manifest_ && (!near_started_ || store::path_compare(near_.entry.path, path) < 0)) {
      near_started_ = true;
      auto more = near_manifest_->next(near_);
      if (!more || !*more) near_manifest_.reset();
    }
    return near_manifest_ && near_.entry.path == path;
  }

  Status read_listing() {
    SpoolWriter writer(listing_.get());
    if (pin_.snapshot == 0 || pin_.entries == 0) return writer.finish();
    ListingStream listing(remote_, pin_, std::string(), deadline_);
    FolderCache near_folders(near_tree_);
    Status read = each_entry(listing, deadline_,
                             [&](SpoolEntry& entry) { return listed(entry, listing, near_folders, writer); });
    return read ? writer.finish() : read;
  }

  Status listed(SpoolEntry& entry, EntrySource& listing, FolderCache& near_folders, SpoolWriter& writer) {
    if (entry.entry.kind != store::EntryKind::kDirectory) progress_.files_total.fetch_add(1);
    progress_.bytes_total.fetch_add(entry.entry.size);
    entry.local = entry.entry.path;
    if (entry.entry.kind != store::EntryKind::kFile || entry.entry.chunk_count > kChunksGathered) {
      bytes_to_fetch_ += entry.entry.size;
      CAIRN_CHECK_OK(writer.add(entry));
      return copy_chunks(listing, writer);
    }
    bool truncated = false;
    CAIRN_TRY(std::vector<store::ChunkRef> chunks, read_chunks(listing, kChunksGathered, &truncated));
    entry.content = content_id(chunks);
    // `same_metadata` says here: to be linked from the nearest lower.
    entry.same_metadata = may_link(entry, near_folders);
    if (!entry.same_metadata) bytes_to_fetch_ += entry.entry.size;
    return writer.add(entry, chunks);
  }

  bool may_link(const SpoolEntry& entry, FolderCache& folders) {
    if (!near_has(entry.entry.path)) return false;
    bool equal = near_.entry.kind == store::EntryKind::kFile && near_.content == entry.content &&
                 near_.entry.size == entry.entry.size && near_.entry.mtime_ns == entry.entry.mtime_ns &&
                 (near_.entry.mode & kModeKept) == (entry.entry.mode & kModeKept);
    if (!equal) return false;
    auto folder = folders.parent_of(entry.entry.path);
    if (!folder) return false;
    auto stat = (*folder)->stat(store::base_name(entry.entry.path));
    // ctime is not asked for: each link changes it.
    return stat && stat->type == os::FileType::kFile && stat->inode == near_.identity.inode &&
           stat->size == near_.identity.size && stat->mtime_ns == near_.identity.mtime_ns;
  }

  Status check_space() {
    CAIRN_TRY(os::DiskSpace space, os::disk_space(options_.dir));
    uint64_t allowed = space.available_bytes / 100 * options_.free_percent_max;
    if (bytes_to_fetch_ <= allowed) return ok();
    return Error(Code::kVolumeTooLargeForNode,
                 "staging snapshot " + std::to_string(pin_.snapshot) + " of volume " + remote_.volume_name() + " needs " +
                     std::to_string(bytes_to_fetch_) + " bytes, but this node has " + std::to_string(space.available_bytes) +
                     " bytes free, of which " + std::to_string(options_.free_percent_max) + " % may be used",
                 "choose a node with more disk, or remove what the run does not need from the volume");
  }

  Status fill() {
    moved_before_ = progress_.bytes_moved.load();
    Fetcher::Options fetching;
    fetching.jobs = options_.jobs;
    Fetcher fetcher(remote_, pin_, fetching, progress_, deadline_);
    RestoreOptions restoring;
    restoring.in_place = true;
    Restorer restorer(fetcher, tree_, restoring, progress_);
    SpoolReader listing(listing_.get());
    FolderCache from(near_tree_);
    FolderCache to(tree_);
    Status added = each_entry(listing, deadline_, [&](SpoolEntry& entry) -> Status {
      if (entry.same_metadata) {
        CAIRN_TRY(bool linked, link_file(entry, from, to));
        if (linked) return ok();
      }
      return restorer.add(entry, entry.local, listing);
    });
    if (added) added = fetcher.drain();
    if (!added) {
      if (added.error().code() == Code::kChunkCorrupt || added.error().code() == Code::kDataCorrupt) {
        return incomplete(added.error().message());
      }
      return added;
    }
    SpoolReader links(listing_.get());
    CAIRN_CHECK_OK(each_entry(links, deadline_, [&](SpoolEntry& entry) { return restorer.finish_link(entry, entry.local); }));
    SpoolReader again(listing_.get());
    CAIRN_CHECK_OK(each_entry(again, deadline_, [&](SpoolEntry& entry) { return restorer.finish_folder(entry, entry.local); }));
    return restorer.finish();
  }

  // False when the file system allows this file no further name: it is fetched.
  Result<bool> link_file(const SpoolEntry& entry, FolderCache& from, FolderCache& to) {
    const std::string& path = entry.entry.path;
    std::string_view name = store::base_name(path);
    auto made = store::parent_path(path).empty() ? Result<os::Directory>(os::Directory())
                                                 : make_parent(std::string(store::parent_path(path)));
    if (!made) return std::move(made).error();
    CAIRN_TRY(const os::Directory* source, from.parent_of(path));
    CAIRN_TRY(const os::Directory* target, to.parent_of(path));
    bool too_many = false;
    Status linked = source->link(name, *target, name, &too_many);
    if (!linked && too_many) return false;
    if (!linked) return std::move(linked).error();
    ++linked_;
    progress_.files_done.fetch_add(1);
    progress_.bytes_done.fetch_add(entry.entry.size);
    progress_.chunks_reused.fetch_add(entry.entry.chunk_count);
    return true;
  }

  Result<os::Directory> make_parent(const std::string& parent) {
    if (parent == last_parent_) return os::Directory();
    last_parent_ = parent;
    return tree_.make_directories(parent, 0755);
  }

  // Looks at everything that was written and writes the manifest.
  Status verify_and_record(const std::string& part) {
    os::Fd file(::open((part + "/manifest").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file.valid()) return Error::from_errno(errno, part + "/manifest");
    SpoolWriter writer(file.get());
    SpoolReader listing(listing_.get());
    FolderCache folders(tree_);
    store::Counts counts;
    CAIRN_CHECK_OK(each_entry(listing, deadline_,
                              [&](SpoolEntry& entry) { return record(entry, folders, listing, writer, counts); }));
    if (counts.entries != pin_.entries || counts.files != pin_.files || counts.bytes != pin_.bytes) {
      return incomplete(std::to_string(counts.files) + " files of " + std::to_string(pin_.files) + ", " +
                        std::to_string(counts.bytes) + " bytes of " + std::to_string(pin_.bytes));
    }
    return writer.finish();
  }

  Status record(SpoolEntry& entry, FolderCache& folders, EntrySource& listing, SpoolWriter& writer, store::Counts& counts) {
    const store::Entry& e = entry.entry;
    CAIRN_TRY(const os::Directory* folder, folders.parent_of(e.path));
    auto stat = folder->stat(store::base_name(e.path));
    if (!stat) return incomplete(stat.error().message());
    bool right = false;
    switch (e.kind) {
      case store::EntryKind::kFile: right = stat->type == os::FileType::kFile && stat->size == e.size; break;
      case store::EntryKind::kDirectory: right = stat->type == os::FileType::kDirectory; break;
      case store::EntryKind::kSymlink: right = stat->type == os::FileType::kSymlink; break;
    }
    if (e.kind != store::EntryKind::kSymlink) right = right && stat->mode == (e.mode & kModeKept);
    if (right && stat->mtime_ns != e.mtime_ns) {
      CAIRN_TRY(int64_t held, as_held_here(e.mtime_ns));
      right = stat->mtime_ns == held;
    }
    if (!right) return incomplete("'" + store::escape_for_display(e.path) + "' differs");
    counts += store::EntryView(e).counts();
    entry.identity = identity_of(*stat);
    entry.same_metadata = false;
    entry.local.clear();
    // As it stands here: a sync must not see a stripped bit or a time cut short as a change.
    entry.entry.mode &= kModeKept;
    entry.entry.mtime_ns = stat->mtime_ns;
    CAIRN_CHECK_OK(writer.add(entry));
    return copy_chunks(listing, writer);
  }

  // What this file system makes of a time: ext4 knows none before 1901, others no part of a second. Asked of a file of its own:
  // an entry may be linked with another lower, whose times tell whether it was touched.
  Result<int64_t> as_held_here(int64_t mtime_ns) const {
    CAIRN_TRY(os::Directory part, os::Directory::open(lowers_.part_dir(pin_.root)));
    CAIRN_TRY([[maybe_unused]] os::Fd made, part.create_file("time", 0600));
    CAIRN_CHECK_OK(part.set_mtime("time", mtime_ns));
    CAIRN_TRY(os::EntryStat held, part.stat("time"));
    CAIRN_CHECK_OK(part.remove("time"));
    return held.mtime_ns;
  }

  const NodeCacheOptions& options_;
  const LowerStore& lowers_;
  Remote& remote_;
  const PinGrant& pin_;
  Progress& progress_;
  const Deadline& deadline_;
  os::Fd listing_;
  os::Directory tree_;
  os::Fd near_lock_;
  std::unique_ptr<SpoolReader> near_manifest_;
  os::Directory near_tree_;
  SpoolEntry near_;
  bool near_started_ = false;
  std::string last_parent_;
  uint64_t bytes_to_fetch_ = 0;
  uint64_t linked_ = 0;
  uint64_t moved_before_ = 0;
};

}  // namespace

NodeCache::NodeCache(NodeCacheOptions options) : options_(std::move(options)) {}
NodeCache::~NodeCache() = default;

Result<std::unique_ptr<NodeCache>> NodeCache::open(NodeCacheOptions options) {
  CAIRN_CHECK_OK(LowerStore(options.dir).prepare());
  return std::unique_ptr<NodeCache>(new NodeCache(std::move(options)));
}

Result<StagedLower> NodeCache::reopen(const std::string& root) { return reopen(root, Deadline::after(seconds(30))); }

Result<StagedLower> NodeCache::reopen(const std::string& root, const Deadline& deadline) {
  if (!codec::Digest::from_hex(root)) return Error(Code::kRequestInvalid, "not a root digest: " + root);
  LowerStore lowers(options_.dir);
  Error absent(Code::kPathNotFound, "snapshot tree " + root + " is not staged on this node");
  CAIRN_TRY(os::Fd held, lowers.lock(root, false, true, deadline));
  std::optional<LowerMarker> marker = lowers.marker(root);
  if (!marker) return absent;
  lowers.touch(root);
  StagedLower lower;
  lower.tree_dir = lowers.tree_dir(root);
  lower.manifest_file = lowers.manifest_file(root);
  lower.root = root;
  lower.snapshot = marker->snapshot;
  lower.files = marker->files;
  lower.bytes = marker->bytes;
  lower.reused = true;
  lower.use = std::make_shared<LowerUse>(std::move(held));
  return lower;
}

Result<StagedLower> NodeCache::stage(Remote& remote, const PinGrant& pin, Progress& progress, const Deadline& deadline) {
  if (!codec::Digest::from_hex(pin.root)) return Error(Code::kDataCorrupt, "the server sent no root digest");
  LowerStore lowers(options_.dir);
  StagedLower built;
  bool was_built = false;
  for (int tries = 0; tries < 5; ++tries) {
    CAIRN_CHECK_OK(deadline.check());
    // Somebody else may be staging it: that takes as long as it takes, and ends with him.
    auto there = reopen(pin.root, deadline.child(kOtherStagingMax));
    if (there) {
      Status intact = was_built ? ok() : check_lower(lowers, pin.root, deadline);
      if (intact) {
        there->reused = !was_built;
        there->files_linked = built.files_linked;
        there->bytes_received = built.bytes_received;
        there->snapshot = pin.snapshot;
        progress.set_phase(Phase::kDone);
        return there;
      }
      CAIRN_CHECK_OK(deadline.check());
      progress.notice(Notice::Kind::kNote, {}, intact.error().message() + "; staging it anew");
      there->use.reset();
    } else if (there.error().code() != Code::kPathNotFound) {
      return there;
    }
    CAIRN_TRY(os::Fd held, lowers.lock(pin.root, true, true, deadline.child(kOtherStagingMax)));
    // Somebody else may have staged it while this waited.
    if (lowers.marker(pin.root) && check_lower(lowers, pin.root, deadline)) continue;
    CAIRN_CHECK_OK(deadline.check());
    // What an unsynced upper lies over goes only when another stands in its place: the snapshot may be out of reach.
    if (!lowers.is_kept(pin.root)) CAIRN_CHECK_OK(lowers.remove(pin.root));
    CAIRN_CHECK_OK(evict(options_.bytes_max > pin.bytes ? options_.bytes_max - pin.bytes : 0, deadline));
    Staging staging(options_, lowers, remote, pin, progress, deadline);
    Status done = staging.run(built);
    if (!done) {
      (void)lowers.remove(pin.root + ".part").has_value();
      return std::move(done).error();
    }
    was_built = true;
  }
  return Error(Code::kBusy, "the staged snapshot was evicted again and again", "give the node cache more room");
}

Status NodeCache::keep(const std::string& root, const std::string& holder) { return LowerStore(options_.dir).keep(root, holder); }
Status NodeCache::release(const std::string& root, const std::string& holder) {
  return LowerStore(options_.dir).release(root, holder);
}

Status NodeCache::evict(uint64_t bytes_max, const Deadline& deadline) {
  LowerStore lowers(options_.dir);
  CAIRN_TRY(std::vector<std::string> roots, lowers.roots());
  struct Candidate {
    std::string root;
    LowerMarker marker;
  };
  std::vector<Candidate> candidates;
  uint64_t total = 0;
  for (const std::string& root : roots) {
    std::optional<LowerMarker> marker = lowers.marker(root);
    if (!marker) continue;
    total += marker->bytes;
    candidates.push_back(Candidate{root, *marker});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.marker.used_ns < b.marker.used_ns; });
  for (const Candidate& candidate : candidates) {
    if (total <= bytes_max) break;
    CAIRN_CHECK_OK(deadline.check());
    if (lowers.is_kept(candidate.root)) continue;
    CAIRN_TRY(os::Fd held, lowers.lock(candidate.root, true, false, deadline));
    if (!held.valid()) continue;
    CAIRN_CHECK_OK(lowers.remove(candidate.root));
    total -= std::min(total, candidate.marker.bytes);
  }
  return lowers.remove_left_overs(std::string());
}

}  // namespace cairn::transfer
