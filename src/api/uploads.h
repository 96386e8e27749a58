// Wire types of writing. Whoever writes, a `put` or an attempt of a run, works through an upload: it is bound to a writer
// lease, gets pack ids and signed URLs, registers what it sent and publishes a changeset. `secret` proves to be the holder;
// it is never logged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/volumes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

struct OpenUpload {
  std::string source;           // "<host>:<absolute path>": says who holds the lease and which unfinished upload this is
  std::string takeover_secret;  // secret of an earlier upload from the journal: continues at once
  bool shared = false;
  std::string secret;           // what the holder will present, of its own choice: 64 hex digits that nobody can guess
};

struct Upload {
  UploadId upload;
  VolumeId volume;
  LeaseId lease;
  std::string secret;  // of an attempt's mount; who opened an upload itself chose it
  uint64_t fence = 0;
  Pin base;         // head when the lease was taken; pinned while the upload lives
  Time expires_at;  // of the lease, if no heartbeat comes
  uint64_t heartbeat_seconds = 10;
};

struct Heartbeat {
  std::string secret;
};

struct HeartbeatAnswer {
  Time expires_at;
};

enum class PackKind { kData, kChangeset };

struct PackPromise {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  PackKind kind = PackKind::kData;
};

struct RequestPacks {
  std::string secret;
  // "register" in JSON: sent, now to be checked by the server; those of one's own unfinished uploads are adopted. One that
  // never arrived makes the answer object_not_found, a bad one pack_invalid; the others are registered all the same.
  std::vector<PackId> to_register;
  std::vector<PackPromise> promise;  // ids and URLs wanted
};

struct PackGrant {
  std::vector<PackId> registered;
  std::vector<PackUrl> promised;  // in the order of the promises; one PUT each, of exactly that length and CRC32C
  Time expires_at;                // of the URLs
};

struct RequestResumable {
  std::string secret;
  PackId after;  // the last one of the page before
  uint64_t limit = 256;
};

struct ResumablePack {
  PackId pack;
  std::string url;  // GET
  uint64_t size_bytes = 0;
  std::string seal;  // SHA-256 of the pack's index, 64 hex digits
};

// Data packs this upload may name: of the same person's earlier unfinished uploads of this volume (adopted by asking) and its
// own. Sorted by id.
struct ResumablePacks {
  std::vector<ResumablePack> packs;
  bool more = false;
  Time expires_at;
};

enum class PublishKind { kPut, kCheckpoint, kFinal, kSave, kLog };
std::string_view kind_name(PublishKind kind);  // "put"

struct Publish {
  std::string secret;
  PackId changeset;
  PublishKind kind = PublishKind::kPut;
  std::string message;
  bool interim = false;  // published while a run or session goes on: only the newest such snapshot stays
};

struct Published {
  uint64_t snapshot = 0;
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::string root;         // digest of the tree
  std::string side;         // not empty: kept aside under this name ("recovered/<holder>") instead of becoming the head
  std::string side_reason;  // "lease_lost" or "contents_exceed_size"
};

struct CloseUpload {
  std::string secret;
};

inline constexpr uint64_t kPromisesPerRequestMax = 64;

}  // namespace cairn::api
