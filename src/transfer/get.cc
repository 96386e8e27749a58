#include "transfer/get.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/limits.h"
#include "os/file_system.h"
#include "os/tree.h"
#include "store/paths.h"
#include "transfer/content_id.h"
#include "transfer/entry_spool.h"
#include "transfer/fetcher.h"
#include "transfer/journal.h"
#include "transfer/listing.h"
#include "transfer/restorer.h"
#include "transfer/stat_cache.h"

namespace cairn::transfer {
namespace {

// The pin is given back whatever happens.
class Pinned {
 public:
  Pinned(Remote& remote, PinGrant grant) : remote_(remote), grant_(std::move(grant)) {}
  ~Pinned() { (void)remote_.unpin(grant_.pin, Deadline::after(seconds(5))).has_value(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  const PinGrant& grant() const { return grant_; }

 private:
  Remote& remote_;
  PinGrant grant_;
};

bool means_into(const std::string& local) {
  if (local.empty() || local.back() == '/') return true;
  std::string_view name = store::base_name(local);
  return name == "." || name == "..";
}

class Get {
 public:
  Get(Remote& remote, const GetOptions& options, Progress& progress, const Deadline& deadline)
      : remote_(remote), options_(options), progress_(progress), deadline_(deadline) {}

  Result<GetSummary> run() {
    Duration started = system_clock().monotonic();
    CAIRN_TRY(source_, store::normalize_path(options_.remote));
    CAIRN_TRY(PinGrant pin, remote_.pin(options_.snapshot, deadline_));
    Pinned pinned(remote_, pin);
    CAIRN_TRY(std::optional<RemoteStat> stat, remote_.stat(pin.pin, source_, deadline_));
    if (!stat) {
      return Error(Code::kPathNotFound, "'" + store::escape_for_display(source_) + "' is not on volume " + remote_.volume_name() +
                                            " (snapshot " + std::to_string(pin.snapshot) + ")",
                   "cairn volumes ls " + remote_.volume_name() + " shows what is");
    }
    CAIRN_CHECK_OK(choose_destination(*stat));
    for (const std::string& pattern : options_.include) include_.add_line(pattern);
    for (const std::string& pattern : options_.exclude) exclude_.add_line(pattern);
    summary_.snapshot = pin.snapshot;
    progress_.set_phase(Phase::kScanning);
    std::string cache_dir = options_.cache_dir.empty() ? default_cache_dir() : options_.cache_dir;
    CAIRN_TRY(os::Fd listing, make_scratch_file(cache_dir + "/scratch"));
    CAIRN_CHECK_OK(write_listing(pin, listing.get()));
    if (!options_.dry_run) CAIRN_CHECK_OK(restore(pin, listing.get(), cache_dir));
    summary_.duration = system_clock().monotonic() - started;
    progress_.set_phase(Phase::kDone);
    return summary_;
  }

 private:
  // The folder everything is written below, and what stands in front of each path there.
  Status choose_destination(const RemoteStat& stat) {
    std::string local = options_.local.empty() ? "." : options_.local;
    bool into = means_into(local);
    bool contents = source_.empty() || (!options_.remote.empty() && options_.remote.back() == '/');
    is_folder_ = stat.kind == store::EntryKind::kDirectory;
    std::string name(store::base_name(source_));
    if (is_folder_) {
      root_path_ = into && !contents ? local + "/" + name : local;
      return into && !contents ? refuse_link(root_path_) : ok();
    }
    struct stat st;
    bool existing_folder = ::stat(local.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
    if (into || existing_folder) {
      root_path_ = local;
      file_name_ = name;
      return ok();
    }
    size_t slash = local.rfind('/');
    root_path_ = slash == std::string::npos ? "." : slash == 0 ? "/" : local.substr(0, slash);
    file_name_ = slash == std::string::npos ? local : local.substr(slash + 1);
    return ok();
  }

  // The volume chose this name, not the caller: a link there may lead anywhere.
  static Status refuse_link(const std::string& path) {
    struct stat st;
    if (::lstat(path.c_str(), &st) != 0 || !S_ISLNK(st.st_mode)) return ok();
    return Error(Code::kPathTypeConflict, path + " is a symbolic link where the folder is to be written",
                 "remove it, or name the destination itself");
  }

  std::string relative_of(const std::string& path) const {
    if (!is_folder_) return file_name_;
    return path.size() == source_.size() ? std::string() : path.substr(source_.empty() ? 0 : source_.size() + 1);
  }

  bool wanted(const std::string& relative, bool is_directory) {
    if (relative.empty()) return true;
    if (!left_out_.empty() && store::is_under(relative, left_out_)) return false;
    bool named = include_.match(relative, is_directory) == true;
    bool keep = named || exclude_.match(relative, is_directory) != true;
    if (!include_.empty() && exclude_.empty() && !named && !is_directory) {
      // Includes alone select: below a folder that one of them names everything is taken.
      keep = false;
      for (size_t slash = 0; (slash = relative.find('/', slash)) != std::string::npos && !keep; ++slash) {
        keep = include_.match(relative.substr(0, slash), true) == true;
      }
    }
    if (!keep && is_directory) left_out_ = relative;
    return keep;
  }

  Status write_listing(const PinGrant& pin, int fd) {
    SpoolWriter writer(fd);
    if (pin.snapshot == 0) return writer.finish();
    ListingStream listing(remote_, pin, source_, deadline_);
    SpoolEntry entry;
    while (true) {
      CAIRN_CHECK_OK(deadline_.check());
      CAIRN_TRY(bool more, listing.next(entry));
      if (!more) break;
      bool folder = entry.entry.kind == store::EntryKind::kDirectory;
      std::string relative = relative_of(entry.entry.path);
      if (!wanted(relative, folder)) continue;
      if (!folder) {
        ++(entry.entry.kind == store::EntryKind::kSymlink ? summary_.links : summary_.files);
        summary_.bytes += entry.entry.size;
        progress_.files_total.fetch_add(1);
        progress_.bytes_total.fetch_add(entry.entry.size);
      }
      entry.local = std::move(relative);
      CAIRN_CHECK_OK(writer.add(entry));
      CAIRN_CHECK_OK(copy_chunks(listing, writer));
    }
    return writer.finish();
  }

  Status restore(const PinGrant& pin, int listing_fd, const std::string& cache_dir) {
    CAIRN_CHECK_OK(os::posix_file_system().make_directories(root_path_, 0755));
    CAIRN_TRY(os::Directory root, os::Directory::open(root_path_));
    std::unique_ptr<char, void (*)(void*)> real(::realpath(root_path_.c_str(), nullptr), ::free);
    StatCache cache(cache_dir, real ? std::string(real.get()) : root_path_);
    cache.load();
    progress_.set_phase(Phase::kMoving);
    Status status = [&]() -> Status {
      Fetcher::Options fetching;
      fetching.jobs = options_.jobs;
      fetching.bytes_per_second = options_.bytes_per_second;
      Fetcher fetcher(remote_, pin, fetching, progress_, deadline_);
      RestoreOptions restoring;
      restoring.checksum = options_.checksum;
      restoring.cache = &cache;
      Restorer restorer(fetcher, root, restoring, progress_);
      CAIRN_CHECK_OK(each_entry(listing_fd, [&](const SpoolEntry& entry, EntrySource& chunks) {
        return restorer.add(entry, entry.local, chunks);
      }));
      CAIRN_CHECK_OK(fetcher.drain());
      CAIRN_CHECK_OK(each_entry(listing_fd, [&](const SpoolEntry& entry, EntrySource&) {
        return restorer.finish_link(entry, entry.local);
      }));
      CAIRN_CHECK_OK(each_entry(listing_fd, [&](const SpoolEntry& entry, EntrySource&) {
        return restorer.finish_folder(entry, entry.local);
      }));
      CAIRN_CHECK_OK(restorer.finish());
      summary_.files_written = restorer.counts().files_written;
      summary_.chunks_reused = restorer.counts().chunks_reused;
      return ok();
    }();
    // What arrived is known, whatever became of the rest.
    if (Status saved = cache.save(); !saved) {
      progress_.notice(Notice::Kind::kNote, {}, "the stat cache could not be written: " + saved.error().message());
    }
    summary_.bytes_received = progress_.bytes_moved.load();
    summary_.chunks_fetched = progress_.chunks_new.load();
    return status;
  }

  template <class Function>
  Status each_entry(int fd, Function function) {
    SpoolReader reader(fd);
    SpoolEntry entry;
    while (true) {
      CAIRN_CHECK_OK(deadline_.check());
      CAIRN_TRY(bool more, reader.next(entry));
      if (!more) return ok();
      CAIRN_CHECK_OK(function(entry, reader));
    }
  }

  Remote& remote_;
  const GetOptions& options_;
  Progress& progress_;
  const Deadline& deadline_;
  std::string source_;
  bool is_folder_ = false;
  std::string root_path_;
  std::string file_name_;
  PatternList include_, exclude_;
  std::string left_out_;
  GetSummary summary_;
};

// Chunks of one batch of `cat`, in memory.
class MemorySink final : public ChunkSink {
 public:
  MemorySink(std::string name, uint64_t size) : name_(std::move(name)), bytes_(size) {}
  const std::string& name() const override { return name_; }
  Status write(uint64_t offset, codec::ByteView raw) override {
    std::copy(raw.begin(), raw.end(), bytes_.begin() + static_cast<ptrdiff_t>(offset));
    return ok();
  }
  codec::ByteView bytes() const { return bytes_; }

 private:
  const std::string name_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

Result<GetSummary> get(Remote& remote, const GetOptions& options, Progress& progress, const Deadline& deadline) {
  return Get(remote, options, progress, deadline).run();
}

Result<uint64_t> cat(Remote& remote, const CatOptions& options, const ByteSink& sink, Progress& progress,
                     const Deadline& deadline) {
  constexpr uint64_t kBatchBytes = 32 << 20;
  CAIRN_TRY(std::string path, store::normalize_path(options.path));
  CAIRN_TRY(PinGrant pin, remote.pin(options.snapshot, deadline));
  Pinned pinned(remote, pin);
  Error absent(Code::kPathNotFound, "'" + store::escape_for_display(path) + "' is no file on volume " + remote.volume_name(),
               "cairn volumes ls " + remote.volume_name() + " shows what is");
  if (pin.snapshot == 0 || path.empty()) return absent;
  ListingStream listing(remote, pin, path, deadline);
  SpoolEntry entry;
  CAIRN_TRY(bool found, listing.next(entry));
  if (!found || entry.entry.path != path || entry.entry.kind != store::EntryKind::kFile) return absent;
  Fetcher fetcher(remote, pin, Fetcher::Options{}, progress, deadline);
  uint64_t position = 0;  // of the next chunk in the file
  uint64_t end = options.length ? options.offset + std::min(*options.length, UINT64_MAX - options.offset) : UINT64_MAX;
  uint64_t written = 0;
  std::vector<store::ChunkRef> batch;
  uint64_t batch_start = 0;
  uint64_t batch_bytes = 0;
  auto hand_out = [&]() -> Status {
    if (batch.empty()) return ok();
    auto memory = std::make_shared<MemorySink>(path, batch_bytes);
    uint64_t offset = 0;
    for (const store::ChunkRef& chunk : batch) {
      CAIRN_CHECK_OK(fetcher.want(chunk, memory, offset));
      offset += chunk.raw_len;
    }
    CAIRN_CHECK_OK(fetcher.drain());
    uint64_t from = std::max(options.offset, batch_start) - batch_start;
    uint64_t to = std::min(end, batch_start + batch_bytes) - batch_start;
    if (from < to) CAIRN_CHECK_OK(sink(memory->bytes().subspan(from, to - from)));
    written += from < to ? to - from : 0;
    batch.clear();
    batch_bytes = 0;
    return ok();
  };
  while (position < end) {
    CAIRN_TRY(std::span<const store::ChunkRef> chunks, listing.next_chunks());
    if (chunks.empty()) break;
    for (const store::ChunkRef& chunk : chunks) {
      uint64_t chunk_end = position + chunk.raw_len;
      if (chunk_end > options.offset && position < end) {
        if (batch.empty()) batch_start = position;
        batch.push_back(chunk);
        batch_bytes += chunk.raw_len;
        if (batch_bytes >= kBatchBytes) CAIRN_CHECK_OK(hand_out());
      }
      position = chunk_end;
    }
  }
  CAIRN_CHECK_OK(hand_out());
  return written;
}

}  // namespace cairn::transfer
