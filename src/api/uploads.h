// Wire types of writing. Whoever writes, a `put` or an attempt of a run, works through an upload: it is bound to a writer
// lease, gets pack ids and signed URLs, registers what it sent and publishes a changeset. `secret` proves to be the holder;
// it is never logged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/volumes.h"
#include "base/clock.h"
#include "base/ids.h"

namespace cairn::api {

struct OpenUpload {
  std::string source;           // "<host>:<absolute path>": says who holds the lease and which unfinished upload this is
  std::string takeover_secret;  // secret of an earlier upload from the journal: continues at once
  bool shared = false;
};

struct Upload {
  UploadId upload;
  LeaseId lease;
  std::string secret;
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
  std::vector<PackId> to_register;   // "register" in JSON: sent, now checked by the server; or of an earlier upload: adopted
  std::vector<PackPromise> promise;  // ids and URLs wanted
};

struct RejectedPack {
  PackId pack;
  std::string code;
  std::string message;
};

struct PackGrant {
  std::vector<PackId> registered;
  std::vector<RejectedPack> rejected;
  std::vector<PackUrl> promised;  // in the order of the promises; one PUT each, of exactly that length and CRC32C
  Time expires_at;                // of the URLs
};

struct ResumablePack {
  PackId pack;
  std::string url;  // GET
  uint64_t size_bytes = 0;
};

struct ResumablePacks {
  std::vector<ResumablePack> packs;
  Time expires_at;
};

enum class PublishKind { kPut, kRemove, kCheckpoint, kFinal, kLog, kRestore };

struct Publish {
  std::string secret;
  PackId changeset;
  PublishKind kind = PublishKind::kPut;
  std::string reason;
  std::string message;
  std::optional<uint64_t> base_snapshot;  // what the changeset was computed against; default: the upload's base or last
};

struct Published {
  uint64_t snapshot = 0;
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::string side;                    // not empty: kept aside under this name instead of becoming the head
  std::vector<std::string> conflicts;  // paths kept aside (shared writing)
};

struct CloseUpload {
  std::string secret;
};

inline constexpr uint64_t kPromisesPerRequestMax = 64;

}  // namespace cairn::api
