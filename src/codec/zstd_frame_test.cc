// Frames round-trip, and no frame makes the decoder write, read or allocate beyond what it was told to expect.
#include "codec/zstd_frame.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/random.h"
#include "codec/hex.h"

namespace cairn::codec {
namespace {

Bytes compressed(ByteView raw, int level = 3) {
  Compressor compressor;
  Bytes frame(Compressor::bound(raw.size()));
  frame.resize(*compressor.compress(raw, frame, level));
  return frame;
}

Bytes text_of(size_t size) {
  Bytes raw;
  while (raw.size() < size) {
    std::string line = "{\"text\": \"line " + std::to_string(raw.size()) + "\"}\n";
    raw.insert(raw.end(), line.begin(), line.end());
  }
  raw.resize(size);
  return raw;
}

Code code_of(ByteView frame, size_t expected) {
  Decompressor decompressor;
  Bytes out(expected);
  Status status = decompressor.decompress(frame, out);
  return status ? Code::kInternal : status.error().code();
}

TEST(ZstdFrame, RoundTripsWithReusedContexts) {
  Compressor compressor;
  Decompressor decompressor;
  SeededRandom random(9);
  for (size_t size : {size_t{0}, size_t{1}, size_t{255}, size_t{256}, size_t{70'000}, size_t{limits::kChunkBytesMax}}) {
    for (bool noise : {false, true}) {
      Bytes raw = text_of(size);
      if (noise) random.fill(raw);
      Bytes frame(Compressor::bound(size));
      frame.resize(*compressor.compress(raw, frame, noise ? 1 : 5));
      Bytes out(size);
      ASSERT_TRUE(decompressor.decompress(frame, out)) << size;
      EXPECT_EQ(out, raw);
    }
  }
}

TEST(ZstdFrame, DoesNotFitIsZero) {
  Compressor compressor;
  Bytes raw(100'000);
  SeededRandom(4).fill(raw);
  Bytes out(raw.size() - 1);
  EXPECT_EQ(*compressor.compress(raw, out, 1), 0u);
  EXPECT_GT(*compressor.compress(text_of(100'000), out, 1), 0u);
}

TEST(ZstdFrame, RefusesWhatIsTooLarge) {
  Compressor compressor;
  Bytes raw(limits::kChunkBytesMax + 1), out(Compressor::bound(raw.size()));
  EXPECT_EQ(compressor.compress(raw, out, 1).error().code(), Code::kLimitExceeded);
  EXPECT_EQ(code_of(compressed(text_of(10)), limits::kChunkBytesMax + 1), Code::kLimitExceeded);
}

TEST(ZstdFrame, RefusesAnotherSizeThanExpected) {
  Bytes frame = compressed(text_of(5000));
  EXPECT_EQ(code_of(frame, 4999), Code::kDataCorrupt);
  EXPECT_EQ(code_of(frame, 5001), Code::kDataCorrupt);
}

TEST(ZstdFrame, RefusesWhatFollowsAndWhatIsMissing) {
  Bytes frame = compressed(text_of(5000));
  Bytes twice = frame;
  twice.insert(twice.end(), frame.begin(), frame.end());
  EXPECT_EQ(code_of(twice, 5000), Code::kDataCorrupt);
  twice.resize(frame.size() + 1);
  EXPECT_EQ(code_of(twice, 5000), Code::kDataCorrupt);
  for (size_t cut = 0; cut < frame.size(); ++cut) {
    EXPECT_EQ(code_of(ByteView(frame).first(cut), 5000), Code::kDataCorrupt) << cut;
  }
}

TEST(ZstdFrame, RefusesHeadersThatAskForMore) {
  const std::pair<const char*, size_t> kFrames[] = {
      {"28b52ffd0058010000", 0},                  // no content size
      {"28b52ffd61000101000001", 257},            // a dictionary
      {"28b52ffd28000100", 0},                    // reserved bit
      {"28b52ffd8070000000000100", 0},            // 16 MiB window
      {"28b52ffde0000000000100000001000000", 0},  // 2^40 bytes
      {"502a4d1804000000abababab", 0},            // a skippable frame
  };
  for (const auto& [hex, expected] : kFrames) EXPECT_EQ(code_of(*hex_decode(hex), expected), Code::kDataCorrupt) << hex;
}

TEST(ZstdFrame, DamagedFramesNeverEscape) {
  Bytes raw = text_of(20'000);
  Bytes frame = compressed(raw);
  SeededRandom random(11);
  Decompressor decompressor;
  Bytes out(raw.size());
  for (int i = 0; i < 2000; ++i) {
    Bytes damaged = frame;
    for (uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
      damaged[random.below(damaged.size())] ^= static_cast<uint8_t>(1 + random.below(255));
    }
    Status status = decompressor.decompress(damaged, out);
    if (!status) {
      EXPECT_EQ(status.error().code(), Code::kDataCorrupt);
    }
  }
  EXPECT_TRUE(decompressor.decompress(frame, out));
  EXPECT_EQ(out, raw);
}

}  // namespace
}  // namespace cairn::codec
