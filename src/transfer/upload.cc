#include "transfer/upload.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>

#include "os/host.h"
#include "store/changeset.h"
#include "store/paths.h"
#include "transfer/channel.h"
#include "transfer/content_id.h"
#include "transfer/entry_spool.h"
#include "transfer/file_chunker.h"
#include "transfer/pack_sender.h"
#include "transfer/result_order.h"

namespace cairn::transfer {
namespace {

constexpr size_t kFailedPathsMax = 100;
constexpr int kReadingsMax = 3;

FileIdentity identity_of(const os::EntryStat& stat) {
  return FileIdentity{stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns};
}

Result<os::OpenFile> open_to_read(const UploadInput& input, const std::string& local) {
  if (!input.follow_links) return input.tree->open_file(local);
  std::string path = input.tree_path + "/" + local;
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return Error::from_errno(errno, path);
  CAIRN_TRY(os::EntryStat stat, os::stat_fd(fd.get(), path));
  if (stat.type != os::FileType::kFile) return Error(Code::kPathTypeConflict, path + " is no file any more");
  return os::OpenFile{std::move(fd), stat};
}

// One pass over the plan.
class Pass {
 public:
  struct Work {
    uint64_t sequence = 0;
    SpoolEntry entry;
    std::vector<store::ChunkRef> base;
  };

  Pass(Remote& remote, const UploadGrant& grant, const UploadInput& input, ChunkTable& table, bool reuse, Progress& progress,
       const Deadline& deadline)
      : input_(input),
        table_(table),
        reuse_(reuse),
        progress_(progress),
        deadline_(deadline),
        sender_(remote, grant, table,
                PackSender::Options{input.connections, input.pack_buffer_bytes, input.bytes_per_second}, progress, deadline),
        chunker_(sender_, static_cast<unsigned>(std::max<size_t>(2, os::usable_cpus())), os::usable_cpus() > 4 ? 2 : 1, progress,
                 deadline),
        work_(2 * std::max(1u, input.jobs)),
        error_([this] {
          work_.abort();
          stop_order();
        }) {}

  // Fills `outcome` but for the publication.
  Status run(UploadOutcome& outcome) {
    CAIRN_TRY(outcome.results, make_scratch_file(input_.scratch_dir));
    SpoolWriter spool(outcome.results.get());
    ResultOrder order(spool);
    order_ = &order;
    std::vector<std::thread> readers;
    for (unsigned i = 0; i < std::max(1u, input_.jobs); ++i) readers.emplace_back([this] { read_files(); });
    Status handed_out = hand_out();
    if (!handed_out) fail(std::move(handed_out).error());
    work_.close();
    for (std::thread& reader : readers) reader.join();
    {
      std::lock_guard lock(order_mutex_);
      order_ = nullptr;
    }
    CAIRN_CHECK_OK(error_.status());
    CAIRN_CHECK_OK(spool.finish());
    CAIRN_CHECK_OK(sender_.finish());
    outcome.entries_changed = order.changed();
    outcome.bytes_changed = order.bytes();
    outcome.entries_deleted = order.deleted();
    outcome.failed = failed_;
    outcome.failed_paths = std::move(failed_paths_);
    return ok();
  }

  Result<PackId> send_changeset(const UploadOutcome& outcome);
  PackSender& sender() { return sender_; }

 private:
  void fail(Error error) {
    sender_.fail(error);
    error_.report(std::move(error));
  }
  void stop_order() {
    std::lock_guard lock(order_mutex_);
    if (order_ != nullptr) order_->stop();
  }

  Status hand_out() {
    SpoolReader plan(input_.plan_fd);
    for (uint64_t sequence = 0;; ++sequence) {
      CAIRN_CHECK_OK(deadline_.check());
      if (sequence % 256 == 0) CAIRN_CHECK_OK(input_.still_ours());
      Work work;
      work.sequence = sequence;
      CAIRN_TRY(bool more, plan.next(work.entry));
      if (!more) return ok();
      bool truncated = false;
      CAIRN_TRY(work.base, read_chunks(plan, RefList::kInMemory, &truncated));
      bool file = work.entry.entry.kind == store::EntryKind::kFile && work.entry.action != Action::kDelete;
      // What cannot be taken over as it is has to be read.
      if (file && (truncated || !reuse_)) work.entry.action = Action::kRead;
      if (!order_->wait_for_room(sequence)) return ok();
      if (work.entry.action == Action::kRead) {
        if (!work_.push(std::move(work))) return ok();
        continue;
      }
      if (file) {
        progress_.files_done.fetch_add(1);
        progress_.bytes_done.fetch_add(work.entry.entry.size);
        progress_.chunks_reused.fetch_add(work.base.size());
      }
      ResultOrder::Item item;
      item.entry = std::move(work.entry);
      item.as_is = std::move(work.base);
      CAIRN_CHECK_OK(order_->deliver(sequence, std::move(item)));
    }
  }

  void read_files() {
    FileChunker::Buffer buffer;
    while (std::optional<Work> work = work_.pop()) {
      uint64_t sequence = work->sequence;
      auto item = input_.stream_fd >= 0 ? read_stream(*work, buffer) : read_file(*work, buffer);
      if (!item) {
        fail(std::move(item).error());
        return;
      }
      Status delivered = order_->deliver(sequence, std::move(*item));
      if (!delivered) {
        fail(std::move(delivered).error());
        return;
      }
    }
  }

  Result<ResultOrder::Item> read_file(Work& work, FileChunker::Buffer& buffer) {
    const std::string& path = work.entry.entry.path;
    FileChunker::Hint hint;
    if (reuse_ && table_.full()) {
      for (const store::ChunkRef& chunk : work.base) hint.emplace(chunk.hash, chunk);
    }
    auto refs = std::make_unique<RefList>(input_.scratch_dir);
    for (int reading = 0; reading < kReadingsMax; ++reading) {
      CAIRN_CHECK_OK(deadline_.check());
      refs->clear();
      Time hashed_at = system_clock().now();
      auto file = open_to_read(input_, work.entry.local);
      if (!file) return leave_out(work, Notice::Kind::kUnreadable, file.error().message());
      const os::EntryStat& before = file->stat;
      if (before.size > limits::kFileBytesMax) return leave_out(work, Notice::Kind::kUnreadable, "larger than 32 TiB");
      auto size = chunker_.chunk_file(file->fd.get(), before.size, path, hint.empty() ? nullptr : &hint, *refs, buffer);
      if (!size && (size.error().code() == Code::kFileUnreadable || size.error().code() == Code::kIoError)) {
        CAIRN_CHECK_OK(error_.status());
        return leave_out(work, Notice::Kind::kUnreadable, size.error().message());
      }
      if (!size) return std::move(size).error();
      CAIRN_TRY(os::EntryStat after, os::stat_fd(file->fd.get(), path));
      if (!after.same_content_as(before) || *size != before.size) {
        progress_.bytes_done.fetch_sub(*size);
        continue;
      }
      return finished(work, before, std::move(refs), hashed_at);
    }
    return leave_out(work, Notice::Kind::kChanging, "it changed during each of three readings");
  }

  Result<ResultOrder::Item> finished(Work& work, const os::EntryStat& stat, std::unique_ptr<RefList> refs, Time hashed_at) {
    ContentHasher hasher;
    for (uint64_t first = 0; first < refs->count();) {
      CAIRN_TRY(std::vector<store::ChunkRef> part, refs->read(first));
      hasher.add(part);
      first += part.size();
    }
    ContentId content = hasher.finish();
    ResultOrder::Item item;
    bool same_contents = content == work.entry.content;
    bool same_metadata = stat.mode == work.entry.entry.mode && stat.mtime_ns == work.entry.entry.mtime_ns;
    item.dropped = same_contents && same_metadata && work.entry.same_metadata;
    item.entry = std::move(work.entry);
    item.entry.action = Action::kPut;
    item.entry.content = content;
    item.entry.identity = identity_of(stat);
    item.entry.entry.mode = stat.mode;
    item.entry.entry.mtime_ns = stat.mtime_ns;
    item.entry.entry.size = stat.size;
    item.entry.entry.chunk_count = refs->count();
    item.refs = std::move(refs);
    if (input_.cache != nullptr) input_.cache->insert(item.entry.identity, content, hashed_at);
    progress_.files_done.fetch_add(1);
    return item;
  }

  Result<ResultOrder::Item> read_stream(Work& work, FileChunker::Buffer& buffer) {
    auto refs = std::make_unique<RefList>(input_.scratch_dir);
    CAIRN_TRY(uint64_t size, chunker_.chunk_file(input_.stream_fd, std::nullopt, "standard input", nullptr, *refs, buffer));
    os::EntryStat stat;
    stat.mode = work.entry.entry.mode;
    stat.mtime_ns = work.entry.entry.mtime_ns;
    stat.size = size;
    return finished(work, stat, std::move(refs), Time{0});
  }

  Result<ResultOrder::Item> leave_out(Work& work, Notice::Kind kind, std::string text) {
    progress_.notice(kind, work.entry.local, std::move(text));
    std::lock_guard lock(failed_mutex_);
    ++failed_;
    if (failed_paths_.size() < kFailedPathsMax) failed_paths_.push_back(work.entry.entry.path);
    ResultOrder::Item item;
    item.entry = std::move(work.entry);
    item.dropped = true;
    return item;
  }

  const UploadInput& input_;
  ChunkTable& table_;
  const bool reuse_;
  Progress& progress_;
  const Deadline deadline_;
  PackSender sender_;
  FileChunker chunker_;
  Channel<Work> work_;
  FirstError error_;
  std::mutex order_mutex_;
  ResultOrder* order_ = nullptr;
  std::mutex failed_mutex_;
  uint64_t failed_ = 0;
  std::vector<std::string> failed_paths_;
};

class FdSink final : public store::ByteSink {
 public:
  explicit FdSink(int fd) : fd_(fd) {}
  Status write(codec::ByteView bytes) override {
    if (buffer_.size() + bytes.size() > kBuffer) CAIRN_CHECK_OK(flush());
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return ok();
  }
  Status flush() {
    CAIRN_CHECK_OK(os::write_all_at(fd_, size_, buffer_, "scratch file"));
    size_ += buffer_.size();
    buffer_.clear();
    return ok();
  }
  uint64_t size() const { return size_; }

 private:
  static constexpr size_t kBuffer = 1 << 20;
  int fd_;
  uint64_t size_ = 0;
  codec::Bytes buffer_;
};

// A whole file as bytes that need no memory of their own.
class MappedFile {
 public:
  MappedFile(int fd, uint64_t size) : size_(size) {
    if (size != 0) data_ = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  }
  ~MappedFile() {
    if (data_ != nullptr && data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  Result<codec::ByteView> view() const {
    if (data_ == MAP_FAILED) return Error(Code::kIoError, "the changeset's scratch file cannot be mapped");
    return codec::ByteView(static_cast<const uint8_t*>(data_), size_);
  }

 private:
  void* data_ = nullptr;
  uint64_t size_;
};

Result<PackId> Pass::send_changeset(const UploadOutcome& outcome) {
  CAIRN_TRY(os::Fd file, make_scratch_file(input_.scratch_dir));
  FdSink sink(file.get());
  store::ChangesetWriter writer(sink);
  SpoolReader results(outcome.results.get());
  SpoolEntry entry;
  while (true) {
    CAIRN_TRY(bool more, results.next(entry));
    if (!more) break;
    if (entry.action == Action::kDelete) {
      CAIRN_CHECK_OK(writer.remove(entry.entry.path));
      continue;
    }
    CAIRN_CHECK_OK(writer.put(entry.entry));
    while (true) {
      CAIRN_TRY(std::span<const store::ChunkRef> chunks, results.next_chunks());
      if (chunks.empty()) break;
      std::vector<store::ChunkRef> placed(chunks.begin(), chunks.end());
      for (store::ChunkRef& chunk : placed) chunk.place.pack = sender_.server_id(chunk.place.pack);
      CAIRN_CHECK_OK(writer.add_chunks(placed));
    }
  }
  CAIRN_CHECK_OK(writer.finish());
  CAIRN_CHECK_OK(sink.flush());
  if (sink.size() > limits::kChangesetBytesMax) {
    return Error(Code::kLimitExceeded, "the list of changes is larger than 2 GiB", "upload the folder in several parts");
  }
  MappedFile mapped(file.get(), sink.size());
  CAIRN_TRY(codec::ByteView bytes, mapped.view());
  return sender_.send_object(PackKind::kChangeset, bytes);
}

// The results name local pack ids; the manifest of a run needs the server's.
Status translate_ids(UploadOutcome& outcome, const PackSender& sender, const std::string& scratch_dir) {
  CAIRN_TRY(os::Fd file, make_scratch_file(scratch_dir));
  SpoolWriter writer(file.get());
  SpoolReader results(outcome.results.get());
  SpoolEntry entry;
  while (true) {
    CAIRN_TRY(bool more, results.next(entry));
    if (!more) break;
    CAIRN_CHECK_OK(writer.add(entry));
    while (true) {
      CAIRN_TRY(std::span<const store::ChunkRef> chunks, results.next_chunks());
      if (chunks.empty()) break;
      std::vector<store::ChunkRef> placed(chunks.begin(), chunks.end());
      for (store::ChunkRef& chunk : placed) chunk.place.pack = sender.server_id(chunk.place.pack);
      CAIRN_CHECK_OK(writer.add_chunks(placed));
    }
  }
  CAIRN_CHECK_OK(writer.finish());
  outcome.results = std::move(file);
  return ok();
}

}  // namespace

Result<UploadOutcome> upload(Remote& remote, const UploadGrant& grant, const UploadInput& input, ChunkTable& table,
                             Progress& progress, const Deadline& deadline) {
  for (bool reuse : {true, false}) {
    UploadOutcome outcome;
    progress.set_phase(Phase::kMoving);
    Pass pass(remote, grant, input, table, reuse, progress, deadline);
    CAIRN_CHECK_OK(pass.run(outcome));
    if (outcome.entries_changed + outcome.entries_deleted == 0) return outcome;
    CAIRN_CHECK_OK(input.still_ours());
    progress.set_phase(Phase::kPublishing);
    PublishRequest request = input.publish;
    CAIRN_TRY(request.changeset, pass.send_changeset(outcome));
    auto published = remote.publish(grant, request, deadline);
    if (published) {
      outcome.published = std::move(*published);
      CAIRN_CHECK_OK(translate_ids(outcome, pass.sender(), input.scratch_dir));
      return outcome;
    }
    if (published.error().code() != Code::kChunksGone || !reuse || input.stream_fd >= 0) return std::move(published).error();
    progress.notice(Notice::Kind::kNote, {}, "contents that were to be reused are gone; sending them again");
    table.clear();
    progress.files_done = 0;
    progress.bytes_done = 0;
  }
  return Error(Code::kInternal, "unreachable");
}

Status remember_packs(Remote& remote, const UploadGrant& grant, ChunkTable& table, unsigned connections,
                      const Deadline& deadline) {
  CAIRN_TRY(std::vector<PackUrl> packs, remote.resumable_packs(grant, deadline));
  std::atomic<size_t> next{0};
  FirstError error;
  auto read_indexes = [&] {
    for (size_t i; (i = next.fetch_add(1)) < packs.size() && !table.full();) {
      const PackUrl& pack = packs[i];
      if (pack.size_bytes < store::kPackHeaderBytes + store::kPackFooterBytes || pack.size_bytes > limits::kPackBytesMax) continue;
      codec::Bytes footer(store::kPackFooterBytes);
      if (!remote.get_range(pack.url, pack.size_bytes - footer.size(), footer, deadline)) continue;
      auto tail = store::parse_pack_footer(footer, pack.size_bytes);
      if (!tail) continue;
      codec::Bytes bytes(tail->index_bytes());
      if (!remote.get_range(pack.url, tail->index_offset, bytes, deadline)) continue;
      auto index = store::PackIndex::parse(*tail, bytes);
      if (!index) continue;
      for (const store::FrameInfo& frame : index->frames()) {
        table.add(store::ChunkRef{frame.hash, frame.raw_len, store::Place{pack.pack, frame.offset, frame.stored_len}});
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(std::max(1u, connections), packs.size()); ++i) threads.emplace_back(read_indexes);
  for (std::thread& thread : threads) thread.join();
  return deadline.check();
}

Heartbeat::Heartbeat(Remote& remote, UploadGrant grant, Duration interval)
    : remote_(remote), grant_(std::move(grant)), interval_(interval), thread_([this] { beat(); }) {}

Heartbeat::~Heartbeat() {
  stop_.cancel();
  {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  thread_.join();
}

Status Heartbeat::status() const {
  std::lock_guard lock(mutex_);
  if (lost_) return *lost_;
  return ok();
}

void Heartbeat::beat() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [&] { return stop_.cancelled(); })) {
    lock.unlock();
    Status answer = remote_.heartbeat(grant_, Deadline::after(interval_ * 2, system_clock(), stop_));
    lock.lock();
    if (answer || stop_.cancelled()) continue;
    Code code = answer.error().code();
    if (code == Code::kLeaseLost || code == Code::kUploadExpired || code == Code::kUploadNotFound) {
      lost_ = std::move(answer).error();
      return;
    }
  }
}

}  // namespace cairn::transfer
