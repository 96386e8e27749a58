// One volume as a transfer sees it: leases and uploads, packs and their URLs, publication, pinned reading. The narrow seam
// between the transfer engine and the world: ApiRemote speaks to a server and its object store, testing::FakeRemote keeps
// everything in memory.
//
// Every call is thread-safe and blocks at most until its deadline. Implementations retry what is safe to retry inside the
// deadline; an error that comes out is final for this call. Mutations are idempotent towards the server (request ids).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"
#include "store/types.h"

namespace cairn::transfer {

// A snapshot that stays readable while it is used (every listing page and URL batch renews it).
struct PinGrant {
  PinId pin;
  uint64_t snapshot = 0;  // 0: the volume is empty
  std::string root;       // root digest, 64 hex digits; equal contents have equal digests
  uint64_t entries = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
};

// The right to write, as granted by the server: an upload row bound to a writer lease.
struct UploadGrant {
  UploadId upload;
  LeaseId lease;
  std::string secret;  // whoever presents it continues; never logged
  uint64_t fence = 0;
  PinGrant base;       // the head when the lease was taken
};

enum class PackKind : uint8_t { kData, kChangeset };

struct PackPromise {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  PackKind kind = PackKind::kData;
};

// A pack id that the server issued and the URL that stores it, once, with exactly the promised bytes.
struct PackSlot {
  PackId pack;
  std::string url;
};

struct PackUrl {
  PackId pack;
  std::string url;
  uint64_t size_bytes = 0;
};

struct PublishRequest {
  PackId changeset;
  std::string kind;     // "put", "final", "checkpoint", "save", "log"
  std::string reason;   // what the history says when there is no message
  std::string message;  // the user's own, may be empty
};

struct Published {
  uint64_t snapshot = 0;     // the volume's head after the publication
  std::string side;          // not empty: published as this side snapshot instead
  std::string side_reason;   // "lease_lost" or "contents_exceed_size"
  uint64_t files = 0;        // of the whole volume
  uint64_t bytes = 0;
};

// Where a listing continues. `chunk_after` > 0: inside the chunk list of the file `after`.
struct ListingCursor {
  std::string after;  // raw path bytes
  uint64_t chunk_after = 0;
};

struct ListingPage {
  std::vector<uint8_t> changeset;  // docs/formats/changeset.md, PUT and CHUNKS records only
  std::optional<ListingCursor> next;
};

using store::EntryKind;

struct RemoteStat {
  EntryKind kind = EntryKind::kFile;
  uint64_t size_bytes = 0;
};

class Remote {
 public:
  virtual ~Remote() = default;

  // What the messages call the volume.
  virtual std::string volume_name() const = 0;
  // Tells this volume from all others (server, owner, name): what local state is kept under.
  virtual std::string scope() const = 0;

  // --- writing
  // `source` names what is uploaded from where (for takeover by the same person); `secret` is that of the journal or empty.
  // writer_lease_held when somebody else writes; its holder says who and until when.
  virtual Result<UploadGrant> open_upload(const std::string& source, const std::string& secret, Deadline deadline) = 0;
  // lease_lost when somebody took over.
  virtual Status heartbeat(const UploadGrant& grant, Deadline deadline) = 0;
  // Registers stored packs and gets slots for promised ones, in one round trip. Answers one slot a promise, in order.
  virtual Result<std::vector<PackSlot>> exchange_packs(const UploadGrant& grant, std::span<const PackId> registered,
                                                       std::span<const PackPromise> promises, Deadline deadline) = 0;
  // Stored packs of one's own unfinished uploads of this volume, adopted by this upload.
  virtual Result<std::vector<PackUrl>> resumable_packs(const UploadGrant& grant, Deadline deadline) = 0;
  // Stores the promised bytes under the slot; retries. Success also when an earlier try had stored them.
  virtual Status put_object(const PackSlot& slot, std::span<const uint8_t> bytes, Deadline deadline) = 0;
  virtual Result<Published> publish(const UploadGrant& grant, const PublishRequest& request, Deadline deadline) = 0;
  // Releases the lease. Best effort on cancelled work: uses its own short deadline when `deadline` is cancelled already.
  virtual Status close_upload(const UploadGrant& grant, Deadline deadline) = 0;

  // --- reading
  virtual Result<PinGrant> pin(std::optional<uint64_t> snapshot, Deadline deadline) = 0;
  virtual Status unpin(const PinId& pin, Deadline deadline) = 0;
  // What the pinned snapshot has at exactly `path`; nothing when there is no such entry or folder. "" is the root.
  virtual Result<std::optional<RemoteStat>> stat(const PinId& pin, const std::string& path, Deadline deadline) = 0;
  // The entry `path` and everything below it (everything for ""), from the cursor on; about `max_bytes` at a time.
  virtual Result<ListingPage> listing(const PinId& pin, const std::string& path, const ListingCursor& from,
                                      uint64_t max_bytes, Deadline deadline) = 0;
  // In the order asked; renews the pin.
  virtual Result<std::vector<PackUrl>> get_urls(const PinId& pin, std::span<const PackId> packs, Deadline deadline) = 0;
  // Fills `out` from `offset`; an error when the object is shorter. url_invalid when the URL has expired: ask again.
  virtual Status get_range(const std::string& url, uint64_t offset, std::span<uint8_t> out, Deadline deadline) = 0;
};

}  // namespace cairn::transfer
