// A fault overlay over any ObjectStore: calls fail before they happen, fail after they happened, come back short or
// damaged, or take long, as a seeded plan says. The inner store stays pristine: damage is in what is returned, never in
// what is stored. A failed test prints the plan (to_string) so that it can be run again.
//
// Thread-safe; with several threads the sequence depends on their order.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "object/object_store.h"

namespace cairn::testing {

// Chances in a thousand, each asked for every call it fits.
struct FaultPlan {
  uint64_t seed = 1;
  int fail = 0;                // store_unavailable, nothing happened
  int applied_but_failed = 0;  // put, commit, remove: it happened, and the answer is store_unavailable
  int short_read = 0;          // get: fewer bytes than asked for; read_at: fewer, at times none
  int corrupt_read = 0;        // one byte of a get or read_at is wrong
  int delay = 0;               // the clock moves by `delay_by`
  Duration delay_by = seconds(2);

  std::string to_string() const;
};

class FaultyObjectStore final : public object::ObjectStore {
 public:
  // Both must outlive this.
  FaultyObjectStore(object::ObjectStore& inner, Clock& clock, FaultPlan plan);

  using Bytes = object::Bytes;
  using ByteView = object::ByteView;
  using ObjectKey = object::ObjectKey;

  Result<std::unique_ptr<object::ObjectWriter>> create(const ObjectKey& key, uint64_t size,
                                                       const Deadline& deadline) override;
  Result<std::unique_ptr<object::ObjectReader>> open(const ObjectKey& key, const Deadline& deadline) override;
  Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) override;
  Result<Bytes> get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) override;
  Result<object::ObjectInfo> head(const ObjectKey& key, const Deadline& deadline) override;
  Status remove(const ObjectKey& key, const Deadline& deadline) override;
  Result<object::ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                                const Deadline& deadline) override;

  // Off, it only passes calls on: for the phase in which everything must finish.
  void set_enabled(bool enabled) { enabled_ = enabled; }
  uint64_t faults() const { return faults_; }
  const FaultPlan& plan() const { return plan_; }

 private:
  friend class FaultyWriter;
  friend class FaultyReader;

  bool chance(int in_a_thousand);
  // Delays, and fails where the plan says so.
  Status before(const char* verb);
  // Turns a success into "failed" where the plan says so.
  Status after(Status done, const char* verb);
  // How many bytes of `size` come back, and one of them changed.
  size_t shorten(size_t size);
  void corrupt(std::span<uint8_t> bytes);

  object::ObjectStore& inner_;
  Clock& clock_;
  FaultPlan plan_;
  std::mutex mutex_;
  SeededRandom random_;
  std::atomic<bool> enabled_{true};
  std::atomic<uint64_t> faults_{0};
};

}  // namespace cairn::testing
