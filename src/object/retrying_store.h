// A decorator that asks again: errors of retry class kBackoff, and a get that comes back short, are tried again after a
// growing, jittered pause until the caller's deadline. A put whose outcome is unknown and then meets object_exists
// looks whether the object is the caller's own (size and CRC32C, read back where the store keeps none) before it says
// ok; when the deadline ends first it answers outcome_unknown. A writer's appends are not repeated, its commit is
// resolved the same way.
//
// Retries live in this layer only. Thread-safe when the inner store, the clock and `random` are used by it alone or
// are.
#pragma once

#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/random.h"
#include "object/object_store.h"

namespace cairn::object {

struct RetryOptions {
  Duration first_pause = milliseconds(50);
  Duration longest_pause = seconds(5);
  int attempts_max = 12;
};

class RetryingStore final : public ObjectStore {
 public:
  // All but the options must outlive this.
  RetryingStore(ObjectStore& inner, Clock& clock, Random& random, RetryOptions options = {});

  Result<std::unique_ptr<ObjectWriter>> create(const ObjectKey& key, uint64_t size, const Deadline& deadline) override;
  Result<std::unique_ptr<ObjectReader>> open(const ObjectKey& key, const Deadline& deadline) override;
  Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) override;
  Result<Bytes> get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) override;
  Result<ObjectInfo> head(const ObjectKey& key, const Deadline& deadline) override;
  Status remove(const ObjectKey& key, const Deadline& deadline) override;
  Result<ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                        const Deadline& deadline) override;

 private:
  friend class RetryingWriter;
  friend class RetryingReader;

  template <class Call>
  auto retry(const Deadline& deadline, Call call) -> decltype(call());
  // False when the attempts or the deadline are used up; sleeps otherwise.
  bool pause(int attempt, const Deadline& deadline);
  // Ok when the object is there with these bytes; object_exists when it holds others; object_not_found when absent.
  Status compare(const ObjectKey& key, uint64_t size, uint32_t crc32c, const Deadline& deadline);

  ObjectStore& inner_;
  Clock& clock_;
  Random& random_;
  std::mutex random_mutex_;
  RetryOptions options_;
};

}  // namespace cairn::object
