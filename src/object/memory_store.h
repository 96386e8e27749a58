// An ObjectStore in memory: for tests and the simulator. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "object/object_store.h"

namespace cairn::object {

class MemoryStore final : public ObjectStore {
 public:
  Result<std::unique_ptr<ObjectWriter>> create(const ObjectKey& key, uint64_t size, const Deadline& deadline) override;
  Result<std::unique_ptr<ObjectReader>> open(const ObjectKey& key, const Deadline& deadline) override;
  Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) override;
  Result<Bytes> get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) override;
  Result<ObjectInfo> head(const ObjectKey& key, const Deadline& deadline) override;
  Status remove(const ObjectKey& key, const Deadline& deadline) override;
  Result<ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                        const Deadline& deadline) override;

  size_t object_count() const;
  uint64_t total_bytes() const;
  // Flips bits of one stored byte: what a bad disk does. REQUIRES: the object exists and is longer than `offset`.
  void damage(const ObjectKey& key, uint64_t offset);

 private:
  friend class MemoryWriter;
  struct Object {
    std::shared_ptr<const Bytes> bytes;
    uint32_t crc32c = 0;
  };
  Status insert(const ObjectKey& key, Bytes bytes);
  Result<Object> find(const ObjectKey& key) const;

  mutable std::mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_;
};

}  // namespace cairn::object
