// The nouns of the store: where a chunk lies, what an entry holds, what a tree's root is. All are plain values.
//
// A *place* says where stored bytes lie (pack, offset of the frame header, stored length); a *digest* says what they mean.
// Nothing is ever compared by place.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "codec/digest.h"

namespace cairn::store {

using codec::Bytes;
using codec::ByteView;
using codec::Digest;

// SHA-256 of a chunk's raw bytes.
using ChunkId = Digest;

// `offset` is that of the frame's header in its pack; `stored_len` does not count the header. The bytes to read are
// [offset, offset + kFrameHeaderBytes + stored_len).
struct Place {
  PackId pack;
  uint32_t offset = 0;
  uint32_t stored_len = 0;
  bool operator==(const Place&) const = default;
};

struct ChunkRef {
  ChunkId hash;
  uint32_t raw_len = 0;
  Place place;
  bool operator==(const ChunkRef&) const = default;
};

// A frame that holds a tree node or a list chunk. `frame_hash` is SHA-256 of the frame's raw bytes (places included), which
// is another thing than the node's digest.
struct FrameRef {
  Digest frame_hash;
  uint32_t raw_len = 0;
  Place place;
  bool operator==(const FrameRef&) const = default;
};

// The chunks of a file with more than kInlineChunksMax of them. Depth 1 lists chunks, depth 2 and 3 list lists.
struct ListRef {
  Digest digest;
  uint8_t depth = 0;
  uint64_t chunk_count = 0;
  FrameRef frame;
  bool operator==(const ListRef&) const = default;
};

// What lies in a tree or below a path. Sums saturate at 2^64-1. `entries` counts explicit entries only.
struct Counts {
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;

  Counts& operator+=(const Counts& other) {
    entries = saturating_add(entries, other.entries);
    files = saturating_add(files, other.files);
    bytes = saturating_add(bytes, other.bytes);
    return *this;
  }
  bool operator==(const Counts&) const = default;

  static uint64_t saturating_add(uint64_t a, uint64_t b) {
    uint64_t sum = a + b;
    return sum < a ? std::numeric_limits<uint64_t>::max() : sum;
  }
};

// One node of a tree and all below it. Level 0 is a leaf.
struct NodeRef {
  Digest digest;
  uint8_t level = 0;
  Counts counts;
  FrameRef frame;
  bool operator==(const NodeRef&) const = default;
};

// The root of a tree. Two trees hold the same entries exactly when their roots' digests are equal. The empty tree has no
// stored node: its root is empty_root(), with counts.entries == 0 and an all-zero frame.
using RootRef = NodeRef;

RootRef empty_root();
// The stored form of a root (docs/formats/tree.md); the catalog keeps it as hex.
Bytes encode_root(const RootRef& root);
Result<RootRef> decode_root(ByteView bytes);

enum class EntryKind : uint8_t { kFile = 1, kDirectory = 2, kSymlink = 3 };

struct EntryView;

// One entry of a volume. For files `size` is the sum of the chunks' raw lengths; up to kInlineChunksMax chunks stand in
// `chunks`, more are in `list`. An empty file has neither.
struct Entry {
  std::string path;
  EntryKind kind = EntryKind::kFile;
  uint32_t mode = 0;  // permission bits only, <= 07777
  int64_t mtime_ns = 0;
  uint64_t size = 0;
  std::string target;  // symlinks only
  uint64_t chunk_count = 0;
  std::vector<ChunkRef> chunks;
  std::optional<ListRef> list;

  bool operator==(const Entry&) const = default;
};

// The same without ownership; valid while what it was taken from lives (a Node, an Entry).
struct EntryView {
  std::string_view path;
  EntryKind kind = EntryKind::kFile;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  uint64_t size = 0;
  std::string_view target;
  uint64_t chunk_count = 0;
  std::span<const ChunkRef> chunks;
  const ListRef* list = nullptr;

  EntryView() = default;
  EntryView(const Entry& entry);  // NOLINT(google-explicit-constructor)
  Entry to_entry() const;
  Counts counts() const;
};

// Equal in content (path, kind, mode, mtime, size, target, chunk hashes); places are not looked at.
bool same_content(const EntryView& a, const EntryView& b);

}  // namespace cairn::store
