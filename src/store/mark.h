// What garbage collection needs from trees: the set of packs that a set of roots names. Subtrees already seen are not read
// again, so a further root costs its new nodes only.
//
// Used by one thread at a time. Memory grows with the number of distinct nodes and packs, 32 to 64 bytes each.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "base/deadline.h"
#include "base/result.h"
#include "store/node_source.h"
#include "store/types.h"

namespace cairn::store {

class Marker {
 public:
  explicit Marker(NodeSource& source) : source_(&source) {}

  // Adds every pack that `root` and all below it names, and the packs of the nodes and lists themselves. After an error the
  // marks are incomplete: nothing may be collected by them.
  Status add(const RootRef& root, const Deadline& deadline);

  const std::unordered_set<PackId>& packs() const { return packs_; }
  uint64_t frames_read() const { return frames_read_; }

 private:
  Status mark_node(const NodeRef& ref, const Deadline& deadline);
  Status mark_list(const ListRef& ref, const Deadline& deadline);

  NodeSource* source_;
  std::unordered_set<PackId> packs_;
  std::unordered_set<Digest> visited_;
  uint64_t frames_read_ = 0;
};

}  // namespace cairn::store
