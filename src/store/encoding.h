// Pieces that several formats of the store share: prefix-compressed paths, pack tables in order of first use, digests and
// places. Internal to store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/limits.h"
#include "codec/bytes.h"
#include "store/types.h"

namespace cairn::store {

inline Digest read_digest(codec::ByteReader& reader) {
  ByteView view = reader.bytes(Digest::kSize);
  return view.size() == Digest::kSize ? Digest::from_bytes(view) : Digest();
}

// varint(bytes shared with `previous`), varint(length of the rest), the rest.
void write_path(codec::ByteWriter& writer, std::string_view previous, std::string_view path);
// Turns `path`, which holds the previous path, into the next one. False (and the reader failed) unless the result is a valid
// path, shares as much as it could, and sorts after the previous one; with `may_repeat` it may also be equal to it.
bool read_path(codec::ByteReader& reader, std::string& path, bool may_repeat = false);

// Packs in order of first use. Indexes are given while places are written, the table itself is written before them.
class PackTableBuilder {
 public:
  uint32_t index_of(const PackId& pack);
  const std::vector<PackId>& packs() const { return packs_; }
  void write(codec::ByteWriter& writer) const;
  void clear();

 private:
  std::vector<PackId> packs_;
  std::unordered_map<PackId, uint32_t> index_;
};

// The same when reading: refuses duplicates, indexes out of the order of first use, and packs that no place names.
class PackTable {
 public:
  // `max` bounds the number of packs.
  bool read(codec::ByteReader& reader, uint64_t max);
  // Reads an index and returns its pack; fails the reader when it is out of order.
  PackId read_index(codec::ByteReader& reader);
  bool all_used() const { return used_ == packs_.size(); }
  const std::vector<PackId>& packs() const { return packs_; }
  std::vector<PackId> take() { return std::move(packs_); }

 private:
  std::vector<PackId> packs_;
  size_t used_ = 0;
};

// Table index, offset, stored length.
void write_place(codec::ByteWriter& writer, PackTableBuilder& table, const Place& place);
Place read_place(codec::ByteReader& reader, PackTable& table, uint64_t raw_len);
// Place, raw length, frame hash.
void write_frame_ref(codec::ByteWriter& writer, PackTableBuilder& table, const FrameRef& frame);
FrameRef read_frame_ref(codec::ByteReader& reader, PackTable& table);

}  // namespace cairn::store
