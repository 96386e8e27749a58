// Which chunks are stored already and where: the bounded fingerprint table of RULES S19 (48 bytes a chunk). A hit is exact: the
// whole hash is compared. When the table is full, new chunks are not remembered: reuse degrades, never correctness.
//
// It also serialises equal chunks that are being stored at the same time: the first thread that asks for an unknown hash gets
// "store it" and must answer with stored() or give_up(); others wait for that answer.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "store/types.h"

namespace cairn::transfer {

class ChunkTable {
 public:
  explicit ChunkTable(uint64_t bytes_max);

  // Something the volume or an earlier upload holds.
  void add(const store::ChunkRef& chunk);
  void clear();

  // The place of an equal stored chunk; nothing: the caller stores it.
  std::optional<store::Place> find_or_claim(const codec::Digest& hash, uint32_t raw_len);
  void stored(const store::ChunkRef& chunk);
  void give_up(const codec::Digest& hash);

  uint64_t size() const;
  // No further chunk can be remembered.
  bool full() const;

 private:
  struct Slot {
    codec::Digest hash;
    uint32_t pack = 0;  // index into packs_, plus one; 0: free
    uint32_t raw_len = 0;
    uint32_t offset = 0;
    uint32_t stored_len = 0;
  };
  size_t probe(const codec::Digest& hash) const;
  void insert(const store::ChunkRef& chunk);
  bool grow();

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::vector<Slot> slots_;
  uint64_t count_ = 0;
  bool full_ = false;
  std::vector<PackId> packs_;
  std::unordered_map<PackId, uint32_t> pack_index_;
  PackId last_pack_;
  uint32_t last_index_ = 0;
  std::unordered_set<codec::Digest> claimed_;
};

}  // namespace cairn::transfer
