// What every class of this module is built from: the catalog, the object store, a clock, randomness and the operator's
// settings. All by reference: the context and what it names must outlive the classes, which keep no state of their own
// besides bounded caches; a second server over the same catalog and store is a second context.
//
// AlsoInTx lets a caller write something of its own (the stored answer of an idempotent request, an event) in the very
// transaction that makes a change. It may run more than once, because transactions are retried; its error undoes the
// change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/random.h"
#include "base/result.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::object {
class ObjectStore;
}

namespace cairn::volume {

template <class T>
using AlsoInTx = std::function<Status(catalog::Tx&, const T&)>;

struct Settings {
  int64_t default_size_bytes = static_cast<int64_t>(5 * limits::kTiB);
  int64_t maximum_size_bytes = static_cast<int64_t>(20 * limits::kTiB);
  // A writer lease may be taken by anyone this long after its last heartbeat, and by the same person and source (the
  // same folder on the same machine) after the shorter time.
  Duration lease_time = minutes(15);
  Duration server_lease_time = seconds(60);  // of the server's own changes (rm)
  Duration same_source_time = seconds(60);
  // Packs of an unfinished upload are kept this long.
  Duration unfinished_upload_time = hours(7 * 24);
  Duration pin_time = hours(24);
  Duration side_snapshot_time = hours(30 * 24);
  Duration trash_time = hours(7 * 24);
  // A workspace that no run uses after this time belongs to one that was never made, or to one that ended unseen.
  Duration unused_workspace_time = hours(24);
  // Between condemning a pack and deleting it. Longer than the longest life of a signed URL plus skew, and at least the
  // interval between catalog backups (F7).
  Duration gc_grace = hours(24);
  Duration url_time = minutes(30);
  Duration put_time = hours(6);  // the longest that a PUT takes whose URL was alive when it began
  // How long a publication may show no sign of life before another server goes on with it.
  Duration publish_claim_time = seconds(30);
  // How long a call waits while another one works on this or another publication of the volume. Whoever asks repeats
  // himself, and each wait has a thread.
  Duration publish_wait = seconds(10);
  int64_t promised_packs_per_upload_max = 256;
  // 0 = no quota. The sum over all pack rows of an owner's stores, promised ones included.
  int64_t owner_quota_bytes = 0;
  size_t index_cache_bytes = 64 * limits::kMiB;
  size_t node_cache_bytes = 64 * limits::kMiB;
};

struct Context {
  Context(catalog::Db& catalog_db, object::ObjectStore& object_store, Clock& the_clock, Random& the_random,
          Settings the_settings = {})
      : db(catalog_db),
        objects(object_store),
        clock(the_clock),
        random(the_random),
        catalog_clock(the_clock),
        settings(std::move(the_settings)) {}

  catalog::Db& db;
  object::ObjectStore& objects;
  Clock& clock;
  Random& random;
  catalog::CatalogClock catalog_clock;  // somebody must stamp it (catalog/catalog_clock.h), or leases never expire
  Settings settings;
};

// Who asks. `name` is for messages, snapshots and the audit log.
struct Actor {
  UserId user;
  std::string name;
};

}  // namespace cairn::volume
