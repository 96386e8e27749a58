#include "volume/rows.h"

#include "codec/bytes.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "store/paths.h"
#include "volume/names.h"

namespace cairn::volume {

Result<Instant> instant(Context& context, catalog::Tx& tx) {
  Instant at;
  CAIRN_TRY(at.now, context.catalog_clock.now(tx));
  CAIRN_TRY(at.lease_now, context.catalog_clock.lease_now(tx));
  return at;
}

SnapshotInfo snapshot_info(const catalog::SnapshotRow& row) {
  SnapshotInfo info;
  info.number = row.number;
  info.root = row.root_digest;
  info.kind = row.kind;
  info.message = row.message;
  info.author = row.author_name;
  info.entries = row.entries;
  info.files = row.files;
  info.bytes = row.bytes;
  info.base = row.base_number;
  info.created_at = row.created;
  info.interim = row.interim;
  info.side = row.side;
  info.side_label = row.side_label;
  info.tag = row.tag;
  info.expires_at = row.expires;
  return info;
}

Result<VolumeInfo> volume_info(const catalog::VolumeRow& row) {
  VolumeInfo info;
  info.id = row.id;
  info.store = row.store;
  info.owner = row.owner;
  info.name = row.name;
  info.kind = row.kind == "workspace" ? VolumeKind::kWorkspace : VolumeKind::kUser;
  info.state = row.state == "created"    ? VolumeState::kCreated
               : row.state == "trashed"  ? VolumeState::kTrashed
               : row.state == "deleting" ? VolumeState::kDeleting
                                         : VolumeState::kDeleteFailed;
  info.size_bytes = row.size_bytes;
  info.used_bytes = row.head_bytes;
  info.entries = row.head_entries;
  info.files = row.head_files;
  info.head = row.head_number;
  CAIRN_TRY(info.history, HistoryPolicy::parse(row.history));
  info.created_by = row.created_by;
  info.created_at = row.created;
  info.trashed_at = row.trashed;
  info.purge_at = row.purge_at;
  info.delete_error = row.delete_error;
  return info;
}

LeaseSummary lease_summary(const catalog::LeaseRow& row, const Instant& at) {
  LeaseSummary summary;
  summary.lease = row.id;
  summary.kind = row.kind;
  summary.holder = row.holder;
  summary.user_name = row.user_name;
  summary.fence = static_cast<uint64_t>(row.fence);
  summary.since = row.since;
  summary.seen = row.seen;
  summary.expires_at = catalog::CatalogClock::wall_estimate(at.now, at.lease_now, row.expires_lease);
  return summary;
}

Result<store::RootRef> root_of(const catalog::SnapshotRow& row) {
  std::optional<codec::Bytes> bytes = codec::hex_decode(row.root_place);
  if (!bytes) {
    return Error(Code::kDataCorrupt,
                 "snapshot " + std::to_string(row.number) + " has a root that is not hex in the catalog");
  }
  CAIRN_TRY(store::RootRef root, store::decode_root(*bytes));
  if (root.digest.hex() != row.root_digest) {
    return Error(Code::kDataCorrupt,
                 "snapshot " + std::to_string(row.number) + " has two different roots in the catalog");
  }
  return root;
}

std::string root_text(const store::RootRef& root) {
  return codec::hex_encode(store::encode_root(root));
}

std::string secret_hash(std::string_view secret) {
  return codec::sha256(codec::as_bytes(secret)).hex();
}

Error volume_not_found(std::string_view name) {
  std::string possible(check_volume_name(name) ? name : std::string_view("NAME"));
  return Error(Code::kVolumeNotFound, "there is no volume '" + store::escape_for_display(name.substr(0, 80)) + "'",
               "`cairn volumes list` shows the volumes; `cairn volumes create " + possible + "` makes one");
}

Error snapshot_not_found(catalog::Tx& tx, VolumeId id, int64_t number, bool side) {
  std::string name = id.hex();
  if (auto volume = catalog::volumes::find(tx, id); volume && *volume) name = (*volume)->name;
  return Error(Code::kSnapshotNotFound,
               "volume '" + name + "' has no " + (side ? "side " : "") + "snapshot " + std::to_string(number),
               "`cairn volumes " + std::string(side ? "info " : "snapshots ") + name + "` shows those that are kept");
}

Result<catalog::VolumeRow> created_volume(catalog::Tx& tx, VolumeId id) {
  CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find(tx, id));
  if (!row) return Error(Code::kVolumeNotFound, "there is no volume with id " + id.hex());
  if (row->state != "created") {
    return Error(Code::kVolumeNotFound, "the volume '" + row->name + "' was deleted",
                 row->state == "trashed" ? "`cairn volumes undelete " + row->name + "` brings it back" : "");
  }
  return *std::move(row);
}

Result<catalog::VolumeRow> created_volume(catalog::Tx& tx, UserId owner, std::string_view name) {
  if (name.size() > 64) return volume_not_found(name);
  CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find_by_name(tx, owner, std::string(name)));
  if (!row) return volume_not_found(name);
  return *std::move(row);
}

std::string ending_hint(std::string_view kind, std::string_view volume_name, std::string_view holder) {
  std::string name(volume_name);
  if (kind == "run") {
    // "run-<id>.<attempt>": the id is what people type.
    if (holder.starts_with("run-")) holder.remove_prefix(4);
    std::string id(holder.substr(0, holder.find('.')));
    return "wait for it (cairn train get " + id + " shows it), or `cairn train stop " + id + "` ends it";
  }
  if (kind == "server") return "it takes a moment: try again";
  return "wait for it, or `cairn volumes break-lease " + name + "` ends it";
}

Error lease_lost(catalog::Tx& tx, const catalog::LeaseRow& lease) {
  std::string name = lease.volume.hex();
  if (auto volume = catalog::volumes::find(tx, lease.volume); volume && *volume) name = (*volume)->name;
  std::string message =
      "the writer lease of volume '" + name + "' (fence " + std::to_string(lease.fence) + ") has ended";
  if (!lease.end_reason.empty()) message += ": " + lease.end_reason;
  Error error(Code::kLeaseLost, message, "run the command again: what had arrived is not sent again");
  if (auto current = catalog::leases::list_current(tx, lease.volume); current && !current->empty()) {
    return std::move(error).with_holder(current->front().holder);
  }
  return error;
}

}  // namespace cairn::volume
