// What must hold in the world of the storage simulator after every step, and at its end.
#include <fmt/core.h>

#include "catalog/leases.h"
#include "catalog/volumes.h"
#include "codec/hex.h"
#include "store/mark.h"
#include "store/pack.h"
#include "testing/storage_world.h"
#include "volume/context.h"

namespace cairn::testing {
namespace {

Error violation(std::string what) {
  return Error(Code::kInternal, std::move(what));
}

}  // namespace

Status StorageWorld::check() {
  ++steps_;
  for (Volume& volume : volumes_) CAIRN_CHECK_OK(check_volume(volume));
  return ok();
}

Status StorageWorld::check_volume(Volume& volume) {
  std::vector<catalog::SnapshotRow> rows;
  Status read = db_->read([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(rows, catalog::snapshots::list(tx, volume.info.id, INT64_MAX, true, 10'000));
    CAIRN_TRY(std::vector<catalog::LeaseRow> leases, catalog::leases::list_current(tx, volume.info.id));
    if (leases.size() > 1) return violation("two writers at a time");
    CAIRN_TRY(std::optional<catalog::VolumeRow> row, catalog::volumes::find(tx, volume.info.id));
    if (!row) return violation("a volume is gone");
    if (row->fence < volume.fence) return violation("the fence went back");
    volume.fence = row->fence;
    return ok();
  });
  CAIRN_CHECK_OK(read);
  int64_t fence = INT64_MAX;
  for (auto row = rows.begin(); row != rows.end(); ++row) {  // newest first
    if (row->side) continue;
    if (row->fence > fence) return violation(fmt::format("snapshot {} was published by an older fence", row->number));
    fence = row->fence;
  }
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (!volume.model.contains(row->number)) CAIRN_CHECK_OK(check_new(volume, *row));
    for (PackId pack : named_[row->root_place]) {
      if (!pristine_.head(store::pack_key(volume.info.store, pack), Deadline::never())) {
        return violation(fmt::format("pack {} of snapshot {} is gone", pack.hex(), row->number));
      }
    }
  }
  if (!rows.empty() && steps_ % 20 == 0) CAIRN_CHECK_OK(check_contents(volume, rows[below(rows.size())].number));
  return ok();
}

// The snapshot holds what its writer meant, on top of what it was derived from.
Status StorageWorld::check_new(Volume& volume, const catalog::SnapshotRow& row) {
  auto meant = meant_.find(row.message);
  if (meant == meant_.end() || !row.upload) return violation(fmt::format("nobody published snapshot {}", row.number));
  auto aside = volume.aside.find(*row.upload);
  if (aside == volume.aside.end() && !volume.model.contains(row.base_number)) {
    return violation(fmt::format("snapshot {} has an unknown base {}", row.number, row.base_number));
  }
  Contents contents = aside != volume.aside.end() ? aside->second : volume.model[row.base_number];
  meant->second.apply_to(contents);
  if (row.side) {
    volume.aside[*row.upload] = contents;
  } else {
    volume.aside.erase(*row.upload);
  }
  volume.model[row.number] = std::move(contents);
  if (row.number > volume.newest) volume.newest = row.number;

  std::optional<codec::Bytes> root_bytes = codec::hex_decode(row.root_place);
  if (!root_bytes) return violation("a root is not hex");
  CAIRN_TRY(store::RootRef root, store::decode_root(*root_bytes));
  store::ObjectPackReader reader(pristine_, volume.info.store);
  store::CachedNodeSource source(reader, 0);
  store::Marker marker(source);
  CAIRN_CHECK_OK(marker.add(root, Deadline::never()));
  named_[row.root_place] = {marker.packs().begin(), marker.packs().end()};
  return check_contents(volume, row.number);
}

Status StorageWorld::check_contents(const Volume& volume, int64_t number) {
  ++report_.reads;
  volume::Context context(*db_, pristine_, clock_, ids_);
  StorageClient reader(context, pristine_);
  Result<Contents> contents = reader.read(volume.info.id, number);
  if (!contents && contents.error().code() == Code::kLimitExceeded) return ok();  // too many readers
  if (!contents) return std::move(contents).error().while_doing(fmt::format("reading snapshot {}", number));
  if (*contents != volume.model.at(number)) return violation(fmt::format("snapshot {} holds something else", number));
  return ok();
}

Status StorageWorld::finish() {
  faulty_.set_enabled(false);
  CAIRN_CHECK_OK(restart());
  CAIRN_CHECK_OK(resume());
  CAIRN_CHECK_OK(check());
  // Every writer ends well or is told that it was fenced off.
  for (int round = 0; round < 40 && !writers_.empty(); ++round) {
    bool idle = !writers_.front()->in_flight && writers_.front()->changes.puts.empty() &&
                writers_.front()->changes.deletes.empty();
    CAIRN_CHECK_OK(idle ? close() : publish());
    CAIRN_CHECK_OK(check());
  }
  for (int round = 0; round < 4; ++round) {
    CAIRN_CHECK_OK(retain());
    CAIRN_CHECK_OK(mark());
    CAIRN_CHECK_OK(condemn());
    CAIRN_CHECK_OK(sweep());
    CAIRN_CHECK_OK(pass_minutes());
    CAIRN_CHECK_OK(check());
  }
  for (Volume& volume : volumes_) {
    std::vector<catalog::SnapshotRow> rows;
    CAIRN_TRY(rows, db_->read([&](catalog::Tx& tx) {
      return catalog::snapshots::list(tx, volume.info.id, INT64_MAX, true, 10'000);
    }));
    for (const catalog::SnapshotRow& row : rows) CAIRN_CHECK_OK(check_contents(volume, row.number));
  }
  return ok();
}

}  // namespace cairn::testing
