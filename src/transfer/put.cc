#include "transfer/put.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "os/host.h"
#include "os/tree.h"
#include "store/paths.h"
#include "transfer/entry_spool.h"
#include "transfer/journal.h"
#include "transfer/listing.h"
#include "transfer/put_plan.h"
#include "transfer/stat_cache.h"
#include "transfer/upload.h"

namespace cairn::transfer {
namespace {

// When it is worth listing the whole volume to find moved contents.
constexpr uint64_t kLookElsewhereBytes = 16 << 20;
constexpr size_t kFailedPathsMax = 100;
constexpr uint64_t kLookElsewhereEntries = 200'000;

struct LocalSource {
  bool stream = false;
  bool directory = false;
  bool contents_only = false;
  std::string root;  // the folder itself, or the folder the file lies in
  std::string name;  // last segment
  std::string absolute;
};

std::string absolute_path(const std::string& path) {
  std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
  return real ? std::string(real.get()) : std::string();
}

Result<LocalSource> look_at_local(const std::string& local) {
  LocalSource source;
  if (local == "-") {
    source.stream = true;
    source.name = "-";
    source.absolute = "-";
    return source;
  }
  struct stat st;
  if (::stat(local.c_str(), &st) != 0) return Error::from_errno(errno, local);
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) {
    return Error(Code::kFileUnreadable, local + " is neither a file nor a folder");
  }
  source.directory = S_ISDIR(st.st_mode);
  source.absolute = absolute_path(local);
  if (source.absolute.empty()) return Error::from_errno(errno, local);
  // The name is the one the user typed (a link's own), unless there is none in it (".", "..", "x/..").
  std::string_view typed = local;
  while (typed.size() > 1 && typed.back() == '/') typed.remove_suffix(1);
  std::string name(store::base_name(typed));
  bool dots = name == "." || name == "..";
  source.contents_only = source.directory && (local.back() == '/' || dots);
  source.name = dots || name.empty() ? std::string(store::base_name(source.absolute)) : name;
  source.root = source.absolute;
  if (!source.directory) {
    size_t slash = source.absolute.rfind('/');
    source.root = slash == 0 ? "/" : source.absolute.substr(0, slash);
  }
  return source;
}

struct Ends {
  LocalSource source;
  RemoteTarget target;
};

Result<Ends> look_at_ends(const PutOptions& options) {
  Ends ends;
  CAIRN_TRY(ends.source, look_at_local(options.local));
  const LocalSource& source = ends.source;
  CAIRN_TRY(ends.target, resolve_put_target(options.remote, source.name, source.contents_only, source.directory));
  if (options.mirror && !source.directory) return Error(Code::kUsage, "--delete needs a local folder");
  return ends;
}

// A folder `runs` of the source that would land on the volume's own. With includes only the scan knows what is taken.
Status check_no_runs_inside(const os::Directory& tree, const PutOptions& options, Scanner& scanner) {
  auto runs = tree.stat("runs");
  if (!runs || !options.scan.include.empty()) return ok();
  if (scanner.excluded("runs", runs->type == os::FileType::kDirectory)) return ok();
  return below_runs("runs");
}

// One file as a scan of one entry.
class OneFileScanner final : public Scanner {
 public:
  OneFileScanner(const os::Directory& folder, std::string name, bool stream)
      : folder_(folder), name_(std::move(name)), stream_(stream) {}
  Result<std::optional<ScanEntry>> next(const Deadline&) override {
    if (done_) return std::optional<ScanEntry>();
    done_ = true;
    ScanEntry entry;
    if (stream_) {
      entry.mode = 0644;
      entry.identity.mtime_ns = system_clock().now().us * 1000;
      return std::optional<ScanEntry>(std::move(entry));
    }
    CAIRN_TRY(os::OpenFile file, folder_.open_file(name_));
    entry.mode = file.stat.mode;
    entry.identity = FileIdentity{file.stat.device, file.stat.inode, file.stat.size, file.stat.mtime_ns, file.stat.ctime_ns};
    return std::optional<ScanEntry>(std::move(entry));
  }
  bool excluded(const std::string&, bool) override { return false; }
  const ScanCounts& counts() const override { return counts_; }
  const std::vector<std::string>& unreadable() const override { return unreadable_; }

 private:
  const os::Directory& folder_;
  std::string name_;
  bool stream_;
  bool done_ = false;
  ScanCounts counts_;
  std::vector<std::string> unreadable_;  // a file that cannot be opened ends the put
};

class Put {
 public:
  Put(Remote& remote, const PutOptions& options, Progress& progress, const Deadline& deadline)
      : remote_(remote), options_(options), progress_(progress), deadline_(deadline), table_(options.fingerprint_bytes) {}

  Result<PutSummary> run() {
    Duration started = system_clock().monotonic();
    CAIRN_CHECK_OK(prepare());
    Result<PutSummary> summary = options_.dry_run ? dry_run() : with_lease();
    // What was hashed is known, whatever became of the upload.
    if (Status saved = cache_->save(); !saved) {
      progress_.notice(Notice::Kind::kNote, {}, "the stat cache could not be written: " + saved.error().message());
    }
    if (!summary) return summary;
    summary->duration = system_clock().monotonic() - started;
    progress_.set_phase(Phase::kDone);
    return summary;
  }

 private:
  Status prepare() {
    CAIRN_TRY(Ends ends, look_at_ends(options_));
    source_ = std::move(ends.source);
    target_ = std::move(ends.target);
    cache_dir_ = options_.cache_dir.empty() ? default_cache_dir() : options_.cache_dir;
    cache_ = std::make_unique<StatCache>(cache_dir_, source_.root);
    if (source_.stream) return ok();
    cache_->load();
    CAIRN_TRY(tree_, os::Directory::open(source_.root));
    return ok();
  }

  std::string source_name() const {
    if (!options_.source.empty()) return options_.source;
    return os::host_name() + ":" + source_.absolute;
  }

  Result<PutSummary> dry_run() {
    CAIRN_TRY(PinGrant pin, remote_.pin(std::nullopt, deadline_));
    Result<PutSummary> summary = plan_and_send(pin, nullptr, nullptr);
    (void)remote_.unpin(pin.pin, deadline_).has_value();
    return summary;
  }

  Result<PutSummary> with_lease() {
    std::string state_dir = options_.state_dir.empty() ? default_state_dir() : options_.state_dir;
    std::string key = remote_.scope() + "\n" + source_name() + "\n" + target_.path;
    CAIRN_TRY(std::unique_ptr<Journal> journal, Journal::open(state_dir, key));
    CAIRN_TRY(UploadGrant grant, open_upload(*journal, state_dir));
    Status saved = journal->save(JournalEntry{journal_scope(remote_), grant.upload, grant.secret});
    if (!saved) {
      (void)remote_.close_upload(grant, Deadline::after(seconds(5))).has_value();
      return std::move(saved).error();
    }
    Result<PutSummary> summary = [&] {
      Heartbeat heartbeat(remote_, grant);
      return plan_and_send(grant.base, &grant, &heartbeat);
    }();
    // Ends the lease at once, also after Ctrl-C. When the outcome of the publication is unknown the lease is left alone: the
    // same command, run again, takes it over by the journal.
    bool unknown = !summary && summary.error().code() == Code::kOutcomeUnknown;
    if (unknown) return summary;
    Status closed = remote_.close_upload(grant, Deadline::after(seconds(5)));
    if (closed) journal->clear();
    return summary;
  }

  Result<UploadGrant> open_upload(const Journal& journal, const std::string& state_dir) {
    Duration started = system_clock().monotonic();
    std::optional<JournalEntry> entry = journal.load();
    std::string secret = entry ? entry->secret : std::string();
    bool told = false, ended_others = false;
    while (true) {
      auto grant = remote_.open_upload(source_name(), secret, deadline_);
      if (grant) return grant;
      Code code = grant.error().code();
      bool stale = code == Code::kLeaseLost || code == Code::kUploadExpired || code == Code::kUploadNotFound;
      if (stale && !secret.empty()) {
        secret.clear();
        continue;
      }
      if (code != Code::kWriterLeaseHeld) return grant;
      if (!std::exchange(ended_others, true) && end_abandoned_uploads(remote_, state_dir, deadline_) > 0) continue;
      // An abandoned upload of the same person and source may be taken over once it was silent for a minute.
      bool own = !journal.locked_by_other() && grant.error().holder().ends_with(source_name());
      Duration patience = own ? std::max<Duration>(options_.lease_wait, seconds(90)) : options_.lease_wait;
      if (system_clock().monotonic() - started >= patience) return grant;
      if (!told) progress_.notice(Notice::Kind::kWaiting, {}, grant.error().message());
      told = true;
      progress_.set_phase(Phase::kWaiting);
      CAIRN_CHECK_OK(deadline_.check());
      system_clock().sleep_for(seconds(1));
    }
  }

  // A parent of the target that is a file on the volume.
  Status check_ancestors(const PinGrant& pin) {
    if (pin.snapshot == 0) return ok();
    for (size_t slash = 0; (slash = target_.path.find('/', slash)) != std::string::npos; ++slash) {
      std::string above = target_.path.substr(0, slash);
      CAIRN_TRY(std::optional<RemoteStat> stat, remote_.stat(pin.pin, above, deadline_));
      if (!stat) return ok();
      if (stat->kind != store::EntryKind::kDirectory) {
        return Error(Code::kPathTypeConflict, "'" + store::escape_for_display(above) + "' is no folder on the volume",
                     "put to another path, or remove it first (cairn volumes rm)");
      }
    }
    return ok();
  }

  Result<PutSummary> plan_and_send(const PinGrant& pin, const UploadGrant* grant, Heartbeat* heartbeat) {
    CAIRN_CHECK_OK(check_ancestors(pin));
    progress_.set_phase(Phase::kScanning);
    CAIRN_TRY(os::Fd plan, make_scratch_file(cache_dir_ + "/scratch"));
    SpoolWriter writer(plan.get());
    std::unique_ptr<Scanner> scanner;
    if (source_.directory) {
      CAIRN_TRY(scanner, Scanner::open(source_.root, options_.scan, progress_));
    } else {
      std::string name(store::base_name(source_.absolute));
      scanner = std::make_unique<OneFileScanner>(tree_, name, source_.stream);
    }
    PutPlanInput input;
    if (!source_.directory) input.file_name = std::string(store::base_name(source_.absolute));
    input.scanner = scanner.get();
    input.target = target_.path;
    input.cache = cache_.get();
    input.table = &table_;
    input.mirror = options_.mirror;
    input.checksum = options_.checksum;
    std::unique_ptr<ListingStream> base;
    if (pin.snapshot != 0) {
      base = std::make_unique<ListingStream>(remote_, pin, target_.path, deadline_);
      input.base = base.get();
    }
    CAIRN_TRY(PutPlanCounts counts, make_put_plan(input, writer, progress_, deadline_));
    CAIRN_CHECK_OK(writer.finish());
    base.reset();

    PutSummary summary;
    summary.files = counts.files;
    summary.links = counts.links;
    summary.bytes = counts.bytes;
    summary.snapshot = pin.snapshot;
    summary.skipped = scanner->counts().skipped();
    summary.failed = scanner->counts().unreadable;
    for (const std::string& path : scanner->unreadable()) {
      if (summary.failed_paths.size() == kFailedPathsMax) break;
      summary.failed_paths.push_back(store::join_path(target_.path, path));
    }
    summary.files_changed = counts.changed;
    summary.files_deleted = counts.deleted;
    if (grant == nullptr || counts.entries == 0) return summary;
    CAIRN_CHECK_OK(send(*grant, *heartbeat, plan.get(), counts, summary));
    return summary;
  }

  // Contents that stand elsewhere on the volume need not be sent either (a folder that was moved).
  Status remember_volume(const PinGrant& pin) {
    ListingStream all(remote_, pin, std::string(), deadline_);
    SpoolEntry entry;
    while (!table_.full()) {
      CAIRN_TRY(bool more, all.next(entry));
      if (!more) break;
      while (true) {
        CAIRN_TRY(std::span<const store::ChunkRef> chunks, all.next_chunks());
        if (chunks.empty()) break;
        for (const store::ChunkRef& chunk : chunks) table_.add(chunk);
      }
    }
    return ok();
  }

  Status send(const UploadGrant& grant, Heartbeat& heartbeat, int plan_fd, const PutPlanCounts& counts, PutSummary& summary) {
    if (counts.bytes_to_read != 0 || source_.stream) {
      CAIRN_CHECK_OK(remember_packs(remote_, grant, table_, options_.jobs, deadline_));
    }
    if (counts.bytes_to_read >= kLookElsewhereBytes && !target_.path.empty() && grant.base.snapshot != 0 &&
        grant.base.entries <= kLookElsewhereEntries) {
      CAIRN_CHECK_OK(remember_volume(grant.base));
    }
    UploadInput input;
    input.tree = &tree_;
    input.tree_path = source_.root;
    input.follow_links = options_.scan.follow_links;
    input.stream_fd = source_.stream ? options_.stdin_fd : -1;
    input.plan_fd = plan_fd;
    input.scratch_dir = cache_dir_ + "/scratch";
    input.jobs = options_.jobs;
    input.connections = options_.connections;
    input.pack_buffer_bytes = options_.pack_buffer_bytes;
    input.bytes_per_second = options_.bytes_per_second;
    input.cache = source_.stream ? nullptr : cache_.get();
    input.publish.kind = "put";
    input.publish.reason = "put " + source_.name;
    input.publish.message = options_.message;
    input.still_ours = [&heartbeat] { return heartbeat.status(); };
    CAIRN_TRY(UploadOutcome outcome, upload(remote_, grant, input, table_, progress_, deadline_));
    summary.bytes_sent = progress_.bytes_moved.load();
    summary.chunks_new = progress_.chunks_new.load();
    summary.chunks_reused = progress_.chunks_reused.load();
    summary.files_changed = outcome.entries_changed;
    summary.files_deleted = outcome.entries_deleted;
    summary.failed += outcome.failed;
    summary.skipped += outcome.failed;
    for (std::string& path : outcome.failed_paths) {
      if (summary.failed_paths.size() < kFailedPathsMax) summary.failed_paths.push_back(std::move(path));
    }
    if (source_.stream) summary.bytes = outcome.bytes_changed;
    if (outcome.published) {
      summary.published = true;
      summary.snapshot = outcome.published->snapshot;
    }
    return ok();
  }

  Remote& remote_;
  const PutOptions& options_;
  Progress& progress_;
  const Deadline& deadline_;
  LocalSource source_;
  RemoteTarget target_;
  os::Directory tree_;
  std::string cache_dir_;
  std::unique_ptr<StatCache> cache_;
  ChunkTable table_;
};

}  // namespace

Status check_put(const PutOptions& options) {
  CAIRN_TRY(Ends ends, look_at_ends(options));
  const LocalSource& source = ends.source;
  if (source.stream) return ok();
  CAIRN_TRY(os::Directory tree, os::Directory::open(source.root));
  if (!source.directory) {
    auto file = tree.open_file(store::base_name(source.absolute));
    return file ? ok() : Status(file.error());
  }
  Progress quiet;
  CAIRN_TRY([[maybe_unused]] std::vector<os::TreeEntry> listed, tree.list());
  CAIRN_TRY(auto scanner, Scanner::open(source.root, options.scan, quiet));
  return ends.target.path.empty() ? check_no_runs_inside(tree, options, *scanner) : ok();
}

Result<PutSummary> put(Remote& remote, const PutOptions& options, Progress& progress, const Deadline& deadline) {
  return Put(remote, options, progress, deadline).run();
}

}  // namespace cairn::transfer
