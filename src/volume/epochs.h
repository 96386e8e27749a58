// Epochs (F7): a number that a store's objects and its catalog row share. Where they differ, the catalog is not the one
// that wrote the store last (a restored backup, a failover that lost transactions). Then the epoch is raised past both,
// collection is switched off for that store, fences and snapshot numbers jump past all that may have been given out,
// and every lease ends.
//
// Call check_all() at start before serving; raise_all() after restoring a catalog. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "volume/context.h"

namespace cairn::volume {

class Epochs {
 public:
  static constexpr int64_t kCounterGap = int64_t{1} << 32;

  explicit Epochs(Context& context) : context_(context) {}
  // Answers the stores that differed and were raised.
  Result<std::vector<StoreId>> check_all(Deadline deadline);
  Result<int64_t> raise_all(Deadline deadline);
  // Collection again, once somebody reconciled catalog and store.
  Status allow_collection(StoreId store);

 private:
  // The greatest epoch listed in the store; 0 when there is none.
  Result<int64_t> epoch_of_objects(StoreId store, const Deadline& deadline);
  Status raise(StoreId store, int64_t row_epoch, int64_t object_epoch, const Deadline& deadline);

  Context& context_;
};

}  // namespace cairn::volume
