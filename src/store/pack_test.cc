#include "store/pack.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "codec/crc32c.h"
#include "store/store_test_support.h"

namespace cairn::store {
namespace {

Bytes random_bytes(size_t size, uint64_t seed) {
  Bytes data(size);
  SeededRandom(seed).fill(data);
  return data;
}

Bytes text_bytes(size_t size) {
  Bytes data;
  while (data.size() < size) {
    std::string line = "{\"id\": " + std::to_string(data.size()) + ", \"text\": \"the quick brown fox\"}\n";
    data.insert(data.end(), line.begin(), line.end());
  }
  data.resize(size);
  return data;
}

struct Sample {
  Bytes raw;
  FrameInfo frame;
};

Bytes build(std::vector<Sample>& samples, PackBuilder& builder) {
  for (Sample& sample : samples) {
    auto frame = builder.add(codec::sha256(sample.raw), sample.raw);
    EXPECT_TRUE(frame) << frame.error().to_string();
    sample.frame = *frame;
  }
  auto pack = builder.finish();
  EXPECT_TRUE(pack);
  return Bytes(pack->bytes.begin(), pack->bytes.end());
}

std::vector<Sample> mixed() {
  return {{random_bytes(1, 1), {}},       {text_bytes(200'000), {}}, {random_bytes(300'000, 2), {}},
          {text_bytes(4 << 20), {}},      {text_bytes(100), {}},     {random_bytes(4096, 3), {}},
          {Bytes(limits::kChunkBytesMax), {}}};
}

TEST(Pack, BuildsAndReadsBack) {
  auto samples = mixed();
  PackBuilder builder({});
  Bytes pack = build(samples, builder);
  EXPECT_EQ(pack.size(), builder.bytes_used());
  auto index = parse_pack(pack);
  ASSERT_TRUE(index) << index.error().to_string();
  ASSERT_EQ(index->frames().size(), samples.size());
  FrameDecoder decoder;
  for (const Sample& sample : samples) {
    ChunkRef chunk{sample.frame.hash, sample.frame.raw_len, {{}, sample.frame.offset, sample.frame.stored_len}};
    EXPECT_TRUE(index->holds(chunk));
    auto raw = decoder.decode(ByteView(pack).subspan(chunk.place.offset, kFrameHeaderBytes + chunk.place.stored_len), chunk);
    ASSERT_TRUE(raw) << raw.error().to_string();
    EXPECT_EQ(*raw, sample.raw);
    chunk.place.offset += 1;
    EXPECT_FALSE(index->holds(chunk));
  }
  EXPECT_EQ(samples[1].frame.codec, FrameCodec::kZstd);
  EXPECT_EQ(samples[2].frame.codec, FrameCodec::kRaw);
  EXPECT_LT(samples[6].frame.stored_len, 1000u);
}

TEST(Pack, ResetGivesAFreshPack) {
  PackBuilder builder({});
  auto first = mixed();
  Bytes a = build(first, builder);
  builder.reset();
  EXPECT_TRUE(builder.empty());
  auto second = mixed();
  EXPECT_EQ(build(second, builder), a);
}

TEST(Pack, KeepsItsLimits) {
  PackBuilder::Options options;
  options.target_bytes = limits::kMiB;
  PackBuilder builder(options);
  EXPECT_FALSE(builder.fits(limits::kChunkBytesMax + 1));
  EXPECT_EQ(builder.add({}, {}).error().code(), Code::kLimitExceeded);
  Bytes chunk = random_bytes(600'000, 4);
  Digest hash = codec::sha256(chunk);
  int added = 0;
  while (builder.fits(chunk.size())) {
    ASSERT_TRUE(builder.add(hash, chunk));
    ++added;
  }
  EXPECT_GE(added, 7);
  EXPECT_TRUE(builder.full());
  EXPECT_EQ(builder.add(hash, chunk).error().code(), Code::kLimitExceeded);
  auto pack = builder.finish();
  ASSERT_TRUE(pack);
  EXPECT_TRUE(parse_pack(pack->bytes));
}

TEST(Pack, ManySmallFrames) {
  PackBuilder builder({});
  uint64_t count = 0;
  for (; builder.fits(1); ++count) {
    uint8_t byte = static_cast<uint8_t>(count);
    ASSERT_TRUE(builder.add(codec::sha256(ByteView(&byte, 1)), ByteView(&byte, 1)));
  }
  EXPECT_EQ(count, limits::kFramesPerPackMax);
  auto pack = builder.finish();
  ASSERT_TRUE(pack);
  EXPECT_TRUE(parse_pack(pack->bytes));
}

TEST(Pack, EveryFlippedBitIsFound) {
  std::vector<Sample> samples = {{text_bytes(700), {}}, {random_bytes(50, 3), {}}};
  PackBuilder builder({});
  Bytes pack = build(samples, builder);
  for (size_t i = 0; i < pack.size() * 8; ++i) {
    if (i == 64) continue;  // data or nodes: both are packs
    Bytes bad = pack;
    bad[i / 8] ^= static_cast<uint8_t>(1 << i % 8);
    EXPECT_FALSE(parse_pack(bad)) << "bit " << i;
  }
  for (size_t size = 0; size < pack.size(); ++size) EXPECT_FALSE(parse_pack(ByteView(pack).first(size)));
  Bytes longer = pack;
  longer.push_back(0);
  EXPECT_FALSE(parse_pack(longer));
}

// An index with a right seal and impossible rows.
TEST(Pack, RefusesASealedLie) {
  std::vector<Sample> samples = {{random_bytes(60, 3), {}}, {random_bytes(50, 4), {}}};
  PackBuilder builder({});
  Bytes pack = build(samples, builder);
  auto tail = parse_pack_footer(ByteView(pack).last(kPackFooterBytes), pack.size());
  ASSERT_TRUE(tail);
  Bytes index(pack.begin() + tail->index_offset, pack.begin() + static_cast<ptrdiff_t>(tail->index_offset + tail->index_bytes()));
  auto try_with = [&](size_t row, size_t field, uint32_t value) {
    Bytes lie = index;
    codec::ByteWriter(lie).patch_u32(row * kPackIndexRowBytes + 32 + field * 4, value);
    PackTail sealed = *tail;
    sealed.seal = codec::sha256(lie);
    return PackIndex::parse(sealed, lie);
  };
  EXPECT_TRUE(try_with(0, 0, 16));
  EXPECT_FALSE(try_with(0, 0, 17));
  EXPECT_FALSE(try_with(1, 0, 16));
  EXPECT_FALSE(try_with(0, 1, 0));
  EXPECT_FALSE(try_with(0, 1, 61));
  EXPECT_FALSE(try_with(0, 1, 0xffffffff));
  EXPECT_FALSE(try_with(1, 2, 51));
  EXPECT_FALSE(PackIndex::parse(*tail, ByteView(index).first(index.size() - 1)));
}

TEST(Frame, ChecksWhatIsExpected) {
  std::vector<Sample> samples = {{text_bytes(70'000), {}}, {random_bytes(5000, 1), {}}};
  PackBuilder builder({});
  Bytes pack = build(samples, builder);
  FrameDecoder decoder;
  for (const Sample& sample : samples) {
    ChunkRef right{sample.frame.hash, sample.frame.raw_len, {{}, sample.frame.offset, sample.frame.stored_len}};
    ByteView frame = ByteView(pack).subspan(right.place.offset, kFrameHeaderBytes + right.place.stored_len);
    ASSERT_TRUE(decoder.decode(frame, right));
    ChunkRef wrong = right;
    wrong.hash.bytes[5] ^= 1;
    EXPECT_EQ(decoder.decode(frame, wrong).error().code(), Code::kChunkCorrupt);
    wrong = right;
    wrong.raw_len -= 1;
    EXPECT_EQ(decoder.decode(frame, wrong).error().code(), Code::kChunkCorrupt);
    wrong = right;
    wrong.raw_len = 0xffffffff;
    EXPECT_EQ(decoder.decode(frame, wrong).error().code(), Code::kChunkCorrupt);
    EXPECT_EQ(decoder.decode(frame.first(frame.size() - 1), right).error().code(), Code::kChunkCorrupt);
    EXPECT_EQ(decoder.decode(frame.first(7), right).error().code(), Code::kChunkCorrupt);
  }
}

TEST(Pack, KeyNamesStoreAndPack) {
  StoreId store = *StoreId::from_hex("000102030405060708090a0b0c0d0e0f");
  PackId pack = *PackId::from_hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  EXPECT_EQ(pack_key(store, pack).text(), "s/000102030405060708090a0b0c0d0e0f/p/f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
}

}  // namespace
}  // namespace cairn::store
