// Reading a volume: pins, listings, names, counts and the right to fetch packs. Every answer is bounded: pages with a
// cursor, two descents for counts.
//
// A pin is made in the transaction that resolves the snapshot, is renewed by every listing page and grant, and dies
// settings.pin_time after the last renewal (S6). Packs are granted only when a root of that very volume named them
// (S7). Paths are raw bytes; "" is the whole volume.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/context.h"
#include "volume/volumes.h"

namespace cairn::volume {

struct Pinned {
  PinId pin;
  SnapshotInfo snapshot;
  Time expires_at;
};

// Which state to read: a pin, or a snapshot number, or (both empty) the head.
struct ReadFrom {
  std::optional<PinId> pin;
  std::optional<int64_t> snapshot;
};

struct ListingPage {
  std::vector<uint8_t> changeset;  // PUT entries with their chunks (docs/formats/changeset.md)
  bool more = false;
  std::string next_after;   // path to ask on from
  uint64_t next_chunk = 0;  // chunks of the file `next_after` that were already sent; 0 = all of it
};

enum class EntryKind { kFile, kDirectory, kSymlink };

struct EntryInfo {
  std::string path;  // whole path, raw bytes
  EntryKind kind = EntryKind::kFile;
  uint32_t mode = 0;
  int64_t mtime_ns = 0;
  int64_t size_bytes = 0;
  std::string symlink_target;
  bool implied = false;  // a folder that exists only because something lies below it
};

struct NamesPage {
  std::vector<EntryInfo> entries;
  bool more = false;
  std::string next_after;  // last path of this page
  int64_t snapshot = 0;
};

struct Counts {
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t snapshot = 0;
};

struct PackGrant {
  PackId id;
  std::string key;
  int64_t size_bytes = 0;
};

class Reads {
 public:
  explicit Reads(Context& context);
  ~Reads();

  // Without a number: the head. snapshot_not_found, or limit_exceeded while the volume has limits::kPinsPerVolumeMax readers
  // that were heard of lately.
  Result<Pinned> pin(VolumeId volume, std::optional<int64_t> snapshot, std::string_view purpose,
                     const AlsoInTx<Pinned>& also = {});
  // For what an upload or an attempt reads: its pin ends with it and counts for no limit.
  Result<Pinned> pin(catalog::Tx& tx, VolumeId volume, std::optional<int64_t> snapshot, std::string_view purpose);
  // pin_not_found when it is dead.
  Result<Pinned> renew(PinId pin);
  Result<Pinned> renew(catalog::Tx& tx, PinId pin);
  Status unpin(PinId pin);

  // The entries at or below `path` after the cursor, as a changeset of at most about `max_bytes` (64 KiB to 8 MiB); at
  // least one record as long as there is one.
  Result<ListingPage> listing(PinId pin, std::string_view path, std::string_view after, uint64_t chunk_after,
                              uint64_t max_bytes);
  // Names of one level below `path`, sorted; `limit` ≤ 10,000. path_not_found; a file answers itself.
  Result<NamesPage> ls(VolumeId volume, const ReadFrom& from, std::string_view path, std::string_view after,
                       int64_t limit);
  Result<Counts> du(VolumeId volume, const ReadFrom& from, std::string_view path);
  Result<EntryInfo> stat(VolumeId volume, const ReadFrom& from, std::string_view path);

  // Renews the pin. object_not_found names the first pack the volume does not hold. At most 1,000.
  Result<std::vector<PackGrant>> grant(PinId pin, const std::vector<PackId>& packs);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::volume
