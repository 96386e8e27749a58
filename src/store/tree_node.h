// Tree nodes and list chunks as bytes (docs/formats/tree.md) and as decoded values.
//
// Decoding is bounded by the raw bytes (at most 256 KiB) and by the sum of the expanded paths (about 1 MiB), and refuses all
// that the one encoder would not write: other orders, unused packs, long varints, trailing bytes. Decoded values are
// immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "store/encoding.h"
#include "store/types.h"

namespace cairn::store {

// Where nodes are cut: a function of what the node holds already and of the last item's path, never of what follows.
inline constexpr uint64_t kNodeItemsMin = 16;
inline constexpr uint64_t kNodeItemsMax = 4096;
inline constexpr uint64_t kNodeContentMin = 16 * limits::kKiB;
inline constexpr uint64_t kNodeContentCut = 80 * limits::kKiB;   // forced from here on
inline constexpr uint64_t kNodeContentMax = 96 * limits::kKiB;   // cut + the longest item
inline constexpr uint64_t kNodePathBytesCut = limits::kMiB;      // forced from here on
inline constexpr uint64_t kLeafOneIn = 512;
inline constexpr uint64_t kInnerOneIn = 128;

inline constexpr uint64_t kListItemsMin = 32;
inline constexpr uint64_t kListItemsMax = 4096;       // depth 1
inline constexpr uint64_t kListInnerItemsMax = 2048;  // depth 2 and 3
inline constexpr uint64_t kListOneIn = 512;

// Whether a node at `level` is cut after the item with this path.
bool is_node_boundary(uint8_t level, std::string_view path, uint64_t items, uint64_t content_bytes, uint64_t path_bytes);
bool is_list_boundary(uint8_t depth, const Digest& digest, uint64_t items);

Digest node_digest(uint8_t level, uint64_t count, ByteView content);
Digest list_digest(uint8_t depth, uint64_t count, ByteView content);

struct Child {
  std::string_view first_path;
  NodeRef ref;
};

class Node {
 public:
  // kDataCorrupt unless `raw` is exactly one node of that level. Level 0 has entries, others have children.
  static Result<std::shared_ptr<const Node>> decode(ByteView raw);

  uint8_t level() const { return level_; }
  const Digest& digest() const { return digest_; }
  const Counts& counts() const { return counts_; }
  const std::vector<PackId>& packs() const { return packs_; }
  const std::vector<EntryView>& entries() const { return entries_; }
  const std::vector<Child>& children() const { return children_; }
  std::string_view first_path() const { return level_ == 0 ? entries_.front().path : children_.front().first_path; }
  // What it takes in memory, roughly, for the cache's bound.
  size_t memory_bytes() const;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

 private:
  friend class NodeDecoder;
  uint8_t level_ = 0;
  Digest digest_;
  Counts counts_;
  std::vector<PackId> packs_;
  std::string text_;  // paths and targets
  std::vector<ChunkRef> chunks_;
  std::vector<ListRef> lists_;
  std::vector<EntryView> entries_;
  std::vector<Child> children_;
};

// The open node of one level: items are appended, then it is sealed.
class NodeBuilder {
 public:
  explicit NodeBuilder(uint8_t level) : level_(level) {}

  // Both append and say whether the node must be cut now. REQUIRES: sorted, valid input; level 0 or level > 0.
  bool add_entry(const EntryView& entry);
  bool add_child(std::string_view first_path, const NodeRef& child);

  bool empty() const { return items_ == 0; }
  uint64_t items() const { return items_; }
  const Counts& counts() const { return counts_; }
  const std::string& first_path() const { return first_path_; }
  const std::vector<PackId>& packs() const { return table_.packs(); }
  Digest digest() const { return node_digest(level_, items_, content_); }
  // The node's raw bytes. kLimitExceeded past 256 KiB.
  Result<Bytes> encode() const;
  void clear();

 private:
  bool after_item(std::string_view path);

  uint8_t level_;
  uint64_t items_ = 0;
  uint64_t path_bytes_ = 0;
  std::string first_path_;
  std::string last_path_;
  Counts counts_;
  Bytes content_;
  Bytes places_;
  PackTableBuilder table_;
};

struct ListChild {
  uint64_t chunk_count = 0;
  uint64_t bytes = 0;
  Digest digest;
  FrameRef frame;
};

class ListNode {
 public:
  static Result<std::shared_ptr<const ListNode>> decode(ByteView raw);

  uint8_t depth() const { return depth_; }
  const Digest& digest() const { return digest_; }
  uint64_t chunk_count() const { return chunk_count_; }
  uint64_t bytes() const { return bytes_; }
  const std::vector<PackId>& packs() const { return packs_; }
  const std::vector<ChunkRef>& chunks() const { return chunks_; }        // depth 1
  const std::vector<ListChild>& children() const { return children_; }  // depth 2, 3
  size_t memory_bytes() const;

 private:
  uint8_t depth_ = 0;
  Digest digest_;
  uint64_t chunk_count_ = 0;
  uint64_t bytes_ = 0;
  std::vector<PackId> packs_;
  std::vector<ChunkRef> chunks_;
  std::vector<ListChild> children_;
};

class ListNodeBuilder {
 public:
  explicit ListNodeBuilder(uint8_t depth) : depth_(depth) {}
  bool add_chunk(const ChunkRef& chunk);
  bool add_child(const ListChild& child);

  uint64_t items() const { return items_; }
  uint64_t chunk_count() const { return chunk_count_; }
  uint64_t bytes() const { return bytes_; }
  const std::vector<PackId>& packs() const { return table_.packs(); }
  Digest digest() const { return list_digest(depth_, items_, content_); }
  Result<Bytes> encode() const;
  void clear();

 private:
  uint8_t depth_;
  uint64_t items_ = 0;
  uint64_t chunk_count_ = 0;
  uint64_t bytes_ = 0;
  Bytes content_;
  Bytes places_;
  PackTableBuilder table_;
};

}  // namespace cairn::store
