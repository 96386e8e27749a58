// Packs chunks and sends the packs: a fixed number of pack buffers go round between the threads that fill them and those that
// send them, so memory is bounded by `buffer_bytes` whatever is sent. Pack ids are asked for in batches, and the packs that
// arrived are registered by the same round trips.
//
// A pack gets its id only when it is full: until then its chunks carry a local id, which `server_id` translates after
// finish(). place() is thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "store/pack.h"
#include "transfer/channel.h"
#include "transfer/chunk_table.h"
#include "transfer/pace.h"
#include "transfer/progress.h"
#include "transfer/remote.h"

namespace cairn::transfer {

class PackSender {
 public:
  struct Options {
    unsigned connections = 4;
    uint64_t buffer_bytes = 288 << 20;
    uint64_t bytes_per_second = 0;
  };

  PackSender(Remote& remote, const UploadGrant& grant, ChunkTable& table, const Options& options, Progress& progress,
             const Deadline& deadline);
  // Ends without sending what is left, unless finish() was called.
  ~PackSender();

  // Where the chunk lies: reused, or now in a pack under way. Blocks while all buffers are being sent.
  Result<store::ChunkRef> place(const codec::Digest& hash, codec::ByteView raw);
  // Sends and registers everything. Nothing may be placed afterwards.
  Status finish();
  // Stores one object of another kind, registered, and returns its id.
  Result<PackId> send_object(PackKind kind, codec::ByteView bytes);
  // The server's id for a local one; any other id unchanged.
  PackId server_id(const PackId& id) const;
  // Wakes and ends everything with this error.
  void fail(Error error) { error_.report(std::move(error)); }

 private:
  struct Buffer {
    explicit Buffer(const store::PackBuilder::Options& options) : builder(options) {}
    store::PackBuilder builder;
    PackId local;
    codec::ByteView bytes;  // of the finished pack
  };
  struct Wish {
    PackPromise promise;
    std::optional<Result<PackSlot>> answer;
  };

  Result<std::unique_ptr<Buffer>> take_buffer();
  Status give_back(std::unique_ptr<Buffer> buffer);
  Status seal(std::unique_ptr<Buffer> buffer);
  void send_packs();
  Status send_pack(Buffer& buffer);
  Result<PackSlot> store_bytes(const PackPromise& promise, codec::ByteView bytes);
  Result<PackSlot> get_slot(const PackPromise& promise);
  void exchange(std::unique_lock<std::mutex>& lock);

  Remote& remote_;
  const UploadGrant grant_;
  ChunkTable& table_;
  Progress& progress_;
  const Deadline deadline_;
  Pace pace_;
  Channel<std::unique_ptr<Buffer>> full_;
  FirstError error_;

  std::mutex mutex_;  // guards the buffers
  std::condition_variable buffers_changed_;
  std::vector<std::unique_ptr<Buffer>> open_;  // partly filled
  std::vector<std::unique_ptr<Buffer>> free_;
  size_t made_ = 0;
  size_t filling_ = 0;  // partly filled, in open_ or in a thread's hands
  const size_t buffers_max_;
  const size_t filling_max_;

  mutable std::mutex slots_mutex_;  // guards what follows
  std::condition_variable slots_changed_;
  bool exchanging_ = false;
  std::vector<Wish*> wishes_;
  std::vector<PackId> arrived_;
  std::unordered_map<PackId, PackId> ids_;

  std::vector<std::thread> threads_;
};

}  // namespace cairn::transfer
