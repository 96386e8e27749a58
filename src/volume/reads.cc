#include "volume/reads.h"

#include <algorithm>

#include "catalog/packs.h"
#include "catalog/pins.h"
#include "catalog/snapshots.h"
#include "catalog/utf8.h"
#include "catalog/volumes.h"
#include "store/paths.h"
#include "store/tree_reader.h"
#include "volume/rows.h"
#include "volume/store_access.h"

namespace cairn::volume {
namespace {

constexpr uint64_t kPageBytesMin = 64 * limits::kKiB;
constexpr uint64_t kPageBytesMax = 8 * limits::kMiB;
constexpr size_t kGrantMax = 1'000;
constexpr Duration kReadTime = seconds(60);

// What is read: its tree, and whose it is.
struct Target {
  StoreId store;
  VolumeId volume;
  std::string name;
  SnapshotInfo snapshot;
  store::RootRef root;
  Time pin_expires;
};

Error snapshot_not_found(const std::string& name, int64_t number) {
  return Error(Code::kSnapshotNotFound, "volume '" + name + "' has no snapshot " + std::to_string(number),
               "`cairn volumes snapshots " + name + "` shows those that are kept");
}

Error pin_not_found(PinId pin) {
  return Error(Code::kPinNotFound, "there is no pin " + pin.hex() + " (any more)",
               "pin the snapshot again, or read the newest one");
}

// Validates a path to read: "" is the volume itself.
Status check_path(std::string_view path) {
  return path.empty() ? ok() : store::validate_path(path);
}

Error path_not_found(const Target& target, std::string_view path) {
  return Error(Code::kPathNotFound,
               "there is no '" + store::escape_for_display(path) + "' on volume '" + target.name + "' (snapshot " +
                   std::to_string(target.snapshot.number) + ")",
               "`cairn volumes ls " + target.name + "` shows what there is");
}

Status fill(Target& target, const catalog::VolumeRow& volume, const catalog::SnapshotRow& snapshot) {
  target.store = volume.store;
  target.volume = volume.id;
  target.name = volume.name;
  target.snapshot = snapshot_info(snapshot);
  CAIRN_TRY(target.root, root_of(snapshot));
  return ok();
}

EntryInfo entry_info(const store::Entry& entry, bool implied) {
  EntryInfo info;
  info.path = entry.path;
  info.kind = entry.kind == store::EntryKind::kDirectory ? EntryKind::kDirectory
              : entry.kind == store::EntryKind::kSymlink ? EntryKind::kSymlink
                                                         : EntryKind::kFile;
  info.mode = entry.mode;
  info.mtime_ns = entry.mtime_ns;
  info.size_bytes = static_cast<int64_t>(entry.size);
  info.symlink_target = entry.target;
  info.implied = implied;
  return info;
}

}  // namespace

struct Reads::Impl {
  explicit Impl(Context& the_context) : context(the_context), sources(the_context) {}

  // Through a pin, which is renewed. A pinned snapshot can be read as long as its volume was not purged.
  Result<Target> open_pin(PinId pin) {
    return context.db.transact([&](catalog::Tx& tx) { return open_pin(tx, pin); });
  }

  Result<Target> open_pin(catalog::Tx& tx, PinId pin) {
    CAIRN_TRY(std::optional<catalog::PinRow> row, catalog::pins::find(tx, pin));
    if (!row) return pin_not_found(pin);
    CAIRN_TRY(std::optional<catalog::VolumeRow> volume, catalog::volumes::find(tx, row->volume));
    if (!volume) return pin_not_found(pin);
    CAIRN_TRY(std::optional<catalog::SnapshotRow> snapshot, catalog::snapshots::find(tx, row->volume, row->number));
    if (!snapshot) return snapshot_not_found(volume->name, row->number);
    CAIRN_TRY(Instant at, instant(context, tx));
    catalog::LeaseTime expires = at.lease_now + context.settings.pin_time;
    CAIRN_TRY(bool renewed, catalog::pins::renew(tx, pin, expires));
    if (!renewed) return pin_not_found(pin);
    Target target;
    CAIRN_CHECK_OK(fill(target, *volume, *snapshot));
    target.pin_expires = catalog::CatalogClock::wall_estimate(at.now, at.lease_now, expires);
    return target;
  }

  Result<Target> open(VolumeId volume, const ReadFrom& from) {
    if (from.pin) {
      CAIRN_TRY(Target target, open_pin(*from.pin));
      if (target.volume != volume) return pin_not_found(*from.pin);
      return target;
    }
    return context.db.read([&](catalog::Tx& tx) -> Result<Target> {
      CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, volume));
      int64_t number = from.snapshot.value_or(row.head_number);
      CAIRN_TRY(std::optional<catalog::SnapshotRow> snapshot, catalog::snapshots::find(tx, volume, number));
      if (!snapshot) return snapshot_not_found(row.name, number);
      Target target;
      CAIRN_CHECK_OK(fill(target, row, *snapshot));
      return target;
    });
  }

  // Readers that were killed leave their pins: at the limit the one idle for longest goes, if it is idle for so long that any
  // URL it asked for is dead. Who comes back to it pins anew (S6).
  Status make_room(catalog::Tx& tx, VolumeId volume) {
    CAIRN_TRY(int64_t readers, catalog::pins::count_readers(tx, volume));
    if (readers < static_cast<int64_t>(limits::kPinsPerVolumeMax)) return ok();
    CAIRN_TRY(catalog::LeaseTime lease_now, context.catalog_clock.lease_now(tx));
    Duration idle = 2 * context.settings.url_time;
    CAIRN_TRY(bool room, catalog::pins::remove_idlest_reader(tx, volume, lease_now + context.settings.pin_time - idle));
    if (room) return ok();
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, volume));
    return Error(Code::kLimitExceeded,
                 "volume '" + row.name + "' has " + std::to_string(limits::kPinsPerVolumeMax) + " readers, which is the most",
                 "wait until some of them end");
  }

  Deadline deadline() { return Deadline::after(kReadTime, context.clock); }

  Context& context;
  NodeSources sources;
};

Reads::Reads(Context& context) : impl_(std::make_unique<Impl>(context)) {}
Reads::~Reads() = default;

Result<Pinned> Reads::pin(VolumeId volume, std::optional<int64_t> snapshot, std::string_view purpose,
                          const AlsoInTx<Pinned>& also) {
  return impl_->context.db.transact([&](catalog::Tx& tx) -> Result<Pinned> {
    CAIRN_CHECK_OK(impl_->make_room(tx, volume));
    CAIRN_TRY(Pinned pinned, pin(tx, volume, snapshot, purpose));
    if (also) CAIRN_CHECK_OK(also(tx, pinned));
    return pinned;
  });
}

Result<Pinned> Reads::pin(catalog::Tx& tx, VolumeId volume, std::optional<int64_t> snapshot, std::string_view purpose) {
  if (purpose.size() > 200 || !catalog::is_catalog_text(purpose)) {
    return Error(Code::kRequestInvalid, "a pin's purpose is at most 200 bytes of UTF-8 text");
  }
  Context& context = impl_->context;
  CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, volume));
  int64_t number = snapshot.value_or(row.head_number);
  CAIRN_TRY(std::optional<catalog::SnapshotRow> found, catalog::snapshots::find(tx, volume, number));
  // The guard makes a removal of the row at this moment conflict with the pin.
  CAIRN_TRY(bool kept, catalog::snapshots::guard(tx, volume, number));
  if (!found || !kept) return snapshot_not_found(row.name, number);
  CAIRN_TRY(Instant at, instant(context, tx));
  catalog::PinRow pin_row;
  pin_row.id = PinId::random(context.random);
  pin_row.volume = volume;
  pin_row.number = number;
  pin_row.purpose = purpose;
  pin_row.created = at.now;
  pin_row.expires_lease = at.lease_now + context.settings.pin_time;
  CAIRN_CHECK_OK(catalog::pins::insert(tx, pin_row));
  Pinned pinned;
  pinned.pin = pin_row.id;
  pinned.snapshot = snapshot_info(*found);
  pinned.expires_at = catalog::CatalogClock::wall_estimate(at.now, at.lease_now, pin_row.expires_lease);
  return pinned;
}

Result<Pinned> Reads::renew(PinId pin) {
  CAIRN_TRY(Target target, impl_->open_pin(pin));
  return Pinned{pin, target.snapshot, target.pin_expires};
}

Result<Pinned> Reads::renew(catalog::Tx& tx, PinId pin) {
  CAIRN_TRY(Target target, impl_->open_pin(tx, pin));
  return Pinned{pin, target.snapshot, target.pin_expires};
}

Status Reads::unpin(PinId pin) {
  return impl_->context.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_CHECK_OK(catalog::pins::remove(tx, pin));
    return ok();
  });
}

Result<ListingPage> Reads::listing(PinId pin, std::string_view path, std::string_view after, uint64_t chunk_after,
                                   uint64_t max_bytes) {
  CAIRN_CHECK_OK(check_path(path));
  CAIRN_CHECK_OK(check_path(after));
  if (chunk_after > 0 && after.empty())
    return Error(Code::kRequestInvalid, "chunks are skipped within a file: name it");
  CAIRN_TRY(Target target, impl_->open_pin(pin));
  std::shared_ptr<store::NodeSource> source = impl_->sources.get(target.store);
  std::optional<store::ListCursor> cursor;
  if (!after.empty()) cursor = store::ListCursor{std::string(after), chunk_after};
  store::BytesSink sink;
  CAIRN_TRY(store::ListingPage page,
            store::write_listing(*source, target.root, path, cursor,
                                 std::clamp(max_bytes, kPageBytesMin, kPageBytesMax), sink, impl_->deadline()));
  ListingPage result;
  result.changeset = sink.take();
  result.more = page.next.has_value();
  if (page.next) {
    result.next_after = page.next->path;
    result.next_chunk = page.next->chunk;
  }
  return result;
}

Result<NamesPage> Reads::ls(VolumeId volume, const ReadFrom& from, std::string_view path, std::string_view after,
                            int64_t limit) {
  CAIRN_CHECK_OK(check_path(path));
  CAIRN_CHECK_OK(check_path(after));
  CAIRN_TRY(Target target, impl_->open(volume, from));
  std::shared_ptr<store::NodeSource> source = impl_->sources.get(target.store);
  store::TreeReader tree(*source, target.root, impl_->deadline());
  std::string_view after_name = after.empty() ? after : store::base_name(after);
  Result<store::LsPage> page = tree.ls(path, after_name, static_cast<size_t>(std::clamp<int64_t>(limit, 1, 10'000)));
  if (!page && page.error().code() == Code::kPathNotFound) return path_not_found(target, path);
  if (!page) return std::move(page).error();
  NamesPage result;
  result.snapshot = target.snapshot.number;
  result.more = page->more;
  for (const store::LsName& name : page->names) result.entries.push_back(entry_info(name.entry, name.implied));
  if (!result.entries.empty()) result.next_after = result.entries.back().path;
  return result;
}

Result<Counts> Reads::du(VolumeId volume, const ReadFrom& from, std::string_view path) {
  CAIRN_CHECK_OK(check_path(path));
  CAIRN_TRY(Target target, impl_->open(volume, from));
  std::shared_ptr<store::NodeSource> source = impl_->sources.get(target.store);
  store::TreeReader tree(*source, target.root, impl_->deadline());
  CAIRN_TRY(store::Counts counts, tree.counts(path));
  if (counts.entries == 0 && !path.empty()) return path_not_found(target, path);
  Counts result;
  result.entries = static_cast<int64_t>(std::min<uint64_t>(counts.entries, INT64_MAX));
  result.files = static_cast<int64_t>(std::min<uint64_t>(counts.files, INT64_MAX));
  result.bytes = static_cast<int64_t>(std::min<uint64_t>(counts.bytes, INT64_MAX));
  result.snapshot = target.snapshot.number;
  return result;
}

Result<EntryInfo> Reads::stat(VolumeId volume, const ReadFrom& from, std::string_view path) {
  CAIRN_CHECK_OK(check_path(path));
  CAIRN_TRY(Target target, impl_->open(volume, from));
  std::shared_ptr<store::NodeSource> source = impl_->sources.get(target.store);
  store::TreeReader tree(*source, target.root, impl_->deadline());
  CAIRN_TRY(std::optional<store::PathStat> found, tree.stat(path));
  if (!found) return path_not_found(target, path);
  return entry_info(found->entry, found->implied);
}

Result<std::vector<PackGrant>> Reads::grant(PinId pin, const std::vector<PackId>& packs) {
  if (packs.size() > kGrantMax) return Error(Code::kRequestTooLarge, "at most 1000 packs are granted in one request");
  CAIRN_TRY(Target target, impl_->open_pin(pin));
  return impl_->context.db.read([&](catalog::Tx& tx) -> Result<std::vector<PackGrant>> {
    std::vector<PackGrant> grants;
    for (PackId id : packs) {
      CAIRN_TRY(std::optional<catalog::PackRow> row, catalog::packs::find_of_volume(tx, target.volume, id));
      if (!row) {
        return Error(Code::kObjectNotFound, "no snapshot of volume '" + target.name + "' names pack " + id.hex(),
                     "list the snapshot again");
      }
      grants.push_back(PackGrant{id, row->object_key, row->size_bytes});
    }
    return grants;
  });
}

}  // namespace cairn::volume
