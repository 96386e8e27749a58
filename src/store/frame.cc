#include "store/frame.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/limits.h"
#include "codec/crc32c.h"
#include "codec/zstd_frame.h"

namespace cairn::store {

namespace {

constexpr size_t kChecksummedHeaderBytes = 12;

Error corrupt(std::string what) {
  return Error(Code::kChunkCorrupt, std::move(what));
}

void put_u32(uint8_t* out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

uint32_t write_frame_header(FrameCodec codec, uint32_t raw_len, ByteView stored, std::span<uint8_t> out) {
  CAIRN_CHECK(out.size() >= kFrameHeaderBytes && stored.size() <= limits::kChunkBytesMax);
  out[0] = kFrameMagic;
  out[1] = static_cast<uint8_t>(codec);
  out[2] = out[3] = 0;
  put_u32(&out[4], raw_len);
  put_u32(&out[8], static_cast<uint32_t>(stored.size()));
  uint32_t crc = codec::crc32c(stored, codec::crc32c(ByteView(out).first(kChecksummedHeaderBytes)));
  put_u32(&out[12], crc);
  return crc;
}

Result<FrameHeader> parse_frame_header(ByteView bytes) {
  codec::ByteReader reader(bytes);
  FrameHeader header;
  uint8_t magic = reader.u8();
  uint8_t codec = reader.u8();
  uint16_t zero = reader.u16();
  header.raw_len = reader.u32();
  header.stored_len = reader.u32();
  header.crc32c = reader.u32();
  if (!reader.ok() || magic != kFrameMagic || zero != 0) return Error(Code::kDataCorrupt, "no frame starts here");
  if (codec > static_cast<uint8_t>(FrameCodec::kZstd)) {
    return Error(Code::kDataCorrupt, fmt::format("frame with unknown codec {}", codec));
  }
  header.codec = static_cast<FrameCodec>(codec);
  bool lengths = header.raw_len >= 1 && header.raw_len <= limits::kChunkBytesMax && header.stored_len >= 1 &&
                 (header.codec == FrameCodec::kRaw ? header.stored_len == header.raw_len
                                                   : header.stored_len < header.raw_len);
  if (!lengths) {
    return Error(Code::kDataCorrupt,
                 fmt::format("frame with impossible lengths: raw {}, stored {}", header.raw_len, header.stored_len));
  }
  return header;
}

FrameDecoder::FrameDecoder() = default;
FrameDecoder::~FrameDecoder() = default;
FrameDecoder::FrameDecoder(FrameDecoder&&) noexcept = default;
FrameDecoder& FrameDecoder::operator=(FrameDecoder&&) noexcept = default;

Status FrameDecoder::decode_into(ByteView frame, std::span<uint8_t> out, const Digest* hash) {
  auto header = parse_frame_header(frame);
  if (!header) return corrupt(header.error().message());
  if (header->raw_len != out.size() || frame.size() != kFrameHeaderBytes + header->stored_len) {
    return corrupt(fmt::format("frame of raw length {} and stored length {}, expected {} and {}", header->raw_len,
                               header->stored_len, out.size(), frame.size() - kFrameHeaderBytes));
  }
  ByteView stored = frame.subspan(kFrameHeaderBytes);
  uint32_t crc = codec::crc32c(stored, codec::crc32c(frame.first(kChecksummedHeaderBytes)));
  if (crc != header->crc32c) {
    return corrupt(fmt::format("frame checksum is {:08x}, should be {:08x}", crc, header->crc32c));
  }
  switch (header->codec) {
    case FrameCodec::kRaw:
      std::memcpy(out.data(), stored.data(), stored.size());
      break;
    case FrameCodec::kZstd:
      if (!decompressor_) decompressor_ = std::make_unique<codec::Decompressor>();
      if (auto status = decompressor_->decompress(stored, out); !status) return corrupt(status.error().message());
      break;
  }
  if (hash != nullptr) {
    Digest actual = codec::sha256(out);
    if (actual != *hash) return corrupt(fmt::format("content has hash {}, should be {}", actual.hex(), hash->hex()));
  }
  return ok();
}

Result<Bytes> FrameDecoder::decode(ByteView frame, const ChunkRef& expected) {
  return decode(frame, FrameRef{expected.hash, expected.raw_len, expected.place});
}

Result<Bytes> FrameDecoder::decode(ByteView frame, const FrameRef& expected) {
  if (expected.raw_len > limits::kChunkBytesMax || frame.size() != kFrameHeaderBytes + expected.place.stored_len) {
    return corrupt(fmt::format("frame of {} bytes, expected {}", frame.size(),
                               kFrameHeaderBytes + uint64_t{expected.place.stored_len}));
  }
  Bytes out(expected.raw_len);
  CAIRN_CHECK_OK(decode_into(frame, out, &expected.frame_hash));
  return out;
}

}  // namespace cairn::store
