// The seam to the bytes: immutable objects under keys. An object is put whole or not at all and never replaced: a
// second put of a key is object_exists. A put that returned ok is durable, and so is an object that head or
// object_exists told of; open and get promise no such thing (register by head). Reads are exact: asking for bytes that
// the object does not have is data_corrupt, an absent object is object_not_found. A put that failed with a code of the
// retry classes kBackoff or kReadBack may have happened all the same.
//
// Every implementation and every decorator passes testing/object_store_contract.h. Stores are thread-safe; a writer
// belongs to one thread; a reader's read_at may be called from several. Readers and writers must not outlive their
// store.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "object/object_key.h"

namespace cairn::object {

using codec::Bytes;
using codec::ByteView;

struct ObjectInfo {
  uint64_t size = 0;
  uint32_t crc32c = 0;  // of all bytes, where the store keeps it
  bool crc_known = false;
};

struct ListedObject {
  ObjectKey key;
  uint64_t size = 0;
};

struct ListPage {
  std::vector<ListedObject> objects;  // in byte order of their keys
  bool more = false;                  // ask again after the last key
};

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;  // without commit: nothing is left of it
  // The first error is returned by every later call.
  virtual Status append(ByteView data) = 0;
  // request_invalid when the bytes are not as many as declared; object_exists when the key is taken by now.
  virtual Status commit() = 0;
};

class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual uint64_t size() const = 0;
  // Up to out.size() bytes from `offset`, at least one before the end, 0 at or after it.
  virtual Result<size_t> read_at(uint64_t offset, std::span<uint8_t> out) = 0;
  // For sendfile; -1 where there is none.
  virtual int native_fd() const { return -1; }

  // Fills `out`; data_corrupt when the object ends before.
  Status read_exactly(uint64_t offset, std::span<uint8_t> out);
};

inline constexpr size_t kListLimitMax = 10'000;

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // A new object of exactly `size` bytes. object_exists at once or at commit.
  virtual Result<std::unique_ptr<ObjectWriter>> create(const ObjectKey& key, uint64_t size,
                                                       const Deadline& deadline) = 0;
  virtual Result<std::unique_ptr<ObjectReader>> open(const ObjectKey& key, const Deadline& deadline) = 0;
  virtual Status put_if_absent(const ObjectKey& key, ByteView data, const Deadline& deadline) = 0;
  // Exactly the bytes [offset, offset + length). The caller bounds length.
  virtual Result<Bytes> get(const ObjectKey& key, uint64_t offset, uint64_t length, const Deadline& deadline) = 0;
  virtual Result<ObjectInfo> head(const ObjectKey& key, const Deadline& deadline) = 0;
  // Ok when absent.
  virtual Status remove(const ObjectKey& key, const Deadline& deadline) = 0;
  // Keys that start with `prefix` (of bytes) and lie after `after`; limit is capped at kListLimitMax. What is put or
  // removed meanwhile may or may not be seen. For the doctor and `check`: garbage is collected by row, never by
  // listing.
  virtual Result<ListPage> list(const std::string& prefix, const std::string& after, size_t limit,
                                const Deadline& deadline) = 0;

  // The whole object; limit_exceeded when it is larger than `max_bytes`.
  Result<Bytes> get_all(const ObjectKey& key, uint64_t max_bytes, const Deadline& deadline);
};

}  // namespace cairn::object
