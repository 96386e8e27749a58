#include "volume/publish_parts.h"

#include "catalog/stores.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "store/paths.h"
#include "store/store_header.h"
#include "volume/rows.h"

namespace cairn::volume {
namespace {

constexpr size_t kRowsRemembered = 4'096;
constexpr size_t kGoneListed = 1'000;

}  // namespace

Result<size_t> ObjectSource::read(std::span<uint8_t> out) {
  CAIRN_TRY(size_t count, reader_->read_at(offset_, out));
  offset_ += count;
  return count;
}

Result<bool> CheckedChanges::next(store::Change& change) {
  CAIRN_CHECK_OK(keep_claim_());
  CAIRN_TRY(bool more, changes_.next(change));
  if (!more || may_write_runs_) return more;
  const std::string& path = change.entry.path;
  bool refused =
      change.kind == store::Change::Kind::kDeletePrefix ? store::prefix_touches_runs(path) : store::is_under_runs(path);
  if (refused) {
    return Error(Code::kRunsReadOnly,
                 "'" + store::escape_for_display(path) + "' is below runs/, which runs and read-write sessions write",
                 "choose another destination; `cairn volumes rm` may remove below runs/");
  }
  return true;
}

Result<std::span<const store::ChunkRef>> CheckedChanges::next_chunks() {
  CAIRN_CHECK_OK(keep_claim_());
  return changes_.next_chunks();
}

Result<std::optional<catalog::PackRow>> PlacesOfWriter::nameable(PackId pack) {
  auto known = rows_.find(pack);
  if (known != rows_.end()) return known->second;
  CAIRN_TRY(std::optional<catalog::PackRow> row, context_.db.read([&](catalog::Tx& tx) {
    return catalog::packs::find_nameable(tx, writer_.upload.store, writer_.upload.volume, writer_.upload.id, pack);
  }));
  if (rows_.size() >= kRowsRemembered) rows_.clear();
  rows_.emplace(pack, row);
  return row;
}

Status PlacesOfWriter::check(const store::ChunkRef& chunk) {
  CAIRN_CHECK_OK(keep_claim_());
  if (chunk.place.pack != last_ || last_.is_none()) {
    last_ = chunk.place.pack;
    last_index_ = nullptr;
    CAIRN_TRY(std::optional<catalog::PackRow> row, nameable(last_));
    if (row) {
      Result<std::shared_ptr<const store::PackIndex>> index = indexes_.get(*row, deadline_);
      if (index) {
        last_index_ = *std::move(index);
      } else if (index.error().code() != Code::kObjectNotFound) {
        return std::move(index).error();
      }
    }
    if (!last_index_ && gone_.size() < kGoneListed) gone_.insert(last_);
  }
  if (!last_index_ || last_index_->holds(chunk)) return ok();
  return Error(Code::kChangesetInvalid, "pack " + last_.hex() + " holds no chunk " + chunk.hash.hex().substr(0, 16) +
                                            "… of " + std::to_string(chunk.raw_len) + " bytes at " +
                                            std::to_string(chunk.place.offset));
}

Status PlacesOfWriter::verdict() const {
  if (gone_.empty()) return ok();
  return chunks_gone(std::vector<PackId>(gone_.begin(), gone_.end()));
}

Error chunks_gone(const std::vector<PackId>& packs) {
  std::string list;
  for (size_t i = 0; i < packs.size() && i < kGoneListed; ++i) list += (i == 0 ? "" : ",") + packs[i].hex();
  return Error(Code::kChunksGone, std::to_string(packs.size()) + " packs are not there any more: " + list,
               "send their chunks again: run the command again");
}

Status put_own_object(Context& context, const catalog::PackRow& row, codec::ByteView bytes, const Deadline& deadline) {
  CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(row.object_key));
  Status put = context.objects.put_if_absent(key, bytes, deadline);
  if (put || put.error().code() != Code::kObjectExists) return put;
  CAIRN_TRY(object::ObjectInfo info, context.objects.head(key, deadline));
  if (info.size == bytes.size() && (!info.crc_known || info.crc32c == codec::crc32c(bytes))) return ok();
  return Error(Code::kDataCorrupt, "object " + row.object_key + " exists with other bytes");
}

Result<bool> is_open(catalog::Tx& tx, RequestId request) {
  CAIRN_TRY(std::optional<catalog::PublishOpRow> op, catalog::publish_ops::find(tx, request));
  return op && op->state == "running";
}

Error finished_elsewhere() {
  return Error(Code::kBusy, "another server finished this publication", "ask again with the same request id");
}

Error moved(Attempt& attempt, std::string what) {
  attempt.again = true;
  return Error(Code::kBusy, std::move(what), "ask again with the same request id");
}

namespace {

// Nothing protects a pack of our own until the swap: a mark between its row and its registration may condemn it.
Error own_pack_gone(Attempt& attempt, PackId id) {
  return moved(attempt, "pack " + id.hex() + " of this publication was collected as garbage before it was registered");
}

}  // namespace

Result<PackId> NodePacks::next() {
  return PackId::random(context_.random);
}

Status NodePacks::store(const PackId& id, const store::BuiltPack& pack) {
  catalog::PackRow row;
  row.id = id;
  row.store = attempt_.volume.store;
  row.kind = "nodes";
  row.object_key = store::pack_key(row.store, id).text();
  row.size_bytes = static_cast<int64_t>(pack.bytes.size());
  row.crc32c = codec::crc32c(pack.bytes);
  attempt_.own_packs.insert(id);
  CAIRN_CHECK_OK(attempt_.keep_claim());
  CAIRN_CHECK_OK(attempt_.step("nodes promise"));
  Status promised = context_.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(row.created_ticket, catalog::stores::next_ticket(tx, row.store));
    row.touched_ticket = row.created_ticket;
    CAIRN_TRY(row.created, context_.catalog_clock.now(tx));
    return catalog::packs::insert_promised(tx, row);
  });
  CAIRN_CHECK_OK(promised);
  CAIRN_CHECK_OK(attempt_.step("nodes put"));
  CAIRN_CHECK_OK(put_own_object(context_, row, pack.bytes, deadline_));
  CAIRN_CHECK_OK(attempt_.step("nodes register"));
  return context_.db.transact([&](catalog::Tx& tx) -> Status {
    auto index_bytes = static_cast<int64_t>(pack.frames.size() * store::kPackIndexRowBytes + store::kPackFooterBytes);
    CAIRN_TRY(bool live,
              catalog::packs::register_live(tx, id, pack.seal.hex(), static_cast<int64_t>(pack.frames.size()),
                                            row.size_bytes - index_bytes));
    if (!live) return own_pack_gone(attempt_, id);
    return ok();
  });
}

Status write_snapshot_record(Context& context, Attempt& attempt, const Deadline& deadline) {
  const catalog::VolumeRow& volume = attempt.volume;
  PackId id = PackId::random(context.random);
  store::SnapshotRecord record;
  record.snapshot = SnapshotId::from_bytes(id.bytes().data());
  record.volume = volume.id;
  record.number = static_cast<uint64_t>(attempt.number);
  record.base_number = static_cast<uint64_t>(attempt.base.side ? attempt.base.base_number : attempt.base.number);
  record.root = attempt.merged.root;
  record.base_digest = attempt.base_root.digest;
  record.fence = static_cast<uint64_t>(attempt.writer->lease.fence);
  record.epoch = static_cast<uint64_t>(attempt.epoch);
  record.kind = attempt.op.kind;
  record.author = attempt.writer->lease.user_name.substr(0, 256);
  record.reason = attempt.side ? attempt.side_reason : "";
  record.message = attempt.op.message;
  record.volume_name = volume.name;
  catalog::PackRow row;
  row.id = id;
  row.store = volume.store;
  row.kind = "record";
  row.object_key = store::snapshot_record_key(volume.store, record).text();
  CAIRN_CHECK_OK(attempt.step("record promise"));
  codec::Bytes bytes;
  Status promised = context.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(row.created, context.catalog_clock.now(tx));
    record.created = row.created;
    CAIRN_TRY(bytes, store::encode_snapshot_record(record));
    row.size_bytes = static_cast<int64_t>(bytes.size());
    row.crc32c = codec::crc32c(bytes);
    CAIRN_TRY(row.created_ticket, catalog::stores::next_ticket(tx, volume.store));
    row.touched_ticket = row.created_ticket;
    return catalog::packs::insert_promised(tx, row);
  });
  CAIRN_CHECK_OK(promised);
  CAIRN_CHECK_OK(attempt.step("record put"));
  CAIRN_CHECK_OK(put_own_object(context, row, bytes, deadline));
  CAIRN_CHECK_OK(attempt.step("record register"));
  attempt.record_pack = id;
  attempt.own_packs.insert(id);
  return context.db.transact([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(bool live, catalog::packs::register_live(tx, id, codec::sha256(bytes).hex(), 0, 0));
    if (!live) return own_pack_gone(attempt, id);
    return ok();
  });
}

}  // namespace cairn::volume
