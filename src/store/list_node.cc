#include <fmt/format.h>

#include "codec/digest.h"
#include "store/encoding.h"
#include "store/tree_node.h"

namespace cairn::store {

namespace {

constexpr std::string_view kListMagic = "CTL1";

Error corrupt(std::string_view what) { return Error(Code::kDataCorrupt, fmt::format("damaged chunk list: {}", what)); }

}  // namespace

bool is_list_boundary(uint8_t depth, const Digest& digest, uint64_t items) {
  // The top list is never cut: one more child than it may have is one too many for the file.
  if (depth == limits::kListDepthMax) return items > kListInnerItemsMax;
  if (items >= (depth == 1 ? kListItemsMax : kListInnerItemsMax)) return true;
  return items >= kListItemsMin && digest.prefix_u64() % kListOneIn == 0;
}

Digest list_digest(uint8_t depth, uint64_t count, ByteView content) {
  Bytes head;
  codec::ByteWriter writer(head);
  writer.bytes("cairn-list-v1");
  writer.u8(depth);
  writer.varint(count);
  return codec::Sha256().update(head).update(content).finish();
}

Result<std::shared_ptr<const ListNode>> ListNode::decode(ByteView raw) {
  if (raw.size() > limits::kNodeBytesMax) return corrupt("it is longer than 256 KiB");
  codec::ByteReader reader(raw);
  auto node = std::make_shared<ListNode>();
  reader.expect(kListMagic);
  node->depth_ = reader.u8();
  if (node->depth_ < 1 || node->depth_ > limits::kListDepthMax) reader.fail();
  uint64_t count = reader.varint(node->depth_ == 1 ? kListItemsMax : kListInnerItemsMax);
  ByteView content = reader.prefixed(limits::kNodeBytesMax);
  PackTable table;
  if (!reader.ok() || count == 0 || !table.read(reader, count)) return corrupt("its header");

  codec::ByteReader items(content);
  for (uint64_t i = 0; i < count && items.ok(); ++i) {
    if (node->depth_ == 1) {
      ChunkRef chunk;
      chunk.hash = read_digest(items);
      chunk.raw_len = static_cast<uint32_t>(items.varint(limits::kChunkBytesMax));
      if (chunk.raw_len == 0) items.fail();
      chunk.place = read_place(reader, table, chunk.raw_len);
      node->chunk_count_ += 1;
      node->bytes_ += chunk.raw_len;
      node->chunks_.push_back(chunk);
    } else {
      ListChild child;
      child.digest = read_digest(items);
      child.chunk_count = items.varint(limits::kFileBytesMax);
      child.bytes = items.varint(limits::kFileBytesMax);
      if (child.chunk_count == 0 || child.bytes < child.chunk_count) items.fail();
      child.frame = read_frame_ref(reader, table);
      node->chunk_count_ += child.chunk_count;
      node->bytes_ += child.bytes;
      node->children_.push_back(child);
    }
  }
  if (!items.finished() || node->bytes_ > limits::kFileBytesMax) return corrupt("its items");
  if (!reader.finished() || !table.all_used()) return corrupt("its places");
  node->packs_ = table.take();
  node->digest_ = list_digest(node->depth_, count, content);
  return std::shared_ptr<const ListNode>(std::move(node));
}

size_t ListNode::memory_bytes() const {
  return sizeof(ListNode) + chunks_.capacity() * sizeof(ChunkRef) + children_.capacity() * sizeof(ListChild) +
         packs_.capacity() * sizeof(PackId);
}

bool ListNodeBuilder::add_chunk(const ChunkRef& chunk) {
  codec::ByteWriter content(content_);
  content.bytes(chunk.hash.view());
  content.varint(chunk.raw_len);
  codec::ByteWriter places(places_);
  write_place(places, table_, chunk.place);
  ++items_;
  ++chunk_count_;
  bytes_ += chunk.raw_len;
  return is_list_boundary(depth_, chunk.hash, items_);
}

bool ListNodeBuilder::add_child(const ListChild& child) {
  codec::ByteWriter content(content_);
  content.bytes(child.digest.view());
  content.varint(child.chunk_count);
  content.varint(child.bytes);
  codec::ByteWriter places(places_);
  write_frame_ref(places, table_, child.frame);
  ++items_;
  chunk_count_ += child.chunk_count;
  bytes_ += child.bytes;
  return is_list_boundary(depth_, child.digest, items_);
}

Result<Bytes> ListNodeBuilder::encode() const {
  Bytes raw;
  raw.reserve(content_.size() + places_.size() + table_.packs().size() * PackId::kSize + 32);
  codec::ByteWriter writer(raw);
  writer.bytes(kListMagic);
  writer.u8(depth_);
  writer.varint(items_);
  writer.prefixed(ByteView(content_));
  table_.write(writer);
  writer.bytes(ByteView(places_));
  if (raw.size() > limits::kNodeBytesMax) {
    return Error(Code::kLimitExceeded, fmt::format("a chunk list would have {} bytes", raw.size()));
  }
  return raw;
}

void ListNodeBuilder::clear() {
  items_ = 0;
  chunk_count_ = 0;
  bytes_ = 0;
  content_.clear();
  places_.clear();
  table_.clear();
}

}  // namespace cairn::store
