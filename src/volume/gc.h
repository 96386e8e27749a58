// Garbage collection of one store (F1, F2, F7): mark takes a ticket and reads all roots in one transaction, then walks
// their trees; condemn marks unreached packs that are older than the ticket; sweep moves those past the grace time to
// `deleting`, which is final, deletes their objects and then their rows. Each step is one conditional statement per
// batch, may come arbitrarily late, be repeated, or be run by several servers at once. It goes by rows, never by
// listing.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>

#include "base/deadline.h"
#include "volume/context.h"

namespace cairn::volume {

struct Mark {
  StoreId store;
  int64_t ticket = 0;
  int64_t roots = 0;
  std::unordered_set<PackId> reached;
};

struct GcReport {
  int64_t roots = 0;
  int64_t packs_reached = 0;
  int64_t condemned = 0;
  int64_t deleted = 0;
  int64_t deleted_bytes = 0;
  int64_t failed = 0;  // deletions to be tried again
};

class GarbageCollector {
 public:
  explicit GarbageCollector(Context& context);
  ~GarbageCollector();

  Result<Mark> mark(StoreId store, Deadline deadline);
  // What condemn() would do, in packs and bytes (`gc --dry-run`).
  Result<GcReport> preview(const Mark& mark);
  Result<int64_t> condemn(const Mark& mark);
  // At most `max_packs` deletions; `deleted == max_packs` means there may be more.
  Result<GcReport> sweep(StoreId store, Deadline deadline, int64_t max_packs = 10'000);
  // All three. Nothing is done for a store whose collection is off (after a catalog restore).
  Result<GcReport> run(StoreId store, Deadline deadline);
  Result<GcReport> run_all(Deadline deadline);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::volume
