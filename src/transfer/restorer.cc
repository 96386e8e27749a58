#include "transfer/restorer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>

#include "base/limits.h"
#include "transfer/content_id.h"
#include "transfer/part_file.h"

namespace cairn::transfer {
namespace {

constexpr uint64_t kResumeBytesMin = 8 << 20;  // shorter files start anew
constexpr uint32_t kModeKept = 01777;          // setuid and setgid never come from a volume

FileIdentity identity_of(const os::EntryStat& stat) {
  return FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
}

Error with_space_hint(Error error) {
  if (error.code() != Code::kNoSpaceLeft) return error;
  return std::move(error).with_hint("free space there and run the same command again: what has arrived is kept");
}

Status set_mtime(int fd, int64_t mtime_ns, const std::string& what) {
  timespec times[2] = {{0, UTIME_OMIT}, {mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000}};
  if (times[1].tv_nsec < 0) {
    times[1].tv_nsec += 1'000'000'000;
    --times[1].tv_sec;
  }
  if (::futimens(fd, times) != 0) return Error::from_errno(errno, what);
  return ok();
}

bool all_zero(codec::ByteView bytes) {
  return bytes[0] == 0 && std::equal(bytes.begin() + 1, bytes.end(), bytes.begin());
}

bool has_hash(codec::ByteView bytes, const codec::Digest& hash) { return codec::sha256(bytes) == hash; }

}  // namespace

// One file under way: gets its chunks from any thread, in any order, and finishes itself with the last one.
class RestoredFile final : public ChunkSink {
 public:
  RestoredFile(const os::Directory& root, const SpoolEntry& entry, std::string relative, const RestoreOptions& options,
               Progress& progress)
      : name_(entry.entry.path),
        part_(root, std::move(relative), options.in_place),
        mode_(entry.entry.mode & kModeKept),
        mtime_ns_(entry.entry.mtime_ns),
        size_(entry.entry.size),
        in_place_(options.in_place),
        cache_(options.cache),
        progress_(progress),
        one_chunk_(entry.entry.chunk_count == 1),
        left_(entry.entry.chunk_count) {}

  ~RestoredFile() override {
    // What is left of a short file that was not finished is of no use.
    bool of_use = in_place_ || (part_.can_be_resumed() && size_ >= kResumeBytesMin);
    if (part_.is_open() && !installed_ && !of_use) part_.drop();
  }

  const std::string& name() const override { return name_; }
  void set_content(const ContentId& content) { content_ = content; }

  Status write(uint64_t offset, codec::ByteView raw) override {
    Status status = write_chunk(offset, raw);
    if (!status) return with_space_hint(std::move(status).error());
    progress_.bytes_done.fetch_add(raw.size());
    if (left_.fetch_sub(1) == 1) return finish();
    return ok();
  }
  // A chunk that a former try has written already.
  Status keep_chunk(uint64_t size) {
    progress_.bytes_done.fetch_add(size);
    if (left_.fetch_sub(1) == 1) return finish();
    return ok();
  }

  // Opens what an interrupted try left, if it is there; false when there is nothing to go on with.
  Result<bool> open_left_over() {
    if (in_place_ || size_ < kResumeBytesMin) return false;
    return part_.open_left_over(size_);
  }
  int fd() const { return part_.fd(); }

  Status open() {
    std::lock_guard lock(mutex_);
    if (part_.is_open()) return ok();
    CAIRN_CHECK_OK(part_.open());
    fresh_ = true;
    // Its one write gives a short file its size; chunks in any order, holes and resuming want it beforehand.
    if (!one_chunk_ && size_ != 0 && ::ftruncate(part_.fd(), static_cast<off_t>(size_)) != 0) return Error::from_errno(errno, name_);
    return ok();
  }

  Status finish() {
    if (!part_.is_open()) CAIRN_CHECK_OK(open());
    if (::fchmod(part_.fd(), mode_) != 0) return Error::from_errno(errno, name_);
    CAIRN_CHECK_OK(set_mtime(part_.fd(), mtime_ns_, name_));
    CAIRN_CHECK_OK(part_.install());
    installed_ = true;
    if (cache_ != nullptr && content_ != ContentId{}) {
      CAIRN_TRY(os::EntryStat stat, os::stat_fd(part_.fd(), name_));
      cache_->insert_written(identity_of(stat), content_, system_clock().now());
    }
    CAIRN_CHECK_OK(part_.close());
    progress_.files_done.fetch_add(1);
    return ok();
  }

 private:
  Status write_chunk(uint64_t offset, codec::ByteView raw) {
    if (offset + raw.size() > size_) return Error(Code::kDataCorrupt, "'" + name_ + "' has more bytes than its size");
    CAIRN_CHECK_OK(open());
    // A new file reads as zeros: its holes stay holes.
    if (fresh_ && !one_chunk_ && all_zero(raw)) return ok();
    return os::write_all_at(part_.fd(), offset, raw, name_);
  }

  const std::string name_;
  PartFile part_;
  const uint32_t mode_;
  const int64_t mtime_ns_;
  const uint64_t size_;
  const bool in_place_;
  StatCache* const cache_;
  Progress& progress_;
  ContentId content_;
  std::mutex mutex_;
  bool fresh_ = false;
  bool installed_ = false;
  const bool one_chunk_;
  std::atomic<uint64_t> left_;
};

Restorer::Restorer(Fetcher& fetcher, const os::Directory& root, const RestoreOptions& options, Progress& progress)
    : fetcher_(fetcher), root_(root), options_(options), progress_(progress), folders_(root) {}
Restorer::~Restorer() = default;

Status Restorer::make_parents(const std::string& relative) {
  std::string_view parent = store::parent_path(relative);
  if (parent.empty() || parent == last_parent_) return ok();
  auto made = root_.make_directories(parent, 0755);
  if (!made) return std::move(made).error();
  last_parent_ = std::string(parent);
  return ok();
}

Status Restorer::add(const SpoolEntry& entry, const std::string& relative, EntrySource& chunks) {
  if (relative.empty() && entry.entry.kind == store::EntryKind::kDirectory) return ok();
  CAIRN_CHECK_OK(make_parents(relative));
  switch (entry.entry.kind) {
    case store::EntryKind::kDirectory: return add_folder(relative);
    case store::EntryKind::kFile: return add_file(entry, relative, chunks);
    case store::EntryKind::kSymlink: return ok();
  }
  return Error(Code::kDataCorrupt, "an entry of unknown kind");
}

Status Restorer::add_folder(const std::string& relative) {
  CAIRN_TRY(const os::Directory* folder, folders_.parent_of(relative));
  std::string name(store::base_name(relative));
  // Writable while it is filled; its own mode comes at the end.
  Status made = folder->make_directory(name, 0700);
  if (made) return ok();
  if (made.error().code() != Code::kFileExists) return made;
  CAIRN_TRY(os::EntryStat stat, folder->stat(name));
  if (stat.type == os::FileType::kDirectory) return ok();
  return Error(Code::kPathTypeConflict, "'" + store::escape_for_display(relative) + "' is no folder here, but one on the volume",
               "move it away, or get to another place");
}

Status Restorer::add_file(const SpoolEntry& entry, const std::string& relative, EntrySource& source) {
  auto file = std::make_shared<RestoredFile>(root_, entry, relative, options_, progress_);
  std::optional<os::EntryStat> there;
  if (!options_.in_place) {
    CAIRN_TRY(const os::Directory* folder, folders_.parent_of(relative));
    auto stat = folder->stat(store::base_name(relative));
    if (stat) there = *stat;
    else if (stat.error().code() != Code::kFileNotFound) return std::move(stat).error();
    if (there && there->type == os::FileType::kDirectory) {
      return Error(Code::kPathTypeConflict, "'" + store::escape_for_display(relative) + "' is a folder here, but none on the volume",
                   "move it away, or get to another place");
    }
  }
  constexpr uint64_t kKeptMax = 1 << 20;  // chunk lists of more than about 1 TiB are not compared
  bool may_reuse = !options_.in_place && entry.entry.chunk_count <= kKeptMax;
  uint64_t offset = 0;
  uint64_t seen = 0;
  std::vector<store::ChunkRef> chunks;
  ContentHasher hasher;
  // Two passes over the chunks when something is there to compare with, else one.
  bool compare = may_reuse && ((there && there->type == os::FileType::kFile && there->size == entry.entry.size) ||
                               entry.entry.size >= kResumeBytesMin);
  // The content id must be known before the last chunk is delivered: short lists are read whole first.
  bool gather = compare || entry.entry.chunk_count <= limits::kInlineChunksMax;
  auto want = [&](const store::ChunkRef& chunk) -> Status {
    CAIRN_CHECK_OK(fetcher_.want(chunk, file, offset));
    offset += chunk.raw_len;
    return ok();
  };
  while (true) {
    CAIRN_TRY(std::span<const store::ChunkRef> part, source.next_chunks());
    if (part.empty()) break;
    seen += part.size();
    hasher.add(part);
    if (gather) {
      chunks.insert(chunks.end(), part.begin(), part.end());
      continue;
    }
    for (const store::ChunkRef& chunk : part) CAIRN_CHECK_OK(want(chunk));
  }
  if (seen != entry.entry.chunk_count) return Error(Code::kDataCorrupt, "'" + entry.entry.path + "' lacks chunks");
  if (!gather) {
    ++counts_.files_written;
    return ok();
  }
  SpoolEntry known = entry;
  known.content = hasher.finish();
  file->set_content(known.content);
  std::vector<bool> have(chunks.size());
  if (compare) {
    os::EntryStat none;
    CAIRN_TRY(bool done, reuse(known, relative, chunks, there ? *there : none, file, have));
    if (done) return ok();
  }
  ++counts_.files_written;
  if (chunks.empty()) return file->finish();
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (have[i]) {
      offset += chunks[i].raw_len;
      continue;
    }
    CAIRN_CHECK_OK(want(chunks[i]));
  }
  return ok();
}

// Looks at the file that is there and at what an interrupted try left. True: the file is equal and only its mode and time were
// set. Else `have` tells the chunks that are in place already.
Result<bool> Restorer::reuse(const SpoolEntry& entry, const std::string& relative, const std::vector<store::ChunkRef>& chunks,
                             const os::EntryStat& there, std::shared_ptr<RestoredFile> file, std::vector<bool>& have) {
  std::vector<uint8_t> buffer;
  auto equal_at = [&](int fd, uint64_t offset, const store::ChunkRef& chunk) {
    buffer.resize(chunk.raw_len);
    auto got = os::read_full_at(fd, offset, buffer, relative);
    return got && *got == chunk.raw_len && has_hash(buffer, chunk.hash);
  };
  std::optional<os::OpenFile> old;
  std::vector<bool> equal(chunks.size());
  if (there.type == os::FileType::kFile && there.size == entry.entry.size) {
    CAIRN_TRY(const os::Directory* folder, folders_.parent_of(relative));
    std::string name(store::base_name(relative));
    bool same = false;
    if (options_.cache != nullptr && !options_.checksum) {
      std::optional<ContentId> known = options_.cache->find(identity_of(there));
      same = known && *known == entry.content;
    }
    if (!same) {
      Time hashed_at = system_clock().now();
      auto opened = folder->open_file(name);
      if (opened) {
        old = std::move(*opened);
        uint64_t offset = 0;
        size_t count = 0;
        for (size_t i = 0; i < chunks.size(); offset += chunks[i].raw_len, ++i) {
          equal[i] = equal_at(old->fd.get(), offset, chunks[i]);
          count += equal[i] ? 1 : 0;
        }
        CAIRN_TRY(os::EntryStat after, os::stat_fd(old->fd.get(), relative));
        same = count == chunks.size() && after.same_content_as(old->stat);
        if (same && options_.cache != nullptr) options_.cache->insert(identity_of(after), entry.content, hashed_at);
      }
    }
    if (same) {
      uint32_t mode = entry.entry.mode & kModeKept;
      if (there.mode != mode) CAIRN_CHECK_OK(folder->set_mode(name, mode));
      if (there.mtime_ns != entry.entry.mtime_ns) CAIRN_CHECK_OK(folder->set_mtime(name, entry.entry.mtime_ns));
      progress_.files_done.fetch_add(1);
      progress_.bytes_done.fetch_add(entry.entry.size);
      counts_.chunks_reused += chunks.size();
      return true;
    }
  }
  CAIRN_TRY(bool left_over, file->open_left_over());
  uint64_t offset = 0;
  for (size_t i = 0; i < chunks.size(); offset += chunks[i].raw_len, ++i) {
    if (left_over && equal_at(file->fd(), offset, chunks[i])) {
      have[i] = true;
      CAIRN_CHECK_OK(file->keep_chunk(chunks[i].raw_len));
    } else if (equal[i] && equal_at(old->fd.get(), offset, chunks[i])) {
      have[i] = true;
      CAIRN_CHECK_OK(file->write(offset, buffer));
    }
    counts_.chunks_reused += have[i] ? 1 : 0;
  }
  return false;
}

Status Restorer::finish_folder(const SpoolEntry& entry, const std::string& relative) {
  if (entry.entry.kind != store::EntryKind::kDirectory) return ok();
  uint32_t mode = entry.entry.mode & kModeKept;
  if (relative.empty()) {
    if (::fchmod(root_.fd(), mode | 0700) != 0) return Error::from_errno(errno, root_.shown_as());
    return set_mtime(root_.fd(), entry.entry.mtime_ns, root_.shown_as());
  }
  CAIRN_TRY(const os::Directory* parent, folders_.parent_of(relative));
  std::string name(store::base_name(relative));
  // One that its owner may not enter is closed only after all that is in it.
  if ((mode & 0700) != 0700) closed_folders_.emplace_back(relative, mode);
  else CAIRN_CHECK_OK(parent->set_mode(name, mode));
  return parent->set_mtime(name, entry.entry.mtime_ns);
}

Status Restorer::finish_link(const SpoolEntry& entry, const std::string& relative) {
  if (entry.entry.kind != store::EntryKind::kSymlink) return ok();
  CAIRN_TRY(const os::Directory* parent, folders_.parent_of(relative));
  std::string name(store::base_name(relative));
  progress_.files_done.fetch_add(1);
  auto there = parent->stat(name);
  if (there && there->type == os::FileType::kSymlink) {
    auto target = parent->read_link(name);
    if (target && *target == entry.entry.target) {
      return there->mtime_ns == entry.entry.mtime_ns ? ok() : parent->set_mtime(name, entry.entry.mtime_ns);
    }
  }
  if (there && there->type == os::FileType::kDirectory) {
    return Error(Code::kPathTypeConflict, "'" + store::escape_for_display(relative) + "' is a folder here, but a link on the volume",
                 "move it away, or get to another place");
  }
  // A link cannot be locked: each try makes one of its own.
  std::string temporary(store::base_name(own_part_name(relative)));
  CAIRN_CHECK_OK(parent->create_symlink(entry.entry.target, temporary));
  ++counts_.files_written;
  Status placed = parent->set_mtime(temporary, entry.entry.mtime_ns);
  if (placed) placed = parent->rename(temporary, *parent, name);
  if (!placed) (void)parent->remove(temporary).has_value();
  return placed;
}

Status Restorer::finish() {
  for (auto folder = closed_folders_.rbegin(); folder != closed_folders_.rend(); ++folder) {
    CAIRN_CHECK_OK(root_.set_mode(folder->first, folder->second));
  }
  closed_folders_.clear();
  return ok();
}

}  // namespace cairn::transfer
