// Fetches chunks and hands them, decoded and verified, to whoever wanted them: wishes are gathered, grouped by pack, their
// ranges coalesced and read by a few threads. A chunk wanted several times in a batch is read once. Memory is bounded by the
// batch and by one range a thread.
//
// want() and drain() belong to one thread; sinks are called by any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/deadline.h"
#include "store/frame.h"
#include "transfer/channel.h"
#include "transfer/pace.h"
#include "transfer/progress.h"
#include "transfer/remote.h"

namespace cairn::transfer {

class ChunkSink {
 public:
  virtual ~ChunkSink() = default;
  // What errors call it: the path on the volume.
  virtual const std::string& name() const = 0;
  // One chunk's bytes, verified. Each wish is answered once, in any order, by any thread.
  virtual Status write(uint64_t offset, codec::ByteView raw) = 0;
};

class Fetcher {
 public:
  struct Options {
    unsigned jobs = 8;
    uint64_t bytes_per_second = 0;
    uint64_t batch_bytes = 96 << 20;
  };

  Fetcher(Remote& remote, const PinGrant& pin, const Options& options, Progress& progress, const Deadline& deadline);
  ~Fetcher();

  Status want(const store::ChunkRef& chunk, std::shared_ptr<ChunkSink> sink, uint64_t offset);
  // Waits until every wish is answered.
  Status drain();
  void fail(Error error) { error_.report(std::move(error)); }
  Status status() const { return error_.status(); }

 private:
  struct Target {
    std::shared_ptr<ChunkSink> sink;
    uint64_t offset = 0;
  };
  struct Wish {
    store::ChunkRef chunk;
    Target target;
  };
  struct Piece {
    store::ChunkRef chunk;
    std::vector<Target> targets;
  };
  struct Range {
    PackId pack;
    std::string url;
    uint64_t offset = 0;
    uint64_t length = 0;
    std::vector<Piece> pieces;
  };

  Status dispatch();
  Result<std::unordered_map<PackId, std::string>> urls_of(const std::vector<PackId>& packs);
  Result<std::vector<PackUrl>> ask_urls(std::span<const PackId> packs);
  void fetch_ranges();
  Status fetch(Range& range, std::vector<uint8_t>& stored, std::vector<uint8_t>& raw, store::FrameDecoder& decoder);
  Status deliver(const Range& range, const std::vector<uint8_t>& stored, std::vector<uint8_t>& raw,
                 store::FrameDecoder& decoder, size_t& delivered);

  Remote& remote_;
  PinGrant pin_;
  std::mutex pin_mutex_;
  const Options options_;
  Progress& progress_;
  const Deadline deadline_;
  Pace pace_;
  std::vector<Wish> wishes_;
  uint64_t wished_bytes_ = 0;
  std::unordered_map<PackId, std::string> urls_;
  Duration urls_since_{0};
  Channel<Range> ranges_;
  std::mutex mutex_;
  std::condition_variable settled_;
  uint64_t open_ = 0;  // ranges handed out and not finished
  FirstError error_;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::transfer
