// The hex vectors of docs/formats: each file of tests/golden/formats is decoded, and encoded again byte for byte. A format
// that changes without a new version fails here. To write vectors of a new format run this with CAIRN_WRITE_GOLDEN=1.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "codec/hex.h"
#include "store/chunker.h"
#include "store/store_header.h"
#include "store/store_test_support.h"
#include "store/tree_node.h"

namespace cairn::store {
namespace {

using namespace test;

std::string golden_path(const std::string& name) { return CAIRN_SOURCE_DIR "/tests/golden/formats/" + name; }

// Hex digits without spaces, line ends and '#' comments.
Bytes read_golden(const std::string& name) {
  std::ifstream file(golden_path(name));
  EXPECT_TRUE(file) << name;
  std::string line;
  std::string digits;
  while (std::getline(file, line)) {
    for (char c : line.substr(0, line.find('#'))) {
      if (c != ' ') digits += c;
    }
  }
  auto bytes = codec::hex_decode(digits);
  EXPECT_TRUE(bytes.has_value()) << name;
  return bytes.value_or(Bytes());
}

void check_golden(const std::string& name, ByteView encoded) {
  if (std::getenv("CAIRN_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(golden_path(name));
    for (size_t at = 0; at < encoded.size(); at += 32) {
      file << codec::hex_encode(encoded.subspan(at, std::min<size_t>(32, encoded.size() - at))) << "\n";
    }
  }
  EXPECT_EQ(codec::hex_encode(read_golden(name)), codec::hex_encode(encoded)) << name;
}

Digest digest_of(uint8_t fill) {
  Digest digest;
  for (size_t i = 0; i < Digest::kSize; ++i) digest.bytes[i] = static_cast<uint8_t>(fill + i * 37);
  return digest;
}

template <class T>
T id_of(uint8_t fill) {
  std::array<uint8_t, T::kSize> bytes;
  for (size_t i = 0; i < T::kSize; ++i) bytes[i] = static_cast<uint8_t>(fill + i);
  return T::from_bytes(bytes.data());
}

ChunkRef chunk_of(uint8_t fill, uint32_t raw_len, uint8_t pack, uint32_t offset) {
  return ChunkRef{digest_of(fill), raw_len, {id_of<PackId>(pack), offset, raw_len}};
}

std::vector<Entry> example_entries() {
  Entry folder = directory("models");
  folder.mtime_ns = 1'700'000'000'000'000'000;
  Entry readme = directory("models/README.md");
  readme.kind = EntryKind::kFile;
  readme.mode = 0644;
  readme.mtime_ns = -1;
  readme.chunks = {chunk_of(0x11, 300, 0xa0, 16)};
  readme.chunk_count = 1;
  readme.size = 300;
  Entry weights = readme;
  weights.path = "models/weights.bin";
  weights.mtime_ns = 1'700'000'001'000'000'000;
  weights.chunks = {chunk_of(0x22, 1'000'000, 0xb0, 16), chunk_of(0x33, 48'576, 0xa0, 332)};
  weights.chunk_count = 2;
  weights.size = 1'048'576;
  return {folder, readme, weights, symlink("models-latest", "models")};
}

Entry listed_entry() {
  Entry big;
  big.path = "z";
  big.mode = 0600;
  big.chunk_count = 65;
  big.size = 65;
  big.list = ListRef{digest_of(0x44), 1, 65, {digest_of(0x55), 2600, {id_of<PackId>(0xc0), 16, 2500}}};
  return big;
}

TEST(Golden, Frames) {
  std::string_view text = "cairn";
  Bytes frame(kFrameHeaderBytes);
  write_frame_header(FrameCodec::kRaw, 5, codec::as_bytes(text), frame);
  frame.insert(frame.end(), text.begin(), text.end());
  check_golden("frame_raw.hex", frame);
  Digest hash = codec::sha256(codec::as_bytes(text));
  Bytes out(5);
  EXPECT_TRUE(FrameDecoder().decode_into(read_golden("frame_raw.hex"), out, &hash));

  // What a zstd library writes may differ from release to release; what it reads may not.
  Bytes zeros(100'000);
  Digest zero_hash = codec::sha256(zeros);
  if (std::getenv("CAIRN_WRITE_GOLDEN") != nullptr) {
    PackBuilder builder({});
    auto info = builder.add(zero_hash, zeros);
    ASSERT_TRUE(info);
    check_golden("frame_zstd.hex", builder.finish()->bytes.subspan(info->offset, kFrameHeaderBytes + info->stored_len));
  }
  Bytes decoded(zeros.size(), 7);
  EXPECT_TRUE(FrameDecoder().decode_into(read_golden("frame_zstd.hex"), decoded, &zero_hash));
  EXPECT_EQ(decoded, zeros);
}

TEST(Golden, Pack) {
  PackBuilder builder({});
  for (std::string_view text : {"stone", "on", "stone"}) {
    ASSERT_TRUE(builder.add(codec::sha256(codec::as_bytes(text)), codec::as_bytes(text)));
  }
  auto pack = builder.finish();
  ASSERT_TRUE(pack);
  check_golden("pack.hex", pack->bytes);
  auto index = parse_pack(read_golden("pack.hex"));
  ASSERT_TRUE(index);
  EXPECT_EQ(std::vector<FrameInfo>(index->frames().begin(), index->frames().end()),
            std::vector<FrameInfo>(pack->frames.begin(), pack->frames.end()));
  EXPECT_EQ(index->seal(), pack->seal);
}

TEST(Golden, Nodes) {
  NodeBuilder leaf(0);
  std::vector<Entry> entries = example_entries();
  entries.push_back(listed_entry());
  for (const Entry& entry : entries) leaf.add_entry(entry);
  check_golden("node_leaf.hex", leaf.encode().value());
  check_golden("node_leaf_digest.hex", leaf.digest().view());
  auto node = Node::decode(read_golden("node_leaf.hex"));
  ASSERT_TRUE(node) << node.error().to_string();
  EXPECT_EQ((*node)->digest(), leaf.digest());
  ASSERT_EQ((*node)->entries().size(), entries.size());
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ((*node)->entries()[i].to_entry(), entries[i]);

  NodeBuilder inner(1);
  NodeRef first{leaf.digest(), 0, leaf.counts(), {digest_of(0x66), 900, {id_of<PackId>(0xc0), 16, 800}}};
  NodeRef second{digest_of(0x77), 0, {20, 18, 123'456'789}, {digest_of(0x88), 4000, {id_of<PackId>(0xd0), 5000, 3000}}};
  inner.add_child("models", first);
  inner.add_child("zebra/x", second);
  check_golden("node_inner.hex", inner.encode().value());
  auto parent = Node::decode(read_golden("node_inner.hex"));
  ASSERT_TRUE(parent) << parent.error().to_string();
  EXPECT_EQ((*parent)->digest(), inner.digest());
  EXPECT_EQ((*parent)->children()[0].ref, first);
  EXPECT_EQ((*parent)->children()[1].ref, second);
  EXPECT_EQ((*parent)->children()[1].first_path, "zebra/x");
  check_golden("empty_tree_digest.hex", empty_root().digest.view());
}

TEST(Golden, Lists) {
  ListNodeBuilder list(1);
  std::vector<ChunkRef> chunks = {chunk_of(1, 4'194'304, 0xa0, 16), chunk_of(2, 300'000, 0xb0, 400), chunk_of(3, 1, 0xa0, 9)};
  chunks[2].place.offset = 5'000'000;
  for (const ChunkRef& chunk : chunks) list.add_chunk(chunk);
  check_golden("list.hex", list.encode().value());
  auto decoded = ListNode::decode(read_golden("list.hex"));
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ((*decoded)->chunks(), chunks);
  EXPECT_EQ((*decoded)->digest(), list.digest());
  ListNodeBuilder upper(2);
  upper.add_child(ListChild{3, list.bytes(), list.digest(), {digest_of(9), 200, {id_of<PackId>(0xc0), 16, 200}}});
  upper.add_child(ListChild{600, 629'145'600, digest_of(4), {digest_of(5), 30'000, {id_of<PackId>(0xc0), 300, 29'000}}});
  check_golden("list_inner.hex", upper.encode().value());
  auto top = ListNode::decode(read_golden("list_inner.hex"));
  ASSERT_TRUE(top) << top.error().to_string();
  EXPECT_EQ((*top)->chunk_count(), 603u);
  EXPECT_EQ((*top)->digest(), upper.digest());
}

TEST(Golden, Changesets) {
  BytesSink sink;
  ChangesetWriter writer(sink);
  for (const Entry& entry : example_entries()) ASSERT_TRUE(writer.put_whole(entry));
  ASSERT_TRUE(writer.remove("old.txt"));
  ASSERT_TRUE(writer.remove_prefix("tmp"));
  ASSERT_TRUE(writer.finish());
  // A short block stands raw, so that the bytes do not depend on the zstd library.
  ASSERT_EQ(codec::ByteReader(ByteView(sink.bytes()).subspan(6)).u32(), sink.bytes().size() - 18);
  check_golden("changeset.hex", sink.bytes());
  Bytes golden = read_golden("changeset.hex");
  BytesSource source(golden);
  ChangesetReader reader(source);
  Change change;
  size_t records = 0;
  auto more = reader.next(change);
  for (; more && *more; more = reader.next(change)) ++records;
  EXPECT_TRUE(more) << more.error().to_string();
  EXPECT_EQ(records, 6u);
  EXPECT_EQ(change.entry.path, "");

  BytesSink page;
  ChangesetWriter listing(page, ChangesetMode::kListing);
  Entry weights = example_entries()[2];
  ASSERT_TRUE(listing.put(weights, 1));
  ASSERT_TRUE(listing.add_chunks(std::span(weights.chunks).subspan(1)));
  ASSERT_TRUE(listing.finish());
  check_golden("listing.hex", page.bytes());
  Bytes listed = read_golden("listing.hex");
  BytesSource listed_source(listed);
  ChangesetReader listed_reader(listed_source, ChangesetMode::kListing);
  ASSERT_TRUE(listed_reader.next(change).value());
  EXPECT_EQ(change.first_chunk, 1u);
  EXPECT_EQ(listed_reader.next_chunks().value()[0], weights.chunks[1]);
  EXPECT_FALSE(listed_reader.next(change).value());
}

TEST(Golden, SmallObjects) {
  StoreHeader header = new_store_header(id_of<StoreId>(1), Time{1'700'000'000'000'000}, 1);
  check_golden("store_header.hex", encode_store_header(header));
  EXPECT_EQ(decode_store_header(read_golden("store_header.hex")).value(), header);
  check_golden("epoch.hex", encode_epoch(header.store, 0x1'0000'0001));
  EXPECT_EQ(decode_epoch(header.store, read_golden("epoch.hex")).value(), 0x1'0000'0001u);
  EXPECT_EQ(epoch_key(header.store, 0x1'0000'0001).text(), "s/0102030405060708090a0b0c0d0e0f10/epoch/0000000100000001");

  SnapshotRecord record;
  record.snapshot = id_of<SnapshotId>(0x20);
  record.volume = id_of<VolumeId>(0x30);
  record.number = 17;
  record.base_number = 16;
  record.base_digest = digest_of(0x99);
  record.root = {digest_of(0xaa), 2, {1000, 900, 123'456'789'012}, {digest_of(0xbb), 9000, {id_of<PackId>(0xd0), 16, 8000}}};
  record.fence = 5;
  record.epoch = 1;
  record.created = Time{1'700'000'123'456'789};
  record.kind = "put";
  record.author = "ada";
  record.reason = "put ./data";
  record.message = "first";
  record.volume_name = "research";
  check_golden("snapshot_record.hex", encode_snapshot_record(record).value());
  EXPECT_EQ(decode_snapshot_record(read_golden("snapshot_record.hex")).value(), record);
  check_golden("root.hex", encode_root(record.root));
  EXPECT_EQ(decode_root(read_golden("root.hex")).value(), record.root);
  check_golden("root_empty.hex", encode_root(empty_root()));
}

// 16 MiB of splitmix64 from state 1, numbers little-endian: the lengths of its chunks, one u32 each.
TEST(Golden, Chunker) {
  Bytes data;
  codec::ByteWriter writer(data);
  uint64_t state = 1;
  while (data.size() < 16 * limits::kMiB) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    writer.u64(z ^ (z >> 31));
  }
  Bytes lengths;
  codec::ByteWriter out(lengths);
  ByteView rest(data);
  while (!rest.empty()) {
    size_t cut = Chunker().next_cut(rest, true);
    out.u32(static_cast<uint32_t>(cut));
    rest = rest.subspan(cut);
  }
  check_golden("chunker_cuts.hex", lengths);
}

TEST(Golden, DocumentsShowTheVectors) {
  auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  for (auto [page, vector] : {std::pair("frame.md", "frame_raw.hex"), std::pair("pack.md", "pack.hex"),
                              std::pair("tree.md", "node_leaf.hex"), std::pair("tree.md", "empty_tree_digest.hex"),
                              std::pair("changeset.md", "changeset.hex"), std::pair("store.md", "store_header.hex")}) {
    std::string document = text_of(CAIRN_SOURCE_DIR "/docs/formats/" + std::string(page));
    EXPECT_NE(document.find(text_of(golden_path(vector))), std::string::npos) << page << " " << vector;
  }
}

TEST(SmallObjects, DamageAndUnknownVersions) {
  StoreHeader header = new_store_header(id_of<StoreId>(1), Time{5}, 1);
  Bytes bytes = encode_store_header(header);
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes bad = bytes;
    bad[i] ^= 1;
    EXPECT_FALSE(decode_store_header(bad)) << i;
    EXPECT_FALSE(decode_store_header(ByteView(bytes).first(i)));
  }
  header.format_version = 2;
  EXPECT_EQ(decode_store_header(encode_store_header(header)).error().code(), Code::kFormatUnsupported);
  header.format_version = 1;
  header.chunker = 2;
  EXPECT_EQ(decode_store_header(encode_store_header(header)).error().code(), Code::kFormatUnsupported);
  EXPECT_FALSE(decode_epoch(id_of<StoreId>(2), encode_epoch(id_of<StoreId>(1), 3)));
  SnapshotRecord record;
  record.root = empty_root();
  record.kind = std::string(33, 'k');
  EXPECT_EQ(encode_snapshot_record(record).error().code(), Code::kLimitExceeded);
  record.kind = "put";
  Bytes encoded = encode_snapshot_record(record).value();
  EXPECT_EQ(decode_snapshot_record(encoded).value(), record);
  for (size_t i = 0; i < encoded.size(); ++i) EXPECT_FALSE(decode_snapshot_record(ByteView(encoded).first(i)));
}

}  // namespace
}  // namespace cairn::store
