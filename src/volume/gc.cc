#include "volume/gc.h"

#include <algorithm>

#include "base/log.h"
#include "catalog/packs.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/utf8.h"
#include "object/object_store.h"
#include "store/mark.h"
#include "volume/rows.h"
#include "volume/store_access.h"

namespace cairn::volume {
namespace {

constexpr int64_t kPage = 1'000;

}  // namespace

struct GarbageCollector::Impl {
  explicit Impl(Context& the_context) : context(the_context) {}

  // Calls `use` with each page of pack rows that `mark` says are garbage.
  template <class Use>
  Status for_garbage(const Mark& mark, Use use) {
    PackId after;
    while (true) {
      CAIRN_TRY(std::vector<catalog::PackRow> page,
                context.db.read([&](catalog::Tx& tx) -> Result<std::vector<catalog::PackRow>> {
                  CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
                  return catalog::packs::list_condemnable(tx, mark.store, mark.ticket, now, after, kPage);
                }));
      bool last = page.size() < static_cast<size_t>(kPage);
      if (!page.empty()) after = page.back().id;
      std::erase_if(page, [&](const catalog::PackRow& pack) { return mark.reached.contains(pack.id); });
      if (!page.empty()) CAIRN_CHECK_OK(use(page));
      if (last) return ok();
    }
  }

  Status delete_packs(const std::vector<catalog::PackRow>& packs, GcReport& report, const Deadline& deadline);

  Context& context;
};

GarbageCollector::GarbageCollector(Context& context) : impl_(std::make_unique<Impl>(context)) {}
GarbageCollector::~GarbageCollector() = default;

Result<Mark> GarbageCollector::mark(StoreId store, Deadline deadline) {
  Mark mark;
  mark.store = store;
  // Ticket and roots in one transaction: whatever root comes later touches its packs with a higher ticket.
  std::vector<store::RootRef> roots;
  Status read = impl_->context.db.transact(
      [&](catalog::Tx& tx) -> Status {
        roots.clear();
        mark.reached.clear();
        CAIRN_TRY(mark.ticket, catalog::stores::next_ticket(tx, store));
        VolumeId volume;
        int64_t number = -1;
        while (true) {
          CAIRN_TRY(std::vector<catalog::SnapshotRow> page,
                    catalog::snapshots::list_of_store(tx, store, volume, number, kPage));
          for (const catalog::SnapshotRow& row : page) {
            CAIRN_TRY(store::RootRef root, root_of(row));
            roots.push_back(root);
            if (row.record_pack) mark.reached.insert(*row.record_pack);
            volume = row.volume;
            number = row.number;
          }
          if (page.size() < static_cast<size_t>(kPage)) return ok();
        }
      },
      deadline);
  CAIRN_CHECK_OK(read);
  mark.roots = static_cast<int64_t>(roots.size());
  // No cache: a mark reads most nodes once, and must see the store as it is.
  store::ObjectPackReader reader(impl_->context.objects, store);
  store::CachedNodeSource source(reader, 0);
  store::Marker marker(source);
  for (const store::RootRef& root : roots) CAIRN_CHECK_OK(marker.add(root, deadline));
  mark.reached.insert(marker.packs().begin(), marker.packs().end());
  return mark;
}

Result<GcReport> GarbageCollector::preview(const Mark& mark) {
  GcReport report;
  report.roots = mark.roots;
  report.packs_reached = static_cast<int64_t>(mark.reached.size());
  CAIRN_CHECK_OK(impl_->for_garbage(mark, [&](const std::vector<catalog::PackRow>& page) -> Status {
    for (const catalog::PackRow& pack : page) {
      ++report.condemned;
      report.deleted_bytes += pack.size_bytes;
    }
    return ok();
  }));
  return report;
}

Result<int64_t> GarbageCollector::condemn(const Mark& mark) {
  int64_t condemned = 0;
  Status done = impl_->for_garbage(mark, [&](const std::vector<catalog::PackRow>& page) -> Status {
    std::vector<PackId> ids;
    for (const catalog::PackRow& pack : page) ids.push_back(pack.id);
    CAIRN_TRY(int64_t count, impl_->context.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
      CAIRN_TRY(Time now, impl_->context.catalog_clock.removal_now(tx));
      return catalog::packs::condemn(tx, mark.store, ids, mark.ticket, now);
    }));
    condemned += count;
    return ok();
  });
  CAIRN_CHECK_OK(done);
  return condemned;
}

Status GarbageCollector::Impl::delete_packs(const std::vector<catalog::PackRow>& packs, GcReport& report,
                                            const Deadline& deadline) {
  for (const catalog::PackRow& pack : packs) {
    CAIRN_CHECK_OK(deadline.check());
    CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack.object_key));
    Status removed = context.objects.remove(key, deadline);
    Status written = context.db.transact([&](catalog::Tx& tx) -> Status {
      if (removed) {
        CAIRN_CHECK_OK(catalog::packs::remove(tx, pack.id));
        return ok();
      }
      std::string why = removed.error().to_string();
      return catalog::packs::delete_failed(tx, pack.id,
                                           catalog::is_catalog_text(why) ? why : "the object store failed");
    });
    CAIRN_CHECK_OK(written);
    if (!removed) {
      ++report.failed;
      log_warning("pack {} was not deleted: {}", pack.id.hex(), removed.error().to_string());
      continue;
    }
    ++report.deleted;
    report.deleted_bytes += pack.size_bytes;
  }
  return ok();
}

Result<GcReport> GarbageCollector::sweep(StoreId store, Deadline deadline, int64_t max_packs) {
  GcReport report;
  Context& context = impl_->context;
  CAIRN_CHECK_OK(context.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
    CAIRN_TRY(Time now, context.catalog_clock.removal_now(tx));
    return catalog::packs::begin_deleting(tx, store, now - context.settings.gc_grace, max_packs);
  }));
  PackId after;
  while (report.deleted + report.failed < max_packs) {
    int64_t limit = std::min(kPage, max_packs - report.deleted - report.failed);
    CAIRN_TRY(std::vector<catalog::PackRow> page,
              context.db.read([&](catalog::Tx& tx) { return catalog::packs::list_deleting(tx, store, after, limit); }));
    if (page.empty()) break;
    after = page.back().id;
    CAIRN_CHECK_OK(impl_->delete_packs(page, report, deadline));
  }
  return report;
}

Result<GcReport> GarbageCollector::run(StoreId store, Deadline deadline) {
  CAIRN_TRY(std::optional<catalog::StoreRow> row,
            impl_->context.db.read([&](catalog::Tx& tx) { return catalog::stores::find(tx, store); }));
  if (!row || row->state != "live" || row->gc_off) return GcReport{};
  CAIRN_TRY(Mark marked, mark(store, deadline));
  CAIRN_TRY(int64_t condemned, condemn(marked));
  CAIRN_TRY(GcReport report, sweep(store, deadline));
  report.roots = marked.roots;
  report.packs_reached = static_cast<int64_t>(marked.reached.size());
  report.condemned = condemned;
  return report;
}

Result<GcReport> GarbageCollector::run_all(Deadline deadline) {
  GcReport total;
  StoreId after;
  while (true) {
    CAIRN_TRY(std::vector<catalog::StoreRow> page,
              impl_->context.db.read([&](catalog::Tx& tx) { return catalog::stores::list(tx, after, kPage); }));
    for (const catalog::StoreRow& store : page) {
      after = store.id;
      CAIRN_CHECK_OK(deadline.check());
      // One damaged or busy store does not keep the others from being collected.
      Result<GcReport> report = run(store.id, deadline);
      if (!report) {
        log_warning("garbage of store {} was not collected: {}", store.id.hex(), report.error().to_string());
        continue;
      }
      total.roots += report->roots;
      total.packs_reached += report->packs_reached;
      total.condemned += report->condemned;
      total.deleted += report->deleted;
      total.deleted_bytes += report->deleted_bytes;
      total.failed += report->failed;
    }
    if (page.size() < static_cast<size_t>(kPage)) return total;
  }
}

}  // namespace cairn::volume
