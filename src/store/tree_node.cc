#include "store/tree_node.h"

#include <array>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/digest.h"
#include "store/encoding.h"
#include "store/paths.h"

namespace cairn::store {

namespace {

constexpr std::string_view kNodeMagic = "CTN1";

Error corrupt(std::string_view what) { return Error(Code::kDataCorrupt, fmt::format("damaged tree node: {}", what)); }

}  // namespace

bool is_node_boundary(uint8_t level, std::string_view path, uint64_t items, uint64_t content_bytes,
                      uint64_t path_bytes) {
  if (content_bytes >= kNodeContentCut || items >= kNodeItemsMax || path_bytes >= kNodePathBytesCut) return true;
  if (items < kNodeItemsMin && content_bytes < kNodeContentMin) return false;
  std::array<uint8_t, limits::kPathBytesMax + 1> salted;
  CAIRN_CHECK(path.size() < salted.size());
  salted[0] = level;
  std::copy(path.begin(), path.end(), salted.begin() + 1);
  Digest digest = codec::sha256(ByteView(salted).first(path.size() + 1));
  return digest.prefix_u64() % (level == 0 ? kLeafOneIn : kInnerOneIn) == 0;
}

Digest node_digest(uint8_t level, uint64_t count, ByteView content) {
  Bytes head;
  codec::ByteWriter writer(head);
  writer.bytes("cairn-node-v1");
  writer.u8(level);
  writer.varint(count);
  return codec::Sha256().update(head).update(content).finish();
}

class NodeDecoder {
 public:
  explicit NodeDecoder(ByteView raw) : reader_(raw), node_(std::make_shared<Node>()) {}

  Result<std::shared_ptr<const Node>> decode() {
    if (!read_header()) return corrupt("its header");
    codec::ByteReader content(content_);
    if (node_->level_ == 0) {
      if (!read_entries(content)) return corrupt("its entries");
    } else if (!read_children(content)) {
      return corrupt("its children");
    }
    if (!(node_->level_ == 0 ? read_entry_places() : read_child_places())) return corrupt("its places");
    fix_views();
    node_->packs_ = table_.take();
    node_->digest_ = node_digest(node_->level_, count_, content_);
    return std::shared_ptr<const Node>(std::move(node_));
  }

 private:
  struct Span {
    size_t begin;
    size_t size;
  };

  bool read_header() {
    reader_.expect(kNodeMagic);
    uint8_t level = reader_.u8();
    if (level >= limits::kTreeHeightMax) reader_.fail();
    node_->level_ = level;
    count_ = reader_.varint(kNodeItemsMax);
    content_ = reader_.prefixed(kNodeContentMax);
    return reader_.ok() && count_ >= 1 && table_.read(reader_, limits::kNodeBytesMax / PackId::kSize);
  }

  bool read_item_path(codec::ByteReader& content) {
    if (!read_path(content, path_)) return false;
    path_bytes_ += path_.size();
    if (path_bytes_ > kNodePathBytesCut + limits::kPathBytesMax) content.fail();
    texts_.push_back(append(path_));
    return content.ok();
  }

  Span append(std::string_view text) {
    Span span{node_->text_.size(), text.size()};
    node_->text_.append(text);
    return span;
  }

  bool read_entries(codec::ByteReader& content) {
    node_->entries_.reserve(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      if (!read_item_path(content)) return false;
      EntryView entry;
      uint8_t kind = content.u8();
      entry.mode = static_cast<uint32_t>(content.varint(07777));
      entry.mtime_ns = content.zigzag();
      Span target{0, 0};
      switch (kind) {
        case static_cast<uint8_t>(EntryKind::kFile):
          read_file(content, entry);
          break;
        case static_cast<uint8_t>(EntryKind::kDirectory):
          break;
        case static_cast<uint8_t>(EntryKind::kSymlink): {
          std::string_view text = codec::as_text(content.prefixed(limits::kSymlinkBytesMax));
          if (!validate_symlink_target(text)) content.fail();
          target = append(text);
          break;
        }
        default:
          content.fail();
      }
      if (!content.ok()) return false;
      entry.kind = static_cast<EntryKind>(kind);
      if (i > 0 && node_->entries_.back().kind != EntryKind::kDirectory && lies_below_last()) return false;
      targets_.push_back(target);
      node_->entries_.push_back(entry);
      node_->counts_ += entry.counts();
    }
    return content.finished();
  }

  // Whether the entry just read lies below the one before it.
  bool lies_below_last() const {
    const Span& last = texts_[texts_.size() - 2];
    return is_under(path_, std::string_view(node_->text_).substr(last.begin, last.size));
  }

  void read_file(codec::ByteReader& content, EntryView& entry) {
    entry.size = content.varint(limits::kFileBytesMax);
    entry.chunk_count = content.varint(limits::kFileBytesMax);
    uint64_t inline_count = 0;
    uint64_t sum = 0;
    if (entry.chunk_count > limits::kInlineChunksMax) {
      ListRef list;
      list.chunk_count = entry.chunk_count;
      list.depth = static_cast<uint8_t>(content.varint(limits::kListDepthMax));
      if (list.depth == 0) content.fail();
      list.digest = read_digest(content);
      node_->lists_.push_back(list);
      if (entry.chunk_count > entry.size) content.fail();
    } else {
      inline_count = entry.chunk_count;
      for (uint64_t i = 0; i < inline_count && content.ok(); ++i) {
        ChunkRef chunk;
        chunk.hash = read_digest(content);
        chunk.raw_len = static_cast<uint32_t>(content.varint(limits::kChunkBytesMax));
        if (chunk.raw_len == 0) content.fail();
        sum += chunk.raw_len;
        node_->chunks_.push_back(chunk);
      }
      if (sum != entry.size) content.fail();
    }
    chunk_spans_.push_back({node_->chunks_.size() - inline_count, inline_count});
  }

  bool read_children(codec::ByteReader& content) {
    node_->children_.reserve(count_);
    for (uint64_t i = 0; i < count_; ++i) {
      if (!read_item_path(content)) return false;
      Child child;
      child.ref.level = static_cast<uint8_t>(node_->level_ - 1);
      child.ref.digest = read_digest(content);
      child.ref.counts.entries = content.varint(limits::kEntriesMax);
      child.ref.counts.files = content.varint(child.ref.counts.entries);
      child.ref.counts.bytes = content.varint();
      if (!content.ok() || child.ref.counts.entries == 0) return false;
      node_->children_.push_back(child);
      node_->counts_ += child.ref.counts;
    }
    return content.finished();
  }

  bool read_entry_places() {
    size_t next_list = 0;
    size_t next_chunk = 0;
    for (const EntryView& entry : node_->entries_) {
      if (entry.chunk_count > limits::kInlineChunksMax) {
        node_->lists_[next_list++].frame = read_frame_ref(reader_, table_);
      } else {
        for (uint64_t i = 0; i < entry.chunk_count; ++i) {
          ChunkRef& chunk = node_->chunks_[next_chunk++];
          chunk.place = read_place(reader_, table_, chunk.raw_len);
        }
      }
      if (!reader_.ok()) return false;
    }
    return reader_.finished() && table_.all_used();
  }

  bool read_child_places() {
    for (Child& child : node_->children_) child.ref.frame = read_frame_ref(reader_, table_);
    return reader_.finished() && table_.all_used();
  }

  std::string_view view(const Span& span) const {
    return std::string_view(node_->text_).substr(span.begin, span.size);
  }

  // All vectors have their final addresses now.
  void fix_views() {
    for (size_t i = 0; i < node_->children_.size(); ++i) node_->children_[i].first_path = view(texts_[i]);
    size_t file = 0;
    size_t list = 0;
    for (size_t i = 0; i < node_->entries_.size(); ++i) {
      EntryView& entry = node_->entries_[i];
      entry.path = view(texts_[i]);
      entry.target = view(targets_[i]);
      if (entry.kind != EntryKind::kFile) continue;
      const Span& span = chunk_spans_[file++];
      entry.chunks = std::span<const ChunkRef>(node_->chunks_).subspan(span.begin, span.size);
      if (entry.chunk_count > limits::kInlineChunksMax) entry.list = &node_->lists_[list++];
    }
  }

  codec::ByteReader reader_;
  std::shared_ptr<Node> node_;
  ByteView content_;
  uint64_t count_ = 0;
  uint64_t path_bytes_ = 0;
  std::string path_;
  PackTable table_;
  std::vector<Span> texts_;
  std::vector<Span> targets_;
  std::vector<Span> chunk_spans_;
};

Result<std::shared_ptr<const Node>> Node::decode(ByteView raw) {
  if (raw.size() > limits::kNodeBytesMax) return corrupt("it is longer than 256 KiB");
  return NodeDecoder(raw).decode();
}

size_t Node::memory_bytes() const {
  return sizeof(Node) + text_.capacity() + chunks_.capacity() * sizeof(ChunkRef) + lists_.capacity() * sizeof(ListRef) +
         entries_.capacity() * sizeof(EntryView) + children_.capacity() * sizeof(Child) +
         packs_.capacity() * sizeof(PackId);
}

bool NodeBuilder::add_entry(const EntryView& entry) {
  codec::ByteWriter content(content_);
  codec::ByteWriter places(places_);
  write_path(content, last_path_, entry.path);
  content.u8(static_cast<uint8_t>(entry.kind));
  content.varint(entry.mode);
  content.zigzag(entry.mtime_ns);
  switch (entry.kind) {
    case EntryKind::kFile:
      content.varint(entry.size);
      content.varint(entry.chunk_count);
      if (entry.list != nullptr) {
        content.varint(entry.list->depth);
        content.bytes(entry.list->digest.view());
        write_frame_ref(places, table_, entry.list->frame);
      }
      for (const ChunkRef& chunk : entry.chunks) {
        content.bytes(chunk.hash.view());
        content.varint(chunk.raw_len);
        write_place(places, table_, chunk.place);
      }
      break;
    case EntryKind::kDirectory:
      break;
    case EntryKind::kSymlink:
      content.prefixed(entry.target);
      break;
  }
  counts_ += entry.counts();
  return after_item(entry.path);
}

bool NodeBuilder::add_child(std::string_view first_path, const NodeRef& child) {
  codec::ByteWriter content(content_);
  write_path(content, last_path_, first_path);
  content.bytes(child.digest.view());
  content.varint(child.counts.entries);
  content.varint(child.counts.files);
  content.varint(child.counts.bytes);
  codec::ByteWriter places(places_);
  write_frame_ref(places, table_, child.frame);
  counts_ += child.counts;
  return after_item(first_path);
}

bool NodeBuilder::after_item(std::string_view path) {
  if (items_ == 0) first_path_ = path;
  last_path_ = path;
  ++items_;
  path_bytes_ += path.size();
  return is_node_boundary(level_, path, items_, content_.size(), path_bytes_);
}

Result<Bytes> NodeBuilder::encode() const {
  Bytes raw;
  raw.reserve(content_.size() + places_.size() + table_.packs().size() * PackId::kSize + 32);
  codec::ByteWriter writer(raw);
  writer.bytes(kNodeMagic);
  writer.u8(level_);
  writer.varint(items_);
  writer.prefixed(ByteView(content_));
  table_.write(writer);
  writer.bytes(ByteView(places_));
  if (raw.size() > limits::kNodeBytesMax || content_.size() > kNodeContentMax) {
    return Error(Code::kLimitExceeded, fmt::format("a tree node at '{}' would have {} bytes",
                                                   escape_for_display(first_path_), raw.size()));
  }
  return raw;
}

void NodeBuilder::clear() {
  items_ = 0;
  path_bytes_ = 0;
  first_path_.clear();
  last_path_.clear();
  counts_ = Counts();
  content_.clear();
  places_.clear();
  table_.clear();
}

}  // namespace cairn::store
