// Uploads: what every writer works through, a `put` as well as a run's attempt or a session. An upload is bound to a
// lease, pins the snapshot it started from, owns the packs it was promised, and publishes any number of times.
//
// States: open → published (closed after a publication) | closed (closed without one) | lapsed (its lease was taken, or
// nobody was heard of for settings.unfinished_upload_time). Packs of an open, closed or lapsed upload are kept for that
// time, so that `put` resumes.
//
// Every call after open() presents the lease secret. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/context.h"
#include "volume/leases.h"

namespace cairn::volume {

enum class PackKind { kData, kChangeset };
std::string_view pack_kind_name(PackKind kind);

struct OpenUpload {
  UploadId id;
  VolumeId volume;
  StoreId store;
  Lease lease;  // with its secret
  SnapshotInfo base;
  PinId pin;  // on the base, for reading it
};

struct PackWish {
  PackKind kind = PackKind::kData;
  int64_t size_bytes = 0;
  uint32_t crc32c = 0;  // of the whole object
};

// What a PUT URL must sign: this key, this length, this CRC32C, if-absent. The row is durable before this is returned.
struct PromisedPack {
  PackId id;
  std::string key;
  int64_t size_bytes = 0;
  uint32_t crc32c = 0;
};

struct RegisteredPack {
  PackId id;
  PackKind kind = PackKind::kData;
  std::string key;
  int64_t size_bytes = 0;
  std::string seal;  // hex; empty for a changeset
};

struct RejectedPack {
  PackId id;
  Error error;
};

struct Registration {
  std::vector<RegisteredPack> registered;
  std::vector<RejectedPack> rejected;
};

class Uploads {
 public:
  explicit Uploads(Context& context) : context_(context) {}

  // Acquires the lease, opens the upload and pins the head, in one transaction.
  Result<OpenUpload> open(const LeaseRequest& request, const AlsoInTx<OpenUpload>& also = {});
  // Inside the caller's transaction (a run that takes several volumes at once).
  Result<OpenUpload> open(catalog::Tx& tx, const LeaseRequest& request);

  // What open() answered, for a holder that may have lost the answer. lease_lost or upload_expired when it is not the writer any
  // more.
  Result<OpenUpload> again(catalog::Tx& tx, UploadId id, std::string_view secret);

  Result<Lease> heartbeat(UploadId id, std::string_view secret);

  // Issues pack ids. At most settings.promised_packs_per_upload_max may be promised and not yet registered; promises
  // that nobody can keep any more are given up when there is no room. quota_exceeded, which counts promised bytes, is
  // for uploads of kind upload only.
  Result<std::vector<PromisedPack>> promise(UploadId id, std::string_view secret, const std::vector<PackWish>& wishes);
  // Compares each object with its promise (length, CRC where the store knows it), reads the index at its end, checks it
  // and records its seal. Registering again is fine; packs of one's own unfinished uploads are adopted. Rejected ones
  // say why: pack_invalid, or object_not_found when it never arrived; their promise ends with the life of their URL. An
  // error of the whole call means that the store
  // or the catalog could not be asked. At most 1,000 ids.
  Result<Registration> register_packs(UploadId id, std::string_view secret, const std::vector<PackId>& packs);

  // Adopts the packs of this person's own unfinished uploads of this volume, completes promised ones that did arrive,
  // and answers the data packs this upload may name, sorted by id after `after`, at most `limit` ≤ 1,000.
  Result<std::vector<RegisteredPack>> resumable(UploadId id, std::string_view secret, PackId after, int64_t limit);

  // Ends the upload and its lease; ok when it had ended before.
  Status close(UploadId id, std::string_view secret);
  // The same without the secret, for the server's own runs and sessions.
  Status close(catalog::Tx& tx, UploadId id);

  // Background: uploads whose writer was not heard of for settings.unfinished_upload_time. Answers how many lapsed.
  Result<int64_t> lapse_abandoned();

 private:
  Result<std::vector<PromisedPack>> promise_now(UploadId id, std::string_view secret,
                                                const std::vector<PackWish>& wishes);

  Context& context_;
};

}  // namespace cairn::volume
