#include "volume/epochs.h"

#include <algorithm>

#include "base/log.h"
#include "catalog/leases.h"
#include "catalog/stores.h"
#include "catalog/volumes.h"
#include "object/object_store.h"
#include "store/store_header.h"

namespace cairn::volume {
namespace {

constexpr int64_t kPage = 500;
constexpr uint64_t kEpochObjectBytesMax = 4'096;

template <class Use>
Status for_live_stores(Context& context, Use use) {
  StoreId after;
  while (true) {
    CAIRN_TRY(std::vector<catalog::StoreRow> page,
              context.db.read([&](catalog::Tx& tx) { return catalog::stores::list(tx, after, kPage); }));
    for (const catalog::StoreRow& store : page) {
      after = store.id;
      if (store.state == "live") CAIRN_CHECK_OK(use(store));
    }
    if (page.size() < static_cast<size_t>(kPage)) return ok();
  }
}

}  // namespace

Result<int64_t> Epochs::epoch_of_objects(StoreId store, const Deadline& deadline) {
  int64_t greatest = 0;
  std::string after;
  while (true) {
    CAIRN_TRY(object::ListPage page,
              context_.objects.list(store::epoch_prefix(store), after, object::kListLimitMax, deadline));
    for (const object::ListedObject& object : page.objects) {
      after = object.key.text();
      CAIRN_TRY(codec::Bytes bytes, context_.objects.get_all(object.key, kEpochObjectBytesMax, deadline));
      CAIRN_TRY(uint64_t epoch, store::decode_epoch(store, bytes));
      greatest = std::max(greatest, static_cast<int64_t>(std::min<uint64_t>(epoch, INT64_MAX)));
    }
    if (!page.more) return greatest;
  }
}

Status Epochs::raise(StoreId store, int64_t row_epoch, int64_t object_epoch, const Deadline& deadline) {
  int64_t to = std::max(row_epoch, object_epoch) + 1;
  auto number = static_cast<uint64_t>(to);
  Status put =
      context_.objects.put_if_absent(store::epoch_key(store, number), store::encode_epoch(store, number), deadline);
  if (!put && put.error().code() != Code::kObjectExists) return put;
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(bool raised, catalog::stores::raise_epoch(tx, store, row_epoch, to));
    if (!raised) return Error(Code::kBusy, "another server raises the epoch of store " + store.hex(), "start again");
    CAIRN_TRY(Time now, context_.catalog_clock.now(tx));
    CAIRN_CHECK_OK(catalog::volumes::raise_counters(tx, store, kCounterGap));
    CAIRN_CHECK_OK(catalog::leases::end_of_store(tx, store, now, "the catalog was restored"));
    return ok();
  });
}

Result<std::vector<StoreId>> Epochs::check_all(Deadline deadline) {
  std::vector<StoreId> raised;
  CAIRN_CHECK_OK(for_live_stores(context_, [&](const catalog::StoreRow& store) -> Status {
    CAIRN_TRY(int64_t objects, epoch_of_objects(store.id, deadline));
    if (objects == store.epoch) return ok();
    log_warning("store {} has epoch {}, the catalog says {}: raising it; its garbage stays until it is reconciled",
                store.id.hex(), objects, store.epoch);
    Status done = raise(store.id, store.epoch, objects, deadline);
    if (!done) return done;
    raised.push_back(store.id);
    return ok();
  }));
  return raised;
}

Result<int64_t> Epochs::raise_all(Deadline deadline) {
  int64_t count = 0;
  Status done = for_live_stores(context_, [&](const catalog::StoreRow& store) -> Status {
    CAIRN_TRY(int64_t objects, epoch_of_objects(store.id, deadline));
    ++count;
    return raise(store.id, store.epoch, objects, deadline);
  });
  if (!done) return std::move(done).error();
  return count;
}

Status Epochs::allow_collection(StoreId store) {
  return context_.db.transact([&](catalog::Tx& tx) { return catalog::stores::set_gc_off(tx, store, false); });
}

}  // namespace cairn::volume
