// What store's tests share: packs in memory, made-up entries, a naive reference volume, bulk builds.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "store/change_list.h"
#include "store/node_source.h"
#include "store/paths.h"
#include "store/tree_merge.h"
#include "store/tree_reader.h"

namespace cairn::store::test {

// Packs by id, readable and writable.
class MemoryPacks final : public PackReader, public NodePackAllocator {
 public:
  Result<Bytes> read(const PackId& pack, uint64_t offset, uint64_t length, const Deadline&) override {
    auto it = packs.find(pack);
    if (it == packs.end()) return Error(Code::kObjectNotFound, "no pack " + pack.hex());
    if (offset + length > it->second.size()) return Error(Code::kDataCorrupt, "past the end");
    return Bytes(it->second.begin() + static_cast<ptrdiff_t>(offset),
                 it->second.begin() + static_cast<ptrdiff_t>(offset + length));
  }
  Result<PackId> next() override { return PackId::random(random); }
  Status store(const PackId& id, const BuiltPack& pack) override {
    packs[id] = Bytes(pack.bytes.begin(), pack.bytes.end());
    return ok();
  }

  std::map<PackId, Bytes> packs;
  SeededRandom random{77};
};

inline Digest random_digest(Random& random) {
  Digest digest;
  random.fill(digest.bytes);
  return digest;
}

inline ChunkRef random_chunk(Random& random, uint32_t raw_len, uint64_t packs = 5) {
  ChunkRef chunk;
  chunk.hash = random_digest(random);
  chunk.raw_len = raw_len;
  std::array<uint8_t, PackId::kSize> pack{};
  pack[0] = 0xda;
  pack[1] = static_cast<uint8_t>(random.below(packs));
  chunk.place.pack = PackId::from_bytes(pack.data());
  chunk.place.offset = static_cast<uint32_t>(16 + random.below(1 << 20));
  chunk.place.stored_len = static_cast<uint32_t>(1 + random.below(raw_len));
  return chunk;
}

inline Entry directory(std::string path) {
  Entry entry;
  entry.path = std::move(path);
  entry.kind = EntryKind::kDirectory;
  entry.mode = 0755;
  return entry;
}

inline Entry symlink(std::string path, std::string target) {
  Entry entry;
  entry.path = std::move(path);
  entry.kind = EntryKind::kSymlink;
  entry.mode = 0777;
  entry.target = std::move(target);
  return entry;
}

inline Entry file(std::string path, Random& random, size_t chunks) {
  Entry entry;
  entry.path = std::move(path);
  entry.mode = 0644;
  entry.mtime_ns = static_cast<int64_t>(random.below(1'000'000'000'000));
  for (size_t i = 0; i < chunks; ++i) {
    entry.chunks.push_back(random_chunk(random, static_cast<uint32_t>(1 + random.below(limits::kChunkBytesMax))));
    entry.size += entry.chunks.back().raw_len;
  }
  entry.chunk_count = chunks;
  return entry;
}

// All chunks of an entry read from a tree, so that it can be compared with what was put.
inline Entry with_all_chunks(NodeSource& source, const EntryView& view) {
  Entry entry = view.to_entry();
  entry.chunks.clear();
  entry.list.reset();
  ChunkCursor cursor(source, view, Deadline::never());
  for (;;) {
    auto chunks = cursor.next();
    EXPECT_TRUE(chunks) << chunks.error().to_string();
    if (!chunks || chunks->empty()) return entry;
    entry.chunks.insert(entry.chunks.end(), chunks->begin(), chunks->end());
  }
}

using Reference = std::map<std::string, Entry, PathLess>;

inline Reference read_all(NodeSource& source, const RootRef& root) {
  Reference all;
  TreeCursor cursor(source, root, Deadline::never());
  auto status = cursor.seek("");
  while (status && cursor.valid()) {
    all[std::string(cursor.entry().path)] = with_all_chunks(source, cursor.entry());
    status = cursor.next();
  }
  EXPECT_TRUE(status) << status.error().to_string();
  return all;
}

inline Result<MergeResult> merge(NodeSource& source, MemoryPacks& packs, const RootRef& base, ChangeSource& changes,
                                 const MergeOptions& options = {}, PlaceChecker* checker = nullptr) {
  NodePackWriter writer(packs, 4 * limits::kMiB);
  return merge_changes(source, base, changes, writer, checker, Deadline::never(), options);
}

inline RootRef bulk_build(NodeSource& source, MemoryPacks& packs, const Reference& entries) {
  ChangeList changes;
  for (const auto& [path, entry] : entries) changes.put(entry);
  auto result = merge(source, packs, empty_root(), changes);
  EXPECT_TRUE(result) << result.error().to_string();
  return result ? result->root : empty_root();
}

inline Counts counts_of(const Reference& entries, std::string_view prefix) {
  Counts counts;
  for (const auto& [path, entry] : entries) {
    if (prefix.empty() || is_at_or_under(path, prefix)) counts += EntryView(entry).counts();
  }
  return counts;
}

}  // namespace cairn::store::test
