#include "store/encoding.h"

#include <algorithm>
#include <unordered_set>

#include "store/frame.h"
#include "store/paths.h"

namespace cairn::store {

void write_path(codec::ByteWriter& writer, std::string_view previous, std::string_view path) {
  size_t limit = std::min(previous.size(), path.size());
  size_t shared = static_cast<size_t>(std::mismatch(previous.begin(), previous.begin() + static_cast<ptrdiff_t>(limit),
                                                    path.begin()).first - previous.begin());
  writer.varint(shared);
  writer.prefixed(path.substr(shared));
}

bool read_path(codec::ByteReader& reader, std::string& path, bool may_repeat) {
  size_t shared = reader.varint(path.size());
  std::string_view rest = codec::as_text(reader.prefixed(limits::kPathBytesMax));
  if (!reader.ok()) return false;
  bool repeats = rest.empty() && shared == path.size() && !path.empty();
  if (repeats) {
    if (!may_repeat) reader.fail();
    return may_repeat;
  }
  // Canonical: nothing that could have been shared stands in the rest.
  bool canonical = !rest.empty() && (shared == path.size() || path[shared] != rest[0]);
  bool sorted = canonical && (shared == path.size() ||
                              path_compare(std::string_view(path).substr(shared), rest) < 0);
  if (sorted) {
    path.resize(shared);
    path.append(rest);
  }
  if (!sorted || !is_valid_path(path)) {
    reader.fail();
    return false;
  }
  return true;
}

uint32_t PackTableBuilder::index_of(const PackId& pack) {
  auto [it, inserted] = index_.try_emplace(pack, static_cast<uint32_t>(packs_.size()));
  if (inserted) packs_.push_back(pack);
  return it->second;
}

void PackTableBuilder::write(codec::ByteWriter& writer) const {
  writer.varint(packs_.size());
  for (const PackId& pack : packs_) writer.bytes(ByteView(pack.bytes()));
}

void PackTableBuilder::clear() {
  packs_.clear();
  index_.clear();
}

bool PackTable::read(codec::ByteReader& reader, uint64_t max) {
  uint64_t count = reader.varint(max);
  if (!reader.ok() || count > reader.remaining() / PackId::kSize) {
    reader.fail();
    return false;
  }
  packs_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) packs_.push_back(PackId::from_bytes(reader.bytes(PackId::kSize).data()));
  std::unordered_set<PackId> seen(packs_.begin(), packs_.end());
  if (seen.size() != packs_.size()) reader.fail();
  return reader.ok();
}

PackId PackTable::read_index(codec::ByteReader& reader) {
  uint64_t index = reader.varint(used_);
  if (!reader.ok() || index >= packs_.size()) {
    reader.fail();
    return {};
  }
  if (index == used_) ++used_;
  return packs_[index];
}

void write_place(codec::ByteWriter& writer, PackTableBuilder& table, const Place& place) {
  writer.varint(table.index_of(place.pack));
  writer.varint(place.offset);
  writer.varint(place.stored_len);
}

Place read_place(codec::ByteReader& reader, PackTable& table, uint64_t raw_len) {
  Place place;
  place.pack = table.read_index(reader);
  place.offset = static_cast<uint32_t>(reader.varint(limits::kPackBytesMax));
  place.stored_len = static_cast<uint32_t>(reader.varint(raw_len));
  if (place.stored_len == 0 || place.offset < 16 ||
      uint64_t{place.offset} + kFrameHeaderBytes + place.stored_len > limits::kPackBytesMax) {
    reader.fail();
  }
  return place;
}

void write_frame_ref(codec::ByteWriter& writer, PackTableBuilder& table, const FrameRef& frame) {
  writer.varint(table.index_of(frame.place.pack));
  writer.varint(frame.place.offset);
  writer.varint(frame.place.stored_len);
  writer.varint(frame.raw_len);
  writer.bytes(frame.frame_hash.view());
}

FrameRef read_frame_ref(codec::ByteReader& reader, PackTable& table) {
  FrameRef frame;
  frame.place = read_place(reader, table, limits::kNodeBytesMax);
  frame.raw_len = static_cast<uint32_t>(reader.varint(limits::kNodeBytesMax));
  frame.frame_hash = read_digest(reader);
  if (frame.place.stored_len > frame.raw_len) reader.fail();
  return frame;
}

}  // namespace cairn::store
