// Streams the entries at and below a path of a pinned snapshot, one page ahead of the reader. The server is not believed:
// a listing that is unsorted, leaves the prefix, has something below a file or link, or whose pages do not fit together is
// data_corrupt. A pin that died on the way is replaced: the same snapshot is pinned again.
//
// Used by one thread; fetches in one thread of its own.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "store/changeset.h"
#include "transfer/channel.h"
#include "transfer/entry_spool.h"
#include "transfer/remote.h"

namespace cairn::transfer {

class ListingStream final : public EntrySource {
 public:
  static constexpr uint64_t kPageBytes = 2 << 20;

  // `prefix` "" lists everything. REQUIRES: `remote` outlives the stream; the snapshot is not 0.
  ListingStream(Remote& remote, const PinGrant& pin, std::string prefix, const Deadline& deadline,
                uint64_t page_bytes = kPageBytes);
  ~ListingStream() override;

  Result<bool> next(SpoolEntry& entry) override;
  Result<std::span<const store::ChunkRef>> next_chunks() override;

 private:
  struct Page {
    std::vector<uint8_t> bytes;
    bool last = false;
  };
  void fetch();
  Result<ListingPage> fetch_page(const ListingCursor& from);
  // The next record, across pages; false at the end.
  Result<bool> next_record();
  Result<bool> open_page();

  Remote& remote_;
  PinGrant pin_;  // of the fetching thread
  const std::string prefix_;
  const uint64_t page_bytes_;
  CancelToken stop_;
  Deadline deadline_;
  Channel<Result<Page>> pages_;
  std::thread thread_;

  std::optional<Page> page_;
  std::optional<store::BytesSource> source_;
  std::unique_ptr<store::ChangesetReader> reader_;
  store::Change change_;
  std::string last_path_;
  bool last_is_folder_ = true;
  uint64_t last_size_ = 0;
  uint64_t chunks_due_ = 0;
  uint64_t chunks_read_ = 0;
  bool done_ = false;
};

}  // namespace cairn::transfer
