#include "volume/volumes.h"

#include <algorithm>

#include "base/quantity.h"
#include "catalog/leases.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "catalog/utf8.h"
#include "catalog/volumes.h"
#include "object/object_store.h"
#include "store/paths.h"
#include "store/store_header.h"
#include "store/tree_reader.h"
#include "volume/names.h"
#include "volume/rows.h"
#include "volume/store_access.h"

namespace cairn::volume {
namespace {

constexpr int64_t kSideShown = 1'000;
constexpr int64_t kCheckpointsCountedMax = 10'000;
constexpr size_t kCheckpointPathsShown = 100;

Error size_over_maximum(int64_t size_bytes, int64_t maximum) {
  return Error(Code::kSizeOverMaximum,
               "a size of " + format_size(size_bytes) + " is over the maximum of " + format_size(maximum),
               "ask for at most " + format_size(maximum));
}

Status check_size(const Settings& settings, int64_t size_bytes) {
  if (size_bytes <= 0) return Error(Code::kSizeInvalid, "a volume's size is at least one byte");
  if (size_bytes > settings.maximum_size_bytes) return size_over_maximum(size_bytes, settings.maximum_size_bytes);
  return ok();
}

Result<VolumeInfo> answer_existing(const catalog::VolumeRow& row, std::optional<int64_t> size_bytes) {
  if (size_bytes && *size_bytes != row.size_bytes) {
    return Error(Code::kVolumeExistsWithOtherSize,
                 "volume '" + row.name + "' exists with a size of " + format_size(row.size_bytes) + ", not " +
                     format_size(*size_bytes),
                 *size_bytes > row.size_bytes
                     ? "`cairn volumes expand " + row.name + " --size " + format_size(*size_bytes) + "` grows it"
                     : "a volume never shrinks; leave the size out to use it as it is");
  }
  return volume_info(row);
}

// Header and epoch of a new store; nothing names them until the rows are there.
Status write_store_objects(Context& context, StoreId store, Time now) {
  Deadline deadline = Deadline::after(minutes(1), context.clock);
  store::StoreHeader header = store::new_store_header(store, now, 1);
  CAIRN_CHECK_OK(
      context.objects.put_if_absent(store::store_header_key(store), store::encode_store_header(header), deadline));
  return context.objects.put_if_absent(store::epoch_key(store, 1), store::encode_epoch(store, 1), deadline);
}

Status insert_volume(catalog::Tx& tx, const catalog::VolumeRow& row, UserId author, bool& inserted) {
  catalog::StoreRow store;
  store.id = row.store;
  store.owner = row.owner;
  store.created = row.created;
  CAIRN_CHECK_OK(catalog::stores::insert(tx, store));
  CAIRN_TRY(inserted, catalog::volumes::insert(tx, row));
  // The name was taken meanwhile: an error, so that the store's row goes too.
  if (!inserted) return Error(Code::kVolumeExists, "there is a volume '" + row.name + "' by now");
  catalog::SnapshotRow empty;
  empty.volume = row.id;
  store::RootRef root = store::empty_root();
  empty.root_digest = root.digest.hex();
  empty.root_place = root_text(root);
  empty.kind = "create";
  empty.author = author;
  empty.author_name = row.created_by;
  empty.created = row.created;
  CAIRN_CHECK_OK(catalog::snapshots::insert(tx, empty));
  return ok();
}

Result<std::vector<Use>> uses_of(catalog::Tx& tx, const catalog::VolumeRow& volume, const Instant& at) {
  std::vector<Use> uses;
  CAIRN_TRY(std::vector<catalog::LeaseRow> leases, catalog::leases::list_current(tx, volume.id));
  for (const catalog::LeaseRow& lease : leases) {
    if (lease.expires_lease <= at.lease_now) continue;
    uses.push_back(
        Use{lease.kind + " " + lease.holder + " (until " + to_rfc3339(lease_summary(lease, at).expires_at) + ")",
            ending_hint(lease.kind, volume.name, lease.holder)});
  }
  CAIRN_TRY(std::vector<catalog::UploadRow> open, catalog::uploads::list_open(tx, volume.id, 100));
  for (const catalog::UploadRow& upload : open) {
    CAIRN_TRY(std::optional<catalog::LeaseRow> lease, catalog::leases::find(tx, upload.lease));
    bool holds = lease && lease->state == "current" && lease->expires_lease > at.lease_now;
    if (!holds) {
      uses.push_back(Use{upload.kind + " " + upload.holder + " (may have changes that are not published yet)",
                         "start its node again: it saves them; if it never comes back, `cairn volumes break-lease " +
                             volume.name + "` gives them up"});
    }
  }
  return uses;
}

Status add_writer(Context& context, catalog::Tx& tx, VolumeInfo& info) {
  CAIRN_TRY(std::vector<catalog::LeaseRow> current, catalog::leases::list_current(tx, info.id));
  if (current.empty()) return ok();
  CAIRN_TRY(Instant at, instant(context, tx));
  info.writer = lease_summary(current.front(), at);
  return ok();
}

}  // namespace

std::string_view state_name(VolumeState state) {
  switch (state) {
    case VolumeState::kCreated: return "CREATED";
    case VolumeState::kTrashed: return "TRASHED";
    case VolumeState::kDeleting: return "DELETING";
    case VolumeState::kDeleteFailed: return "DELETE FAILED";
  }
  return "CREATED";
}

Result<VolumeInfo> Volumes::create(const Actor& actor, std::string_view name, std::optional<int64_t> size_bytes,
                                   std::optional<HistoryPolicy> history, bool* created,
                                   const AlsoInTx<VolumeInfo>& also) {
  if (created != nullptr) *created = false;
  CAIRN_CHECK_OK(check_volume_name(name));
  if (size_bytes) CAIRN_CHECK_OK(check_size(context_.settings, *size_bytes));
  auto existing = [&](catalog::Tx& tx) -> Result<std::optional<VolumeInfo>> {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find_by_name(tx, actor.user, std::string(name)));
    if (!row) return std::optional<VolumeInfo>();
    CAIRN_TRY(VolumeInfo info, answer_existing(*row, size_bytes));
    CAIRN_CHECK_OK(add_writer(context_, tx, info));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return std::optional<VolumeInfo>(std::move(info));
  };
  CAIRN_TRY(std::optional<VolumeInfo> found, context_.db.transact(existing));
  if (found) return *std::move(found);

  catalog::VolumeRow row;
  row.id = VolumeId::random(context_.random);
  row.owner = actor.user;
  row.store = StoreId::random(context_.random);
  row.name = name;
  row.size_bytes = size_bytes.value_or(context_.settings.default_size_bytes);
  row.history = history.value_or(HistoryPolicy{}).to_string();
  row.created_by = actor.name;
  CAIRN_TRY(row.created, context_.db.read([&](catalog::Tx& tx) { return context_.catalog_clock.now(tx); }));
  CAIRN_CHECK_OK(write_store_objects(context_, row.store, row.created));
  bool inserted = true;
  Result<VolumeInfo> made = context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    inserted = true;
    CAIRN_CHECK_OK(insert_volume(tx, row, actor.user, inserted));
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
  if (made) {
    if (created != nullptr) *created = true;
    return made;
  }
  if (inserted) return made;
  // Somebody was faster: his volume is the answer, our store's two objects are named by nothing.
  Deadline deadline = Deadline::after(seconds(10), context_.clock);
  (void)context_.objects.remove(store::epoch_key(row.store, 1), deadline);
  (void)context_.objects.remove(store::store_header_key(row.store), deadline);
  CAIRN_TRY(found, context_.db.transact(existing));
  if (!found) return made;
  return *std::move(found);
}

Result<VolumeInfo> Volumes::create_workspace(const Actor& actor, int64_t size_bytes, const AlsoInTx<VolumeInfo>& also) {
  CAIRN_CHECK_OK(check_size(context_.settings, size_bytes));
  catalog::VolumeRow row;
  row.id = VolumeId::random(context_.random);
  row.owner = actor.user;
  row.store = StoreId::random(context_.random);
  row.name = "~" + row.id.hex();
  row.kind = "workspace";
  row.size_bytes = size_bytes;
  row.history = "off";
  row.created_by = actor.name;
  CAIRN_TRY(row.created, context_.db.read([&](catalog::Tx& tx) { return context_.catalog_clock.now(tx); }));
  CAIRN_CHECK_OK(write_store_objects(context_, row.store, row.created));
  return context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    bool inserted = true;
    CAIRN_CHECK_OK(insert_volume(tx, row, actor.user, inserted));
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
}

Result<VolumeInfo> Volumes::find(UserId owner, std::string_view name) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, owner, name));
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    CAIRN_CHECK_OK(add_writer(context_, tx, info));
    return info;
  });
}

Result<VolumeInfo> Volumes::find(VolumeId id) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find(tx, id));
    if (!row) return Error(Code::kVolumeNotFound, "there is no volume with id " + id.hex());
    CAIRN_TRY(VolumeInfo info, volume_info(*row));
    CAIRN_CHECK_OK(add_writer(context_, tx, info));
    return info;
  });
}

Result<VolumeInfo> Volumes::find_trashed(UserId owner, std::string_view name) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find_trashed(tx, owner, std::string(name)));
    if (!row) return volume_not_found(name);
    return volume_info(*row);
  });
}

Result<VolumeInfo> Volumes::info(UserId owner, std::string_view name) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, owner, name));
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    CAIRN_CHECK_OK(add_writer(context_, tx, info));
    CAIRN_TRY(std::vector<catalog::SnapshotRow> side, catalog::snapshots::list_side(tx, row.id, kSideShown));
    for (const catalog::SnapshotRow& snapshot : side) info.side_snapshots.push_back(snapshot_info(snapshot));
    CAIRN_TRY(info.stored_bytes, catalog::stores::stored_bytes(tx, row.store));
    return info;
  });
}

Result<std::vector<VolumeInfo>> Volumes::list(UserId owner, std::string_view after_name, int64_t limit) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<std::vector<VolumeInfo>> {
    // All volumes of one name (a live one and those in the trash) stand on one page.
    VolumeId last = *VolumeId::from_hex("ffffffffffffffffffffffffffffffff");
    CAIRN_TRY(std::vector<catalog::VolumeRow> rows,
              catalog::volumes::list(tx, owner, std::string(after_name), last, std::clamp<int64_t>(limit, 1, 1'000)));
    std::vector<VolumeInfo> volumes;
    for (const catalog::VolumeRow& row : rows) {
      CAIRN_TRY(VolumeInfo info, volume_info(row));
      CAIRN_CHECK_OK(add_writer(context_, tx, info));
      volumes.push_back(std::move(info));
    }
    return volumes;
  });
}

Result<VolumeInfo> Volumes::expand(UserId owner, std::string_view name, int64_t size_bytes,
                                   const AlsoInTx<VolumeInfo>& also) {
  CAIRN_CHECK_OK(check_size(context_.settings, size_bytes));
  return context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, owner, name));
    CAIRN_TRY(bool grown, catalog::volumes::grow(tx, row.id, size_bytes));
    if (!grown) {
      return Error(Code::kOnlyGrow,
                   "volume '" + row.name + "' has a size of " + format_size(row.size_bytes) + "; " +
                       format_size(size_bytes) + " is less, and a volume never shrinks",
                   "ask for more than " + format_size(row.size_bytes));
    }
    row.size_bytes = size_bytes;
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
}

Result<VolumeInfo> Volumes::set_history(UserId owner, std::string_view name, HistoryPolicy history,
                                        const AlsoInTx<VolumeInfo>& also) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, owner, name));
    CAIRN_TRY(bool set, catalog::volumes::set_history(tx, row.id, history.to_string()));
    if (!set) return volume_not_found(name);
    row.history = history.to_string();
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
}

Result<DeletePreview> Volumes::delete_preview(UserId owner, std::string_view name) {
  catalog::VolumeRow row;
  CAIRN_TRY(catalog::SnapshotRow head, context_.db.read([&](catalog::Tx& tx) -> Result<catalog::SnapshotRow> {
    CAIRN_TRY(row, created_volume(tx, owner, name));
    CAIRN_TRY(std::optional<catalog::SnapshotRow> found, catalog::snapshots::find(tx, row.id, row.head_number));
    if (!found) return Error(Code::kSnapshotNotFound, "volume '" + row.name + "' has no head snapshot");
    return *std::move(found);
  }));
  DeletePreview preview;
  preview.files = head.files;
  preview.bytes = head.bytes;
  CAIRN_TRY(store::RootRef root, root_of(head));
  NodeSources sources(context_);
  std::shared_ptr<store::NodeSource> source = sources.get(row.store);
  store::TreeReader tree(*source, root, Deadline::after(seconds(30), context_.clock));
  CAIRN_TRY(std::optional<store::PathStat> runs, tree.stat("runs"));
  if (!runs) return preview;
  std::string after_run;
  while (preview.checkpoints < kCheckpointsCountedMax) {
    CAIRN_TRY(store::LsPage page, tree.ls("runs", after_run, 1'000));
    for (const store::LsName& run : page.names) {
      after_run = run.name;
      std::string folder = store::join_path(run.entry.path, "checkpoints");
      CAIRN_TRY(std::optional<store::PathStat> checkpoints, tree.stat(folder));
      if (!checkpoints || checkpoints->entry.kind != store::EntryKind::kDirectory) continue;
      CAIRN_TRY(store::LsPage steps, tree.ls(folder, "", 10'000));
      for (const store::LsName& step : steps.names) {
        if (!step.name.starts_with("step_") || step.entry.kind != store::EntryKind::kDirectory) continue;
        if (preview.checkpoints++ < static_cast<int64_t>(kCheckpointPathsShown)) {
          preview.checkpoint_paths.push_back(step.entry.path);
        }
      }
    }
    if (!page.more) break;
  }
  return preview;
}

Result<std::vector<Use>> Volumes::uses(catalog::Tx& tx, const catalog::VolumeRow& volume, const Instant& at) {
  CAIRN_TRY(std::vector<Use> uses, uses_of(tx, volume, at));
  for (const UsageProbe& probe : probes_) {
    CAIRN_TRY(std::vector<Use> more, probe(tx, volume.id));
    uses.insert(uses.end(), more.begin(), more.end());
  }
  return uses;
}

Result<VolumeInfo> Volumes::remove(UserId owner, std::string_view name, bool purge, const AlsoInTx<VolumeInfo>& also) {
  return context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(Instant at, instant(context_, tx));
    CAIRN_TRY(catalog::VolumeRow row, created_volume(tx, owner, name));
    // Taking a fence makes a lease that is being granted at this moment conflict with the deletion.
    CAIRN_CHECK_OK(catalog::volumes::next_fence(tx, row.id));
    CAIRN_TRY(std::vector<Use> uses, uses(tx, row, at));
    if (!uses.empty()) {
      std::string message = "volume '" + row.name + "' is in use by " + uses.front().what;
      if (uses.size() > 1) message += " and " + std::to_string(uses.size() - 1) + " more";
      return Error(Code::kVolumeInUse, message, uses.front().hint).with_holder(uses.front().what);
    }
    CAIRN_CHECK_OK(catalog::leases::end_all(tx, row.id, at.now, "the volume was deleted"));
    CAIRN_CHECK_OK(
        catalog::uploads::lapse_fenced(tx, row.id, at.now, at.now + context_.settings.unfinished_upload_time));
    Time purge_at = at.now + context_.settings.trash_time;
    CAIRN_TRY(bool trashed, catalog::volumes::trash(tx, row.id, at.now, purge_at));
    if (!trashed) return volume_not_found(name);
    if (purge) CAIRN_CHECK_OK(catalog::volumes::begin_deleting(tx, row.id));
    row.state = purge ? "deleting" : "trashed";
    row.trashed = at.now;
    row.purge_at = purge ? at.now : purge_at;
    CAIRN_TRY(VolumeInfo info, volume_info(row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
}

Result<VolumeInfo> Volumes::undelete(UserId owner, std::string_view name, std::string_view as,
                                     const AlsoInTx<VolumeInfo>& also) {
  std::string new_name(as.empty() ? name : as);
  CAIRN_CHECK_OK(check_volume_name(new_name));
  return context_.db.transact([&](catalog::Tx& tx) -> Result<VolumeInfo> {
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find_trashed(tx, owner, std::string(name)));
    if (!row) {
      return Error(Code::kVolumeNotFound,
                   "there is no volume '" + store::escape_for_display(name.substr(0, 80)) + "' in the trash",
                   "`cairn volumes list` shows what can be undeleted");
    }
    CAIRN_TRY(bool back, catalog::volumes::undelete(tx, row->id, new_name));
    if (!back) {
      return Error(Code::kVolumeExists, "there is another volume '" + new_name + "'",
                   "`cairn volumes undelete " + row->name + " --as NEW` brings it back under another name");
    }
    CAIRN_TRY(row, catalog::volumes::find(tx, row->id));
    if (!row) return volume_not_found(name);
    CAIRN_TRY(VolumeInfo info, volume_info(*row));
    if (also) CAIRN_CHECK_OK(also(tx, info));
    return info;
  });
}

Result<std::vector<SnapshotInfo>> Volumes::snapshots(VolumeId id, int64_t before, int64_t limit, bool all) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<std::vector<SnapshotInfo>> {
    CAIRN_TRY(
        std::vector<catalog::SnapshotRow> rows,
        catalog::snapshots::list(tx, id, before <= 0 ? INT64_MAX : before, all, std::clamp<int64_t>(limit, 1, 1'000)));
    std::vector<SnapshotInfo> snapshots;
    for (const catalog::SnapshotRow& row : rows) snapshots.push_back(snapshot_info(row));
    return snapshots;
  });
}

Result<SnapshotInfo> Volumes::snapshot(VolumeId id, int64_t number) {
  return context_.db.read([&](catalog::Tx& tx) -> Result<SnapshotInfo> {
    CAIRN_TRY(std::optional<catalog::SnapshotRow> row, catalog::snapshots::find(tx, id, number));
    if (!row) return snapshot_not_found(tx, id, number);
    return snapshot_info(*row);
  });
}

Status Volumes::tag(VolumeId id, int64_t number, std::string_view label, const AlsoInTx<int64_t>& also) {
  if (label.size() > 100 || !catalog::is_catalog_text(label)) {
    return Error(Code::kRequestInvalid, "a tag is at most 100 bytes of UTF-8 text");
  }
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(bool set, catalog::snapshots::set_tag(tx, id, number, std::string(label)));
    if (!set) return snapshot_not_found(tx, id, number);
    return also ? also(tx, number) : ok();
  });
}

Status Volumes::drop_side_snapshot(VolumeId id, int64_t number, const AlsoInTx<int64_t>& also) {
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(std::optional<catalog::SnapshotRow> row, catalog::snapshots::find(tx, id, number));
    if (!row || !row->side) return snapshot_not_found(tx, id, number, true);
    CAIRN_TRY(Time now, context_.catalog_clock.now(tx));
    CAIRN_CHECK_OK(catalog::uploads::forget_side(tx, id, number));
    CAIRN_TRY(bool ended, catalog::snapshots::end_side(tx, id, number, now));
    if (!ended) {
      return Error(Code::kVolumeStateConflict,
                   "side snapshot " + std::to_string(number) + " has the tag '" + row->tag + "', which keeps it",
                   "remove the tag, then drop it");
    }
    return also ? also(tx, number) : ok();
  });
}

}  // namespace cairn::volume
