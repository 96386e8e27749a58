#include "store/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/crc32c.h"
#include "codec/zstd_frame.h"
#include "store/encoding.h"

namespace cairn::store {

namespace {

constexpr std::string_view kPackMagic = "CAIRNPK1";
constexpr std::string_view kIndexMagic = "CAIRNIDX";
constexpr uint8_t kPackVersion = 1;
constexpr size_t kFooterChecksummedBytes = 48;
constexpr size_t kSampleBytes = 16 * limits::kKiB;
// After this many samples that did not pay, chunks are stored raw unseen, up to kBlindMax of them between two samples.
constexpr uint32_t kMissesBeforeBlind = 4;
constexpr uint32_t kBlindMax = 16;

// Compression pays from 5 % on.
size_t worthwhile(size_t raw_len) { return raw_len - raw_len / 20; }

void write_row(codec::ByteWriter& writer, const FrameInfo& frame) {
  writer.bytes(frame.hash.view());
  writer.u32(frame.offset);
  writer.u32(frame.raw_len);
  writer.u32(frame.stored_len);
  writer.u32(frame.crc32c);
  writer.u8(static_cast<uint8_t>(frame.codec));
}

Error invalid(std::string what) { return Error(Code::kPackInvalid, std::move(what)); }

}  // namespace

object::ObjectKey pack_key(const StoreId& store, const PackId& pack) {
  return object::ObjectKey::of(fmt::format("s/{}/p/{}", store.hex(), pack.hex()));
}

struct PackBuilder::State {
  Options options;
  size_t capacity = 0;
  std::unique_ptr<uint8_t[]> buffer;
  size_t used = kPackHeaderBytes;
  std::vector<FrameInfo> frames;
  Bytes index;
  bool finished = false;
  codec::Compressor compressor;
  std::array<uint8_t, kSampleBytes> sample_out;
  uint32_t misses = 0;
  uint32_t blind_left = 0;

  // Whether compressing `raw` is worth trying.
  Result<bool> sample_pays(ByteView raw);
  void note_outcome(bool paid);
  // Writes the stored bytes to `out` and returns their length and codec.
  Result<std::pair<size_t, FrameCodec>> store_bytes(ByteView raw, uint8_t* out);
};

Result<bool> PackBuilder::State::sample_pays(ByteView raw) {
  if (!options.compress || raw.size() < 64) return false;
  if (blind_left > 0) {
    --blind_left;
    return false;
  }
  if (raw.size() <= 2 * kSampleBytes) return true;  // short enough to just try
  ByteView sample = raw.subspan((raw.size() - kSampleBytes) / 2, kSampleBytes);
  CAIRN_TRY(size_t size, compressor.compress(sample, std::span(sample_out).first(worthwhile(kSampleBytes)), 1));
  return size != 0;
}

void PackBuilder::State::note_outcome(bool paid) {
  if (paid) {
    misses = 0;
  } else if (++misses >= kMissesBeforeBlind) {
    blind_left = std::min(kBlindMax, uint32_t{1} << std::min<uint32_t>(misses - kMissesBeforeBlind, 8));
  }
}

Result<std::pair<size_t, FrameCodec>> PackBuilder::State::store_bytes(ByteView raw, uint8_t* out) {
  bool asked = options.compress && raw.size() >= 64 && blind_left == 0;
  CAIRN_TRY(bool try_it, sample_pays(raw));
  size_t size = 0;
  if (try_it) {
    CAIRN_TRY(size, compressor.compress(raw, std::span(out, worthwhile(raw.size())), options.zstd_level));
  }
  if (asked) note_outcome(size != 0);
  if (size != 0) return std::pair(size, FrameCodec::kZstd);
  std::memcpy(out, raw.data(), raw.size());
  return std::pair(raw.size(), FrameCodec::kRaw);
}

PackBuilder::PackBuilder(Options options) : state_(std::make_unique<State>()) {
  options.target_bytes = std::clamp<uint64_t>(options.target_bytes, limits::kMiB, 48 * limits::kMiB);
  state_->options = options;
  // Room for one more chunk past the target, and for the longest index and footer.
  state_->capacity = std::min<size_t>(limits::kPackBytesMax, options.target_bytes + limits::kChunkBytesMax +
                                                                 limits::kFramesPerPackMax * kPackIndexRowBytes + 4096);
  // Not zeroed on purpose: pages are touched as they are filled.
  state_->buffer.reset(new uint8_t[state_->capacity]);
  reset();
}

PackBuilder::~PackBuilder() = default;
PackBuilder::PackBuilder(PackBuilder&&) noexcept = default;
PackBuilder& PackBuilder::operator=(PackBuilder&&) noexcept = default;

bool PackBuilder::fits(size_t raw_len) const {
  const State& s = *state_;
  size_t tail = (s.frames.size() + 1) * kPackIndexRowBytes + kPackFooterBytes;
  return !s.finished && raw_len <= limits::kChunkBytesMax && s.frames.size() < limits::kFramesPerPackMax &&
         s.used + kFrameHeaderBytes + raw_len + tail <= s.capacity;
}

bool PackBuilder::full() const {
  return state_->used >= state_->options.target_bytes || state_->frames.size() >= limits::kFramesPerPackMax;
}

bool PackBuilder::empty() const { return state_->frames.empty(); }

uint64_t PackBuilder::bytes_used() const {
  return state_->used + state_->frames.size() * kPackIndexRowBytes + kPackFooterBytes;
}

Result<FrameInfo> PackBuilder::add(const Digest& hash, ByteView raw) {
  State& s = *state_;
  if (raw.empty() || !fits(raw.size())) {
    return Error(Code::kLimitExceeded, fmt::format("a chunk of {} bytes does not fit a pack of {} bytes and {} frames",
                                                   raw.size(), s.used, s.frames.size()));
  }
  uint8_t* header = s.buffer.get() + s.used;
  CAIRN_TRY(auto stored, s.store_bytes(raw, header + kFrameHeaderBytes));
  FrameInfo frame;
  frame.hash = hash;
  frame.offset = static_cast<uint32_t>(s.used);
  frame.raw_len = static_cast<uint32_t>(raw.size());
  frame.stored_len = static_cast<uint32_t>(stored.first);
  frame.codec = stored.second;
  frame.crc32c = write_frame_header(frame.codec, frame.raw_len, ByteView(header + kFrameHeaderBytes, stored.first),
                                    std::span(header, kFrameHeaderBytes));
  s.used += kFrameHeaderBytes + stored.first;
  s.frames.push_back(frame);
  return frame;
}

Result<BuiltPack> PackBuilder::finish() {
  State& s = *state_;
  CAIRN_CHECK(!s.frames.empty() && !s.finished);
  s.finished = true;
  uint8_t* header = s.buffer.get();
  std::memset(header, 0, kPackHeaderBytes);
  std::memcpy(header, kPackMagic.data(), kPackMagic.size());
  header[8] = static_cast<uint8_t>(s.options.kind);
  header[9] = kPackVersion;

  s.index.clear();
  s.index.reserve(s.frames.size() * kPackIndexRowBytes + kPackFooterBytes);
  codec::ByteWriter writer(s.index);
  for (const FrameInfo& frame : s.frames) write_row(writer, frame);
  BuiltPack pack;
  pack.kind = s.options.kind;
  pack.frames = s.frames;
  pack.seal = codec::sha256(s.index);
  size_t footer_at = s.index.size();
  writer.bytes(kIndexMagic);
  writer.u32(static_cast<uint32_t>(s.used));
  writer.u32(static_cast<uint32_t>(s.frames.size()));
  writer.bytes(pack.seal.view());
  writer.u32(codec::crc32c(ByteView(s.index).subspan(footer_at)));
  writer.zeros(kPackFooterBytes - kFooterChecksummedBytes - 4);

  CAIRN_CHECK(s.used + s.index.size() <= s.capacity);
  std::memcpy(s.buffer.get() + s.used, s.index.data(), s.index.size());
  pack.bytes = ByteView(s.buffer.get(), s.used + s.index.size());
  return pack;
}

void PackBuilder::reset() {
  state_->used = kPackHeaderBytes;
  state_->frames.clear();
  state_->finished = false;
}

Result<PackTail> parse_pack_footer(ByteView footer, uint64_t object_size) {
  if (footer.size() != kPackFooterBytes) return invalid(fmt::format("a pack's footer has 64 bytes, not {}", footer.size()));
  codec::ByteReader reader(footer);
  if (!reader.expect(kIndexMagic)) return invalid("the object does not end with a pack's footer");
  PackTail tail;
  tail.index_offset = reader.u32();
  tail.frame_count = reader.u32();
  tail.seal = read_digest(reader);
  uint32_t crc = reader.u32();
  if (!reader.expect_zeros(reader.remaining()) || crc != codec::crc32c(footer.first(kFooterChecksummedBytes))) {
    return invalid("the pack's footer is damaged");
  }
  uint64_t size = uint64_t{tail.index_offset} + tail.index_bytes() + kPackFooterBytes;
  if (object_size > limits::kPackBytesMax || tail.frame_count == 0 || tail.frame_count > limits::kFramesPerPackMax ||
      tail.index_offset < kPackHeaderBytes || size != object_size) {
    return invalid(fmt::format("pack of {} bytes whose footer says index at {} with {} frames", object_size,
                               tail.index_offset, tail.frame_count));
  }
  return tail;
}

Result<PackKind> parse_pack_header(ByteView header) {
  codec::ByteReader reader(header.first(std::min(header.size(), kPackHeaderBytes)));
  if (!reader.expect(kPackMagic)) return invalid("the object does not start as a pack");
  uint8_t kind = reader.u8();
  uint8_t version = reader.u8();
  if (reader.ok() && version != kPackVersion) {
    return Error(Code::kFormatUnsupported, fmt::format("pack of version {}; this build knows {}", version, kPackVersion));
  }
  if (kind > static_cast<uint8_t>(PackKind::kNodes) || !reader.expect_zeros(6)) return invalid("damaged pack header");
  return static_cast<PackKind>(kind);
}

Result<PackIndex> PackIndex::parse(const PackTail& tail, ByteView index) {
  if (index.size() != tail.index_bytes() || tail.frame_count > limits::kFramesPerPackMax) {
    return invalid(fmt::format("pack index of {} bytes, expected {}", index.size(), tail.index_bytes()));
  }
  if (codec::sha256(index) != tail.seal) return invalid("the pack's index does not match its seal");
  PackIndex result;
  result.seal_ = tail.seal;
  result.frames_.reserve(tail.frame_count);
  codec::ByteReader reader(index);
  uint64_t next = kPackHeaderBytes;
  for (uint32_t i = 0; i < tail.frame_count; ++i) {
    FrameInfo frame;
    frame.hash = read_digest(reader);
    frame.offset = reader.u32();
    frame.raw_len = reader.u32();
    frame.stored_len = reader.u32();
    frame.crc32c = reader.u32();
    uint8_t codec = reader.u8();
    frame.codec = static_cast<FrameCodec>(codec);
    bool good = reader.ok() && frame.offset == next && codec <= static_cast<uint8_t>(FrameCodec::kZstd) &&
                frame.raw_len >= 1 && frame.raw_len <= limits::kChunkBytesMax && frame.stored_len >= 1 &&
                (frame.codec == FrameCodec::kRaw ? frame.stored_len == frame.raw_len : frame.stored_len < frame.raw_len);
    if (!good) return invalid(fmt::format("row {} of the pack's index is impossible", i));
    next += kFrameHeaderBytes + frame.stored_len;
    result.frames_.push_back(frame);
  }
  if (next != tail.index_offset) return invalid("the pack's frames do not end where its index starts");
  return result;
}

const FrameInfo* PackIndex::find(uint32_t offset) const {
  auto it = std::lower_bound(frames_.begin(), frames_.end(), offset,
                             [](const FrameInfo& frame, uint32_t at) { return frame.offset < at; });
  return it != frames_.end() && it->offset == offset ? &*it : nullptr;
}

bool PackIndex::holds(const ChunkRef& chunk) const {
  const FrameInfo* frame = find(chunk.place.offset);
  return frame != nullptr && frame->hash == chunk.hash && frame->raw_len == chunk.raw_len &&
         frame->stored_len == chunk.place.stored_len;
}

Result<PackIndex> parse_pack(ByteView pack) {
  if (pack.size() < kPackHeaderBytes + kPackFooterBytes) return invalid(fmt::format("{} bytes are no pack", pack.size()));
  CAIRN_CHECK_OK(parse_pack_header(pack));
  CAIRN_TRY(PackTail tail, parse_pack_footer(pack.last(kPackFooterBytes), pack.size()));
  CAIRN_TRY(PackIndex index, PackIndex::parse(tail, pack.subspan(tail.index_offset, tail.index_bytes())));
  for (const FrameInfo& frame : index.frames()) {
    ByteView bytes = pack.subspan(frame.offset, kFrameHeaderBytes + frame.stored_len);
    auto header = parse_frame_header(bytes);
    uint32_t crc = codec::crc32c(bytes.subspan(kFrameHeaderBytes), codec::crc32c(bytes.first(12)));
    if (!header || header->codec != frame.codec || header->raw_len != frame.raw_len ||
        header->stored_len != frame.stored_len || header->crc32c != frame.crc32c || crc != frame.crc32c) {
      return invalid(fmt::format("the frame at {} is not what the pack's index says", frame.offset));
    }
  }
  return index;
}

}  // namespace cairn::store
