// A pack holds many frames and, at its end, a sealed index (docs/formats/pack.md). Its id is not in it: the server issues
// the id after the pack was built. The *seal* is SHA-256 of the index, which names every frame's hash.
//
// PackBuilder fills one buffer of fixed size and is used by one thread at a time; reset() makes it ready for the next pack
// without a new allocation. PackIndex is immutable after parsing and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "codec/digest.h"
#include "object/object_key.h"
#include "store/frame.h"
#include "store/types.h"

namespace cairn::store {

enum class PackKind : uint8_t { kData = 0, kNodes = 1 };

inline constexpr size_t kPackHeaderBytes = 16;
inline constexpr size_t kPackFooterBytes = 64;
inline constexpr size_t kPackIndexRowBytes = 49;

// The object key of a pack: s/<store>/p/<pack>.
object::ObjectKey pack_key(const StoreId& store, const PackId& pack);

struct FrameInfo {
  Digest hash;
  uint32_t offset = 0;
  uint32_t raw_len = 0;
  uint32_t stored_len = 0;
  uint32_t crc32c = 0;
  FrameCodec codec = FrameCodec::kRaw;
  bool operator==(const FrameInfo&) const = default;
};

// A finished pack. `bytes` and `frames` point into the builder and are valid until its reset() or end.
struct BuiltPack {
  PackKind kind = PackKind::kData;
  ByteView bytes;
  std::span<const FrameInfo> frames;
  Digest seal;
};

class PackBuilder {
 public:
  struct Options {
    PackKind kind = PackKind::kData;
    uint64_t target_bytes = limits::kPackBytesTarget;  // full() from here on; between 1 MiB and 48 MiB
    int zstd_level = 3;
    bool compress = true;
  };

  explicit PackBuilder(Options options);
  ~PackBuilder();
  PackBuilder(PackBuilder&&) noexcept;
  PackBuilder& operator=(PackBuilder&&) noexcept;

  // True while one more frame of `raw_len` bytes surely fits.
  bool fits(size_t raw_len) const;
  // True once the target size is reached: finish() it.
  bool full() const;
  bool empty() const;
  uint64_t bytes_used() const;

  // Appends a chunk whose SHA-256 the caller has computed (every byte is hashed once). A sample decides whether it is
  // compressed. kLimitExceeded when it does not fit, is empty or longer than 4 MiB.
  Result<FrameInfo> add(const Digest& hash, ByteView raw);

  // Writes index and footer. Only reset() may follow. REQUIRES: !empty().
  Result<BuiltPack> finish();
  void reset();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What the footer says; `object_size` is the size of the whole object.
struct PackTail {
  uint32_t index_offset = 0;
  uint32_t frame_count = 0;
  Digest seal;
  uint64_t index_bytes() const { return uint64_t{frame_count} * kPackIndexRowBytes; }
};

// `footer` is the object's last kPackFooterBytes. kPackInvalid unless magic, CRC, zero padding and all bounds hold for an
// object of `object_size` bytes.
Result<PackTail> parse_pack_footer(ByteView footer, uint64_t object_size);
// Checks magic, version, kind and zero bytes.
Result<PackKind> parse_pack_header(ByteView header);

class PackIndex {
 public:
  // Checks the seal and every row: frames follow each other without gap from the header to the index, lengths within the
  // limits. kPackInvalid otherwise.
  static Result<PackIndex> parse(const PackTail& tail, ByteView index);

  std::span<const FrameInfo> frames() const { return frames_; }
  const Digest& seal() const { return seal_; }
  // The frame whose header stands at `offset`, or nothing.
  const FrameInfo* find(uint32_t offset) const;
  // True when `chunk` names a frame of this pack exactly: offset, hash, raw and stored length. The pack's id is not known
  // here and is not compared.
  bool holds(const ChunkRef& chunk) const;

 private:
  std::vector<FrameInfo> frames_;
  Digest seal_;
};

// The index of a whole pack in memory, with its header and every frame's CRC checked.
Result<PackIndex> parse_pack(ByteView pack);

}  // namespace cairn::store
