// The identity of a file's contents as the stat cache and manifests keep it: SHA-256 of "cairn-content-v1" and, for each chunk,
// its hash and raw length (u32, little-endian). Equal contents have equal ids, wherever the chunks lie.
//
// One thread.
#pragma once

#include <span>
#include <string_view>

#include "codec/bytes.h"
#include "codec/digest.h"
#include "store/types.h"

namespace cairn::transfer {

class ContentHasher {
 public:
  ContentHasher() { sha_.update(std::string_view("cairn-content-v1")); }
  void add(const codec::Digest& hash, uint32_t raw_len) {
    uint8_t length[4] = {static_cast<uint8_t>(raw_len), static_cast<uint8_t>(raw_len >> 8),
                         static_cast<uint8_t>(raw_len >> 16), static_cast<uint8_t>(raw_len >> 24)};
    sha_.update(hash.view()).update(codec::ByteView(length));
  }
  void add(std::span<const store::ChunkRef> chunks) {
    for (const store::ChunkRef& chunk : chunks) add(chunk.hash, chunk.raw_len);
  }
  codec::Digest finish() { return sha_.finish(); }

 private:
  codec::Sha256 sha_;
};

inline codec::Digest content_id(std::span<const store::ChunkRef> chunks) {
  ContentHasher hasher;
  hasher.add(chunks);
  return hasher.finish();
}

}  // namespace cairn::transfer
