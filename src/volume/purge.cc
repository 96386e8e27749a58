// The last part of a volume's life (Volumes::purge, purge_due): roots end first, then objects go, then rows.
#include "base/log.h"
#include "catalog/leases.h"
#include "catalog/packs.h"
#include "catalog/pins.h"
#include "catalog/publish_ops.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "catalog/utf8.h"
#include "catalog/volumes.h"
#include "object/object_store.h"
#include "volume/rows.h"
#include "volume/volumes.h"

namespace cairn::volume {
namespace {

constexpr int64_t kPage = 500;
// Clocks of signers and stores may differ by this much.
constexpr Duration kClockSkew = minutes(5);

std::string store_prefix(StoreId store) {
  return "s/" + store.hex() + "/";
}

Deadline object_deadline(Context& context) {
  return Deadline::after(minutes(1), context.clock);
}

// Ends everything that makes the volume's contents reachable. True when its store is now under removal.
Result<bool> end_roots(Context& context, const catalog::VolumeRow& volume) {
  return context.db.transact([&](catalog::Tx& tx) -> Result<bool> {
    CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
    CAIRN_CHECK_OK(catalog::pins::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::publish_ops::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::snapshots::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::packs::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::uploads::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::leases::remove_of_volume(tx, volume.id));
    CAIRN_CHECK_OK(catalog::stores::begin_removing(tx, volume.store, volume.id, now));
    CAIRN_TRY(std::optional<catalog::StoreRow> store, catalog::stores::find(tx, volume.store));
    if (!store || store->state != "removing") return false;
    CAIRN_CHECK_OK(catalog::packs::begin_deleting_all(tx, volume.store));
    return true;
  });
}

// By rows first, then whatever else lies below the store's own prefix: late PUTs, header, epochs. Only for a store
// whose row says `removing`.
Status empty_store(Context& context, StoreId store) {
  PackId after;
  while (true) {
    CAIRN_TRY(std::vector<catalog::PackRow> page,
              context.db.read([&](catalog::Tx& tx) { return catalog::packs::list_deleting(tx, store, after, kPage); }));
    for (const catalog::PackRow& pack : page) {
      CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack.object_key));
      CAIRN_CHECK_OK(context.objects.remove(key, object_deadline(context)));
      after = pack.id;
    }
    Status removed = context.db.transact([&](catalog::Tx& tx) -> Status {
      for (const catalog::PackRow& pack : page) CAIRN_CHECK_OK(catalog::packs::remove(tx, pack.id));
      return ok();
    });
    CAIRN_CHECK_OK(removed);
    if (page.size() < static_cast<size_t>(kPage)) break;
  }
  std::string last;
  while (true) {
    CAIRN_TRY(object::ListPage page,
              context.objects.list(store_prefix(store), last, object::kListLimitMax, object_deadline(context)));
    for (const object::ListedObject& object : page.objects) {
      CAIRN_CHECK_OK(context.objects.remove(object.key, object_deadline(context)));
      last = object.key.text();
    }
    if (!page.more) return ok();
  }
}

// True when the volume is gone.
Result<bool> purge_volume(Context& context, const catalog::VolumeRow& volume) {
  CAIRN_TRY(bool removing, end_roots(context, volume));
  if (removing) {
    Status emptied = empty_store(context, volume.store);
    if (!emptied) {
      std::string why = emptied.error().to_string();
      if (!catalog::is_catalog_text(why)) why = "the object store failed";
      CAIRN_CHECK_OK(
          context.db.transact([&](catalog::Tx& tx) { return catalog::volumes::delete_failed(tx, volume.id, why); }));
      return false;
    }
  }
  return context.db.transact([&](catalog::Tx& tx) { return catalog::volumes::remove(tx, volume.id); });
}

// Stores whose last volume is gone, after the longest life of a URL that may still have been in use, and of the
// slowest PUT that began with it.
Status finish_stores(Context& context) {
  CAIRN_TRY(std::vector<catalog::StoreRow> stores,
            context.db.read([&](catalog::Tx& tx) -> Result<std::vector<catalog::StoreRow>> {
              CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
              return catalog::stores::list_removing(
                  tx, now - context.settings.url_time - context.settings.put_time - kClockSkew, kPage);
            }));
  for (const catalog::StoreRow& store : stores) {
    if (Status emptied = empty_store(context, store.id); !emptied) {
      log_warning("store {} was not emptied: {}", store.id.hex(), emptied.error().to_string());
      continue;
    }
    CAIRN_CHECK_OK(context.db.transact([&](catalog::Tx& tx) { return catalog::stores::remove(tx, store.id); }));
  }
  return ok();
}

}  // namespace

Status Volumes::purge(VolumeId id) {
  Status begun = context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find(tx, id));
    if (!row) return ok();
    CAIRN_TRY(Time now, context_.catalog_clock.now(tx));
    CAIRN_CHECK_OK(catalog::leases::end_all(tx, id, now, "the volume was deleted"));
    CAIRN_CHECK_OK(catalog::volumes::begin_deleting(tx, id));
    return ok();
  });
  CAIRN_CHECK_OK(begun);
  CAIRN_TRY(std::optional<catalog::VolumeRow> row,
            context_.db.read([&](catalog::Tx& tx) { return catalog::volumes::find(tx, id); }));
  if (!row) return ok();
  CAIRN_CHECK_OK(purge_volume(context_, *row));
  return ok();
}

Status Volumes::drop_unused_workspaces() {
  VolumeId after;
  while (true) {
    CAIRN_TRY(std::vector<catalog::VolumeRow> page,
              context_.db.read([&](catalog::Tx& tx) -> Result<std::vector<catalog::VolumeRow>> {
                CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
                return catalog::volumes::list_workspaces(tx, now - context_.settings.unused_workspace_time, after, kPage);
              }));
    for (const catalog::VolumeRow& workspace : page) {
      after = workspace.id;
      Status dropped = context_.db.transact([&](catalog::Tx& tx) -> Status {
        CAIRN_TRY(Instant at, instant(context_, tx));
        CAIRN_TRY(std::vector<Use> used_by, uses(tx, workspace, at));
        if (!used_by.empty()) return ok();
        // As when a volume is deleted: a lease that is being granted at this moment conflicts.
        CAIRN_CHECK_OK(catalog::volumes::next_fence(tx, workspace.id));
        CAIRN_CHECK_OK(catalog::leases::end_all(tx, workspace.id, at.now, "no run uses the workspace"));
        CAIRN_CHECK_OK(catalog::volumes::begin_deleting(tx, workspace.id));
        return ok();
      });
      CAIRN_CHECK_OK(dropped);
    }
    if (page.size() < static_cast<size_t>(kPage)) return ok();
  }
}

Result<int64_t> Volumes::purge_due() {
  CAIRN_CHECK_OK(drop_unused_workspaces());
  Status begun = context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(Time now, context_.catalog_clock.removal_now(tx));
    CAIRN_TRY(std::vector<VolumeId> due, catalog::volumes::list_purge_due(tx, now, kPage));
    for (VolumeId id : due) CAIRN_CHECK_OK(catalog::volumes::begin_deleting(tx, id));
    return ok();
  });
  CAIRN_CHECK_OK(begun);
  int64_t gone = 0;
  for (const char* state : {"deleting", "delete_failed"}) {
    CAIRN_TRY(std::vector<catalog::VolumeRow> rows, context_.db.read([&](catalog::Tx& tx) {
      return catalog::volumes::list_in_state(tx, state, VolumeId(), kPage);
    }));
    for (const catalog::VolumeRow& row : rows) {
      // One that cannot be removed now keeps no other from it.
      Result<bool> done = purge_volume(context_, row);
      if (!done) log_warning("volume {} was not removed: {}", row.id.hex(), done.error().to_string());
      if (done && *done) ++gone;
    }
  }
  CAIRN_CHECK_OK(finish_stores(context_));
  return gone;
}

}  // namespace cairn::volume
