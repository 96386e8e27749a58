#include "transfer/pack_sender.h"

#include <algorithm>

#include "base/random.h"
#include "codec/crc32c.h"

namespace cairn::transfer {
namespace {

// A full pack is at most the target and one chunk more.
constexpr uint64_t kBufferBytes = limits::kPackBytesTarget + limits::kChunkBytesMax;
constexpr size_t kPromisesMax = 64;
constexpr size_t kRegisterMax = 256;

}  // namespace

PackSender::PackSender(Remote& remote, const UploadGrant& grant, ChunkTable& table, const Options& options,
                       Progress& progress, const Deadline& deadline)
    : remote_(remote),
      grant_(grant),
      table_(table),
      progress_(progress),
      deadline_(deadline),
      pace_(options.bytes_per_second),
      full_(64),
      error_([this] {
        full_.abort();
        std::lock_guard lock(mutex_);
        buffers_changed_.notify_all();
      }),
      buffers_max_(std::max<size_t>(2, options.buffer_bytes / kBufferBytes)),
      filling_max_(std::clamp<size_t>(buffers_max_ / 2, 1, std::max<size_t>(2, std::thread::hardware_concurrency()))) {
  unsigned senders = std::max(1u, options.connections);
  for (unsigned i = 0; i < senders; ++i) threads_.emplace_back([this] { send_packs(); });
}

PackSender::~PackSender() {
  full_.abort();
  for (std::thread& thread : threads_) thread.join();
}

Result<std::unique_ptr<PackSender::Buffer>> PackSender::take_buffer() {
  std::unique_lock lock(mutex_);
  while (true) {
    CAIRN_CHECK_OK(error_.status());
    if (!open_.empty()) {
      std::unique_ptr<Buffer> buffer = std::move(open_.back());
      open_.pop_back();
      return buffer;
    }
    if (filling_ < filling_max_ && (!free_.empty() || made_ < buffers_max_)) {
      ++filling_;
      std::unique_ptr<Buffer> buffer;
      if (!free_.empty()) {
        buffer = std::move(free_.back());
        free_.pop_back();
      } else {
        ++made_;
        buffer = std::make_unique<Buffer>(store::PackBuilder::Options{});
      }
      buffer->local = PackId::random(system_random());
      return buffer;
    }
    buffers_changed_.wait(lock);
  }
}

Status PackSender::give_back(std::unique_ptr<Buffer> buffer) {
  if (buffer->builder.full()) return seal(std::move(buffer));
  std::lock_guard lock(mutex_);
  open_.push_back(std::move(buffer));
  buffers_changed_.notify_one();
  return ok();
}

Status PackSender::seal(std::unique_ptr<Buffer> buffer) {
  CAIRN_TRY(store::BuiltPack pack, buffer->builder.finish());
  buffer->bytes = pack.bytes;
  {
    std::lock_guard lock(mutex_);
    --filling_;
    buffers_changed_.notify_one();
  }
  if (!full_.push(std::move(buffer))) {
    CAIRN_CHECK_OK(error_.status());
    return Error(Code::kInternal, "a pack after the end");
  }
  return ok();
}

Result<store::ChunkRef> PackSender::place(const codec::Digest& hash, codec::ByteView raw) {
  uint32_t raw_len = static_cast<uint32_t>(raw.size());
  if (auto place = table_.find_or_claim(hash, raw_len)) {
    progress_.chunks_reused.fetch_add(1);
    return store::ChunkRef{hash, raw_len, *place};
  }
  auto append = [&]() -> Result<store::ChunkRef> {
    CAIRN_CHECK_OK(deadline_.check());
    CAIRN_TRY(std::unique_ptr<Buffer> buffer, take_buffer());
    while (!buffer->builder.fits(raw.size())) {
      CAIRN_CHECK_OK(seal(std::move(buffer)));
      CAIRN_TRY(buffer, take_buffer());
    }
    CAIRN_TRY(store::FrameInfo frame, buffer->builder.add(hash, raw));
    store::ChunkRef ref{hash, raw_len, store::Place{buffer->local, frame.offset, frame.stored_len}};
    CAIRN_CHECK_OK(give_back(std::move(buffer)));
    return ref;
  };
  Result<store::ChunkRef> ref = append();
  if (!ref) {
    table_.give_up(hash);
    error_.report(ref.error());
    return ref;
  }
  table_.stored(*ref);
  progress_.chunks_new.fetch_add(1);
  return ref;
}

void PackSender::send_packs() {
  while (std::optional<std::unique_ptr<Buffer>> next = full_.pop()) {
    std::unique_ptr<Buffer> buffer = std::move(*next);
    Status sent = send_pack(*buffer);
    if (!sent) {
      error_.report(std::move(sent).error());
      return;
    }
    buffer->builder.reset();
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
    buffers_changed_.notify_one();
  }
}

Status PackSender::send_pack(Buffer& buffer) {
  PackPromise promise{buffer.bytes.size(), codec::crc32c(buffer.bytes), PackKind::kData};
  CAIRN_TRY(PackSlot slot, store_bytes(promise, buffer.bytes));
  std::lock_guard lock(slots_mutex_);
  ids_[buffer.local] = slot.pack;
  arrived_.push_back(slot.pack);
  return ok();
}

// A URL that expired on the way (a very slow link, a laptop that slept) is replaced by a new slot.
Result<PackSlot> PackSender::store_bytes(const PackPromise& promise, codec::ByteView bytes) {
  for (int tries = 1;; ++tries) {
    CAIRN_TRY(PackSlot slot, get_slot(promise));
    CAIRN_CHECK_OK(pace_.wait_for(bytes.size(), deadline_));
    Status stored = remote_.put_object(slot, bytes, deadline_);
    if (stored) {
      progress_.bytes_moved.fetch_add(bytes.size());
      return slot;
    }
    if (stored.error().code() != Code::kUrlInvalid || tries == 3) return std::move(stored).error();
  }
}

// Whoever needs a slot while no exchange is under way does one for all who wait; the others find their answer afterwards.
Result<PackSlot> PackSender::get_slot(const PackPromise& promise) {
  Wish wish{promise, std::nullopt};
  std::unique_lock lock(slots_mutex_);
  wishes_.push_back(&wish);
  while (!wish.answer) {
    if (exchanging_) slots_changed_.wait(lock);
    else exchange(lock);
  }
  return std::move(*wish.answer);
}

void PackSender::exchange(std::unique_lock<std::mutex>& lock) {
  exchanging_ = true;
  size_t wanted = std::min(wishes_.size(), kPromisesMax);
  std::vector<Wish*> wishes(wishes_.begin(), wishes_.begin() + static_cast<ptrdiff_t>(wanted));
  wishes_.erase(wishes_.begin(), wishes_.begin() + static_cast<ptrdiff_t>(wanted));
  std::vector<PackPromise> promises;
  for (const Wish* wish : wishes) promises.push_back(wish->promise);
  size_t registering = std::min(arrived_.size(), kRegisterMax);
  std::vector<PackId> arrived(arrived_.begin(), arrived_.begin() + static_cast<ptrdiff_t>(registering));
  lock.unlock();
  auto answer = remote_.exchange_packs(grant_, arrived, promises, deadline_);
  lock.lock();
  if (answer && answer->size() != promises.size()) {
    answer = Error(Code::kInternal, "the server answered another number of pack slots than was asked for");
  }
  if (answer) arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<ptrdiff_t>(registering));
  for (size_t i = 0; i < wishes.size(); ++i) {
    if (answer) wishes[i]->answer.emplace(std::move((*answer)[i]));
    else wishes[i]->answer.emplace(answer.error());
  }
  if (!answer) error_.report(answer.error());
  exchanging_ = false;
  slots_changed_.notify_all();
}

Status PackSender::finish() {
  std::vector<std::unique_ptr<Buffer>> rest;
  {
    std::lock_guard lock(mutex_);
    rest.swap(open_);
  }
  for (std::unique_ptr<Buffer>& buffer : rest) {
    if (!error_.failed()) CAIRN_CHECK_OK(seal(std::move(buffer)));
  }
  full_.close();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  std::unique_lock lock(slots_mutex_);
  while (!arrived_.empty() && !error_.failed()) exchange(lock);
  return error_.status();
}

Result<PackId> PackSender::send_object(PackKind kind, codec::ByteView bytes) {
  CAIRN_TRY(PackSlot slot, store_bytes(PackPromise{bytes.size(), codec::crc32c(bytes), kind}, bytes));
  std::unique_lock lock(slots_mutex_);
  arrived_.push_back(slot.pack);
  while (!arrived_.empty() && !error_.failed()) exchange(lock);
  CAIRN_CHECK_OK(error_.status());
  return slot.pack;
}

PackId PackSender::server_id(const PackId& id) const {
  std::lock_guard lock(slots_mutex_);
  auto found = ids_.find(id);
  return found == ids_.end() ? id : found->second;
}

}  // namespace cairn::transfer
