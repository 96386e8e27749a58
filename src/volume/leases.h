// Writer leases (F10, F3): rows of (volume, mode, holder, fence, seen, expiry). A publication is accepted while its own
// lease row is current; an expired lease stays current until somebody takes it, so lateness alone never fences anybody.
// The fence of a volume only grows: every grant gets one more, and a holder that was taken over finds out by
// lease_lost.
//
// Only exclusive leases are granted; rows and rules are laid out for shared ones, which are refused.
//
// Thread-safe. Times are the catalog's (catalog/catalog_clock.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "volume/context.h"
#include "volume/volumes.h"

namespace cairn::volume {

enum class LeaseMode { kExclusive, kShared };  // shared: request_invalid until it is built
enum class HolderKind { kUpload, kRun, kSession, kServer };
std::string_view holder_kind_name(HolderKind kind);

struct LeaseRequest {
  VolumeId volume;
  LeaseMode mode = LeaseMode::kExclusive;
  HolderKind kind = HolderKind::kUpload;
  std::string holder;  // shown to people
  UserId user;
  std::string user_name;        // shown to people
  std::string source;           // who on which machine from which folder; "" = none
  std::string takeover_secret;  // of the current lease, from the writer's journal: continues at once
  std::string secret;           // what the holder is to present; empty: a random one is made
};

struct Lease {
  LeaseId id;
  VolumeId volume;
  HolderKind kind = HolderKind::kUpload;
  std::string holder;
  std::string secret;  // only in the answer of acquire; stored hashed
  uint64_t fence = 0;
  Time since;
  Time expires_at;
  bool current = true;
};

class Leases {
 public:
  explicit Leases(Context& context) : context_(context) {}

  // writer_lease_held with kind, holder, since, until, and the command that helps. Rules: the current secret takes over
  // at once; the same user and source after settings.same_source_time without a heartbeat; anyone after lease_time.
  // Uploads of an ended lease become lapsed in the same transaction (runs' and sessions' stay open: what they bring
  // goes aside).
  Result<Lease> acquire(const LeaseRequest& request);
  // Inside the caller's transaction, so that a run takes all its leases at once.
  Result<Lease> acquire(catalog::Tx& tx, const LeaseRequest& request);
  // Proves the holder alive. lease_lost names who has it now.
  Result<Lease> heartbeat(LeaseId id, std::string_view secret);
  Result<Lease> heartbeat(catalog::Tx& tx, LeaseId id, std::string_view secret);
  // Ends it; ok when it had ended before.
  Status release(LeaseId id, std::string_view secret);
  Status release(catalog::Tx& tx, LeaseId id);
  // By owner or admin (`cairn volumes break-lease`). Answers what was ended, if anything. Runs whose node never came back keep
  // the volume from being deleted no longer; their uploads stay open, so that what comes back all the same goes aside.
  Result<std::optional<LeaseSummary>> break_lease(VolumeId volume, std::string_view by_whom,
                                                  const AlsoInTx<std::optional<LeaseSummary>>& also = {});
  Result<std::optional<LeaseSummary>> current(VolumeId volume);

 private:
  Context& context_;
};

}  // namespace cairn::volume
