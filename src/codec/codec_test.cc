// The byte functions against published vectors, and what they must refuse.
#include <gtest/gtest.h>

#include "base/random.h"
#include "codec/base64.h"
#include "codec/bytes.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "codec/json_depth.h"

namespace cairn::codec {
namespace {

Bytes from_hex(std::string_view hex) {
  return *hex_decode(hex);
}

TEST(Bytes, NumbersRoundTrip) {
  Bytes buffer;
  ByteWriter writer(buffer);
  writer.u8(0xab);
  writer.u16(0x1234);
  writer.u32(0xdeadbeef);
  writer.u64(0x0102030405060708);
  writer.prefixed("name");
  writer.zeros(3);
  EXPECT_EQ(hex_encode(buffer), "ab3412efbeadde0807060504030201046e616d65000000");
  writer.patch_u32(3, 1);
  ByteReader reader(buffer);
  EXPECT_EQ(reader.u8(), 0xab);
  EXPECT_EQ(reader.u16(), 0x1234);
  EXPECT_EQ(reader.u32(), 1u);
  EXPECT_EQ(reader.u64(), 0x0102030405060708u);
  EXPECT_EQ(as_text(reader.prefixed(10)), "name");
  EXPECT_TRUE(reader.expect_zeros(3));
  EXPECT_TRUE(reader.finished());
}

TEST(Bytes, VarintsRoundTripAtEveryLength) {
  for (int bits = 0; bits <= 64; ++bits) {
    uint64_t top = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
    for (uint64_t value : {top, top + 1}) {
      Bytes buffer;
      ByteWriter(buffer).varint(value);
      ByteReader reader(buffer);
      EXPECT_EQ(reader.varint(), value);
      EXPECT_TRUE(reader.finished());
      buffer.pop_back();
      ByteReader cut(buffer);
      EXPECT_EQ(cut.varint(), 0u);
      EXPECT_FALSE(cut.ok());
    }
  }
  for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1}, INT64_MIN, INT64_MAX, int64_t{-1234567}}) {
    Bytes buffer;
    ByteWriter(buffer).zigzag(value);
    EXPECT_EQ(ByteReader(buffer).zigzag(), value);
  }
}

TEST(Bytes, VarintsThatAreNotCanonicalAreRefused) {
  for (const char* hex :
       {"8000", "ff00", "ffffffffffffffffff02", "80808080808080808080", "ffffffffffffffffffff01", ""}) {
    Bytes buffer = from_hex(hex);
    ByteReader reader(buffer);
    reader.varint();
    EXPECT_FALSE(reader.ok()) << hex;
  }
}

TEST(Bytes, AFailedReaderStaysFailedAndGivesZeros) {
  Bytes buffer = from_hex("ffffffff05");
  ByteReader reader(buffer);
  EXPECT_EQ(reader.varint(100), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0);
  EXPECT_TRUE(reader.bytes(1).empty());
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_FALSE(reader.finished());
  ByteReader longer(buffer);
  EXPECT_TRUE(longer.bytes(SIZE_MAX).empty());
  EXPECT_FALSE(longer.ok());
  ByteReader bounded(buffer);
  bounded.skip(4);
  EXPECT_TRUE(bounded.prefixed(4).empty());
  EXPECT_FALSE(bounded.ok());
}

TEST(Hex, IsStrict) {
  EXPECT_EQ(hex_encode(std::string_view("\x00\xff/", 3)), "00ff2f");
  EXPECT_EQ(hex_decode_text("00ff2f"), std::string("\x00\xff/", 3));
  EXPECT_EQ(hex_decode(""), Bytes());
  EXPECT_FALSE(hex_decode("0"));
  EXPECT_FALSE(hex_decode("0F"));
  EXPECT_FALSE(hex_decode("0g"));
  EXPECT_EQ(hex_u32(0x00c0ffee), "00c0ffee");
  EXPECT_EQ(hex_decode_u32("00c0ffee"), 0x00c0ffeeu);
  EXPECT_FALSE(hex_decode_u32("c0ffee"));
}

TEST(Base64, Rfc4648Vectors) {
  const std::pair<const char*, const char*> kVectors[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [raw, text] : kVectors) {
    EXPECT_EQ(base64_encode(as_bytes(raw)), text);
    std::optional<Bytes> decoded = base64_decode(text);
    ASSERT_TRUE(decoded) << text;
    EXPECT_EQ(as_text(*decoded), raw);
    EXPECT_EQ(base64url_decode(base64url_encode(as_bytes(raw))), *decoded);
  }
  EXPECT_EQ(base64url_encode(from_hex("fbff")), "-_8");
  EXPECT_EQ(base64_encode(from_hex("fbff")), "+/8=");
}

TEST(Base64, OneValueHasOneSpelling) {
  for (const char* text : {"Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zm9v\n", "Zm9 ", "-_8=", "Zg==Zg=="}) {
    EXPECT_FALSE(base64_decode(text)) << text;
  }
  for (const char* text : {"Z", "Zh", "Zg==", "+/8", "Zm9"}) EXPECT_FALSE(base64url_decode(text)) << text;
}

TEST(Crc32c, Rfc3720Vectors) {
  Bytes ascending(32), descending(32);
  for (size_t i = 0; i < 32; ++i) {
    ascending[i] = static_cast<uint8_t>(i);
    descending[i] = static_cast<uint8_t>(31 - i);
  }
  const std::pair<Bytes, uint32_t> kVectors[] = {
      {Bytes(), 0},
      {Bytes(32, 0), 0x8a9136aa},
      {Bytes(32, 0xff), 0x62a8ab43},
      {ascending, 0x46dd794e},
      {descending, 0x113fdb5c},
      {Bytes(as_bytes("123456789").begin(), as_bytes("123456789").end()), 0xe3069283}};
  for (const auto& [data, expected] : kVectors) {
    EXPECT_EQ(crc32c(data), expected);
    EXPECT_EQ(crc32c_table(data, 0), expected);
    if (crc32c_has_hardware()) {
      EXPECT_EQ(crc32c_hardware(data, 0), expected);
    }
  }
}

TEST(Crc32c, HardwareAndTableAgreeAtEveryLengthOffsetAndSeed) {
  if (!crc32c_has_hardware()) GTEST_SKIP() << "no CRC32C instruction";
  SeededRandom random(3);
  Bytes data(20'000);
  random.fill(data);
  for (int i = 0; i < 3000; ++i) {
    size_t offset = random.below(64);
    size_t size = i < 300 ? static_cast<size_t>(i) : random.below(data.size() - offset);
    uint32_t seed = static_cast<uint32_t>(random.next_u64());
    ByteView view = ByteView(data).subspan(offset, size);
    ASSERT_EQ(crc32c_hardware(view, seed), crc32c_table(view, seed)) << offset << "+" << size;
    size_t cut = random.below(size + 1);
    ASSERT_EQ(crc32c(view.subspan(cut), crc32c(view.first(cut))), crc32c(view));
  }
}

TEST(Digest, Fips180Vectors) {
  EXPECT_EQ(sha256(as_bytes("")).hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(as_bytes("abc")).hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.update(std::string(1000, 'a'));
  EXPECT_EQ(hash.finish().hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash.update("ab").update("c").finish(), sha256(as_bytes("abc")));
}

TEST(Digest, HexIsStrictAndOrdered) {
  Digest digest = sha256(as_bytes("abc"));
  EXPECT_EQ(Digest::from_hex(digest.hex()), digest);
  EXPECT_FALSE(Digest::from_hex(digest.hex().substr(1)));
  EXPECT_FALSE(Digest::from_hex("BA" + digest.hex().substr(2)));
  EXPECT_EQ(digest.prefix_u64(), 0xeacf018fbf1678bau);
  EXPECT_LT(digest, sha256(as_bytes("")));
}

TEST(Digest, Rfc4231Vectors) {
  EXPECT_EQ(hmac_sha256(Bytes(20, 0x0b), as_bytes("Hi There")).hex(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?")).hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256(Bytes(131, 0xaa), as_bytes("Test Using Larger Than Block-Size Key - Hash Key First")).hex(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac_sha256({}, {}).hex(), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Digest, ConstantTimeEqual) {
  EXPECT_TRUE(constant_time_equal({}, {}));
  EXPECT_TRUE(constant_time_equal(as_bytes("secret"), as_bytes("secret")));
  EXPECT_FALSE(constant_time_equal(as_bytes("secret"), as_bytes("secreT")));
  EXPECT_FALSE(constant_time_equal(as_bytes("secret"), as_bytes("secre")));
}

TEST(JsonDepth, CountsWhatIsOpen) {
  EXPECT_FALSE(json_deeper_than("", 0));
  EXPECT_FALSE(json_deeper_than("1", 0));
  EXPECT_TRUE(json_deeper_than("[]", 0));
  EXPECT_FALSE(json_deeper_than("[{}, [], {\"a\": []}]", 3));
  EXPECT_TRUE(json_deeper_than("[{}, [], {\"a\": []}]", 2));
  // Brackets within strings are text, also behind an escaped quote.
  EXPECT_FALSE(json_deeper_than("[\"[[[\", \"\\\"[[[\", \"\\\\\"]", 1));
  EXPECT_TRUE(json_deeper_than("[\"\\\\\", [", 1));
  EXPECT_FALSE(json_deeper_than("]]][", 1));
  EXPECT_TRUE(json_deeper_than(std::string(1'000'000, '['), 999'999));
  EXPECT_FALSE(json_deeper_than("[\"\\", 1));
}

}  // namespace
}  // namespace cairn::codec
