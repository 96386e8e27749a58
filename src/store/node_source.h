// Reads tree nodes and chunk lists by place, verified: frame CRC, the frame's hash from the place, and the digest computed
// again from the content. A bounded cache of decoded nodes is keyed by (pack, offset).
//
// Implementations are thread-safe. Returned nodes are immutable and stay valid as long as the pointer is held.
#pragma once

#include <cstdint>
#include <memory>

#include "base/deadline.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "store/types.h"

namespace cairn::object {
class ObjectStore;
}

namespace cairn::store {

class Node;
class ListNode;

class NodeSource {
 public:
  virtual ~NodeSource() = default;
  // kDataCorrupt when what is stored is not the node `ref` names: digest, level, counts, hash and lengths are compared.
  virtual Result<std::shared_ptr<const Node>> read_node(const NodeRef& ref, const Deadline& deadline) = 0;
  virtual Result<std::shared_ptr<const ListNode>> read_list(const ListRef& ref, const Deadline& deadline) = 0;
};

// Reads [offset, offset + length) of a pack, exactly.
class PackReader {
 public:
  virtual ~PackReader() = default;
  virtual Result<Bytes> read(const PackId& pack, uint64_t offset, uint64_t length, const Deadline& deadline) = 0;
};

// The packs of one store in an object store, which must outlive it.
class ObjectPackReader final : public PackReader {
 public:
  ObjectPackReader(object::ObjectStore& objects, const StoreId& store) : objects_(&objects), store_(store) {}
  Result<Bytes> read(const PackId& pack, uint64_t offset, uint64_t length, const Deadline& deadline) override;

 private:
  object::ObjectStore* objects_;
  StoreId store_;
};

class CachedNodeSource final : public NodeSource {
 public:
  // `cache_bytes` bounds the decoded nodes kept; 0 keeps none. `packs` must outlive this object.
  CachedNodeSource(PackReader& packs, uint64_t cache_bytes);
  ~CachedNodeSource() override;

  Result<std::shared_ptr<const Node>> read_node(const NodeRef& ref, const Deadline& deadline) override;
  Result<std::shared_ptr<const ListNode>> read_list(const ListRef& ref, const Deadline& deadline) override;

  struct Stats {
    uint64_t reads = 0;  // frames fetched from the store
    uint64_t hits = 0;
    uint64_t cached_bytes = 0;
  };
  Stats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
