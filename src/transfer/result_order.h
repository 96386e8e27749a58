// Brings results that are found in any order back into plan order, in a bounded window, and writes them to a spool.
//
// wait_for_room() is called by the one thread that hands out work, deliver() by any. A spool that cannot be written is answered to
// whoever delivered, never reported from here: those who are told of a failure call stop(), which takes the same lock.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "transfer/entry_spool.h"
#include "transfer/ref_list.h"

namespace cairn::transfer {

class ResultOrder {
 public:
  static constexpr uint64_t kWindow = 16'384;
  static constexpr uint64_t kWaitingRefsMax = 262'144;

  struct Item {
    SpoolEntry entry;
    std::unique_ptr<RefList> refs;         // of a file that was read, or
    std::vector<store::ChunkRef> as_is;    // of one that is put unread
    bool dropped = false;                  // nothing to publish
  };

  explicit ResultOrder(SpoolWriter& spool) : spool_(spool) {}

  // Blocks until item `sequence` may be started; false when the work has failed.
  bool wait_for_room(uint64_t sequence) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] {
      bool room = sequence < next_ + kWindow && (waiting_refs_ <= kWaitingRefsMax || sequence == next_);
      return room || stopped_;
    });
    return !stopped_;
  }
  // Fails once, when the spool cannot be written; what is delivered afterwards is dropped.
  Status deliver(uint64_t sequence, Item item) {
    std::lock_guard lock(mutex_);
    if (stopped_) return ok();
    waiting_refs_ += refs_of(item);
    waiting_.emplace(sequence, std::move(item));
    while (!waiting_.empty() && waiting_.begin()->first == next_) {
      waiting_refs_ -= refs_of(waiting_.begin()->second);
      Status written = write(waiting_.begin()->second);
      if (!written) {
        stopped_ = true;
        room_.notify_all();
        return written;
      }
      waiting_.erase(waiting_.begin());
      ++next_;
    }
    room_.notify_all();
    return ok();
  }
  void stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    room_.notify_all();
  }

  uint64_t changed() const { return changed_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t deleted() const { return deleted_; }

 private:
  static uint64_t refs_of(const Item& item) { return item.as_is.size() + (item.refs ? item.refs->count() : 0); }

  Status write(Item& item) {
    if (item.dropped) return ok();
    if (item.entry.action == Action::kDelete) ++deleted_;
    else ++changed_;
    bytes_ += item.entry.entry.size;
    if (!item.refs) return spool_.add(item.entry, item.as_is);
    CAIRN_CHECK_OK(spool_.add(item.entry));
    for (uint64_t first = 0; first < item.refs->count();) {
      CAIRN_TRY(std::vector<store::ChunkRef> part, item.refs->read(first));
      CAIRN_CHECK_OK(spool_.add_chunks(part));
      first += part.size();
    }
    return ok();
  }

  SpoolWriter& spool_;
  std::mutex mutex_;
  std::condition_variable room_;
  std::map<uint64_t, Item> waiting_;
  uint64_t waiting_refs_ = 0;
  uint64_t next_ = 0;
  bool stopped_ = false;
  uint64_t changed_ = 0;
  uint64_t bytes_ = 0;
  uint64_t deleted_ = 0;
};

}  // namespace cairn::transfer
