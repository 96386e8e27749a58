// The small objects of a store (docs/formats/store.md): the header, the epochs, the snapshot records.
//
// Pure functions on bytes; who writes them is volume's business. Everything unknown is refused: kFormatUnsupported for a
// version, chunker or flag this build does not know, kDataCorrupt for anything else that is not as documented.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "codec/bytes.h"
#include "object/object_key.h"
#include "store/types.h"

namespace cairn::store {

// Written once, before anything else in the store: s/<store>/header.
struct StoreHeader {
  StoreId store;
  uint16_t format_version = 1;
  uint32_t chunker = 0;     // kChunkerGear1
  uint64_t gear_seed = 0;   // kGearSeed
  bool zstd_allowed = true;
  Time created;
  uint64_t first_epoch = 1;
  bool operator==(const StoreHeader&) const = default;
};

// The header this build writes.
StoreHeader new_store_header(const StoreId& store, Time created, uint64_t first_epoch);
object::ObjectKey store_header_key(const StoreId& store);
Bytes encode_store_header(const StoreHeader& header);
Result<StoreHeader> decode_store_header(ByteView bytes);

// Epochs only rise. Each is one object put if-absent, s/<store>/epoch/<16 hex digits>; the store's epoch is the greatest
// listed. (Nothing in a store is ever overwritten.)
std::string epoch_prefix(const StoreId& store);
object::ObjectKey epoch_key(const StoreId& store, uint64_t epoch);
Bytes encode_epoch(const StoreId& store, uint64_t epoch);
Result<uint64_t> decode_epoch(const StoreId& store, ByteView bytes);

// Written into the store by each publication before the head moves, so that a catalog restored from an older backup can
// list what came after it: s/<store>/r/<volume>/<number, 16 hex digits>-<snapshot>.
struct SnapshotRecord {
  SnapshotId snapshot;
  VolumeId volume;
  uint64_t number = 0;
  uint64_t base_number = 0;  // 0: none
  RootRef root;
  Digest base_digest;
  uint64_t fence = 0;
  uint64_t epoch = 0;
  Time created;
  std::string kind;         // "put", "checkpoint", … at most 32 bytes
  std::string author;       // at most 256 bytes
  std::string reason;       // at most 256 bytes
  std::string message;      // at most 4096 bytes
  std::string volume_name;  // at most 40 bytes
  bool operator==(const SnapshotRecord&) const = default;
};

std::string snapshot_record_prefix(const StoreId& store, const VolumeId& volume);
object::ObjectKey snapshot_record_key(const StoreId& store, const SnapshotRecord& record);
// kLimitExceeded when a text is too long.
Result<Bytes> encode_snapshot_record(const SnapshotRecord& record);
Result<SnapshotRecord> decode_snapshot_record(ByteView bytes);

}  // namespace cairn::store
