#include "store/types.h"

#include <algorithm>

#include "base/limits.h"
#include "store/encoding.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {
constexpr uint8_t kRootVersion = 1;
}

RootRef empty_root() {
  RootRef root;
  root.digest = node_digest(0, 0, {});
  return root;
}

Bytes encode_root(const RootRef& root) {
  Bytes out;
  codec::ByteWriter writer(out);
  writer.u8(kRootVersion);
  writer.bytes(root.digest.view());
  writer.u8(root.level);
  writer.varint(root.counts.entries);
  writer.varint(root.counts.files);
  writer.varint(root.counts.bytes);
  if (root.counts.entries == 0) return out;
  writer.bytes(root.frame.frame_hash.view());
  writer.varint(root.frame.raw_len);
  writer.bytes(ByteView(root.frame.place.pack.bytes()));
  writer.varint(root.frame.place.offset);
  writer.varint(root.frame.place.stored_len);
  return out;
}

Result<RootRef> decode_root(ByteView bytes) {
  codec::ByteReader reader(bytes);
  RootRef root;
  if (reader.u8() != kRootVersion && reader.ok()) {
    return Error(Code::kFormatUnsupported, "tree root of a version this build does not know");
  }
  root.digest = read_digest(reader);
  root.level = static_cast<uint8_t>(reader.varint(limits::kTreeHeightMax - 1));
  root.counts.entries = reader.varint(limits::kEntriesMax);
  root.counts.files = reader.varint(root.counts.entries);
  root.counts.bytes = reader.varint();
  if (reader.ok() && root.counts.entries == 0) {
    if (!reader.finished() || !(root == empty_root())) return Error(Code::kDataCorrupt, "damaged root of an empty tree");
    return root;
  }
  root.frame.frame_hash = read_digest(reader);
  root.frame.raw_len = static_cast<uint32_t>(reader.varint(limits::kNodeBytesMax));
  ByteView pack = reader.bytes(PackId::kSize);
  root.frame.place.offset = static_cast<uint32_t>(reader.varint(limits::kPackBytesMax));
  root.frame.place.stored_len = static_cast<uint32_t>(reader.varint(root.frame.raw_len));
  if (!reader.finished() || root.frame.place.stored_len == 0) return Error(Code::kDataCorrupt, "damaged tree root");
  root.frame.place.pack = PackId::from_bytes(pack.data());
  return root;
}

EntryView::EntryView(const Entry& entry)
    : path(entry.path),
      kind(entry.kind),
      mode(entry.mode),
      mtime_ns(entry.mtime_ns),
      size(entry.size),
      target(entry.target),
      chunk_count(entry.chunk_count),
      chunks(entry.chunks),
      list(entry.list ? &*entry.list : nullptr) {}

Entry EntryView::to_entry() const {
  Entry entry;
  entry.path = path;
  entry.kind = kind;
  entry.mode = mode;
  entry.mtime_ns = mtime_ns;
  entry.size = size;
  entry.target = target;
  entry.chunk_count = chunk_count;
  entry.chunks.assign(chunks.begin(), chunks.end());
  if (list != nullptr) entry.list = *list;
  return entry;
}

Counts EntryView::counts() const {
  Counts counts;
  counts.entries = 1;
  if (kind == EntryKind::kFile) {
    counts.files = 1;
    counts.bytes = size;
  }
  return counts;
}

bool same_content(const EntryView& a, const EntryView& b) {
  if (a.path != b.path || a.kind != b.kind || a.mode != b.mode || a.mtime_ns != b.mtime_ns || a.size != b.size ||
      a.target != b.target || a.chunk_count != b.chunk_count || a.chunks.size() != b.chunks.size() ||
      (a.list == nullptr) != (b.list == nullptr)) {
    return false;
  }
  if (a.list != nullptr && (a.list->digest != b.list->digest || a.list->depth != b.list->depth)) return false;
  return std::equal(a.chunks.begin(), a.chunks.end(), b.chunks.begin(), [](const ChunkRef& x, const ChunkRef& y) {
    return x.hash == y.hash && x.raw_len == y.raw_len;
  });
}

}  // namespace cairn::store
