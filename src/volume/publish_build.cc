// One attempt at a publication, from reading the state of things to the head swap.
#include <algorithm>

#include "base/quantity.h"
#include "catalog/leases.h"
#include "catalog/packs.h"
#include "catalog/pins.h"
#include "catalog/publish_ops.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "volume/publish_impl.h"
#include "volume/rows.h"
#include "volume/uploads.h"

namespace cairn::volume {
namespace {

// Small enough that a small publication costs little memory, large enough for thousands of nodes.
constexpr uint64_t kNodePackBytes = 4 * limits::kMiB;

// Where the changeset belongs when its writer was fenced off: on what it set aside before, else on what it says it
// started from, else on its upload's base.
Result<std::optional<catalog::SnapshotRow>> own_base(catalog::Tx& tx, const Attempt& attempt) {
  const catalog::UploadRow& upload = attempt.writer->upload;
  if (attempt.op.base_number) {
    CAIRN_TRY(std::optional<catalog::SnapshotRow> named,
              catalog::snapshots::find(tx, upload.volume, *attempt.op.base_number));
    if (named) return named;
  }
  return catalog::snapshots::find(tx, upload.volume, upload.base_number);
}

}  // namespace

Status Publisher::Impl::begin(Attempt& attempt) {
  return context.db.read([&](catalog::Tx& tx) -> Status {
    CAIRN_TRY(bool open, is_open(tx, attempt.op.request));
    if (!open) return finished_elsewhere();
    CAIRN_TRY(attempt.writer, open_writer(tx, attempt.op.upload));
    CAIRN_TRY(attempt.volume, created_volume(tx, attempt.op.volume));
    CAIRN_TRY(std::optional<catalog::StoreRow> store, catalog::stores::find(tx, attempt.volume.store));
    if (!store) return Error(Code::kDataCorrupt, "volume '" + attempt.volume.name + "' has no store");
    attempt.epoch = store->epoch;
    attempt.number = attempt.volume.last_number + 1;
    attempt.side = attempt.writer->fenced_off;
    attempt.side_reason = attempt.side ? "lease_lost" : "";
    CAIRN_TRY(std::optional<catalog::SnapshotRow> head,
              catalog::snapshots::find(tx, attempt.volume.id, attempt.volume.head_number));
    if (!head) return Error(Code::kDataCorrupt, "volume '" + attempt.volume.name + "' has no head snapshot");
    attempt.head_digest = head->root_digest;
    std::optional<catalog::SnapshotRow> base;
    if (attempt.writer->upload.side_number > 0) {
      // Once aside, the writer's changes build on what lies there. It returns to the head when nobody else moved it.
      CAIRN_TRY(base, catalog::snapshots::find(tx, attempt.volume.id, attempt.writer->upload.side_number));
      if (base && base->base_number != attempt.volume.head_number) {
        attempt.side = true;
        if (attempt.side_reason.empty()) attempt.side_reason = "lease_lost";
      }
    }
    if (!base && attempt.side) {
      CAIRN_TRY(base, own_base(tx, attempt));
    }
    attempt.base = base ? *std::move(base) : *std::move(head);
    CAIRN_TRY(attempt.base_root, root_of(attempt.base));
    return ok();
  });
}

Status Publisher::Impl::merge(Attempt& attempt, const Deadline& deadline) {
  const catalog::UploadRow& upload = attempt.writer->upload;
  CAIRN_TRY(std::optional<catalog::PackRow> pack,
            context.db.read([&](catalog::Tx& tx) { return catalog::packs::find(tx, attempt.op.changeset); }));
  if (!pack || pack->kind != "changeset" || pack->upload != upload.id || pack->state != "live") {
    return Error(Code::kChangesetInvalid,
                 "pack " + attempt.op.changeset.hex() + " is not a registered changeset of this upload",
                 "register the changeset before publishing it");
  }
  CAIRN_TRY(object::ObjectKey key, object::ObjectKey::parse(pack->object_key));
  CAIRN_TRY(std::unique_ptr<object::ObjectReader> reader, context.objects.open(key, deadline));
  ObjectSource bytes(std::move(reader));
  store::ChangesetReader records(bytes);
  bool may_write_runs = keeps_work_aside(upload) || upload.kind == "server";
  CheckedChanges changes(records, may_write_runs, attempt.keep_claim);
  PlacesOfWriter places(context, indexes, *attempt.writer, attempt.keep_claim, deadline);
  NodePacks packs(context, attempt, deadline);
  store::NodePackWriter nodes(packs, kNodePackBytes);
  std::shared_ptr<store::NodeSource> source = sources.get(attempt.volume.store);
  Result<store::MergeResult> merged =
      store::merge_changes(*source, attempt.base_root, changes, nodes, &places, deadline);
  CAIRN_CHECK_OK(places.verdict());
  if (!merged) return std::move(merged).error();
  attempt.merged = *std::move(merged);
  return ok();
}

Status Publisher::Impl::check_size(Attempt& attempt) {
  const store::Counts& counts = attempt.merged.root.counts;
  if (counts.bytes > static_cast<uint64_t>(INT64_MAX)) {
    return Error(Code::kLimitExceeded, "the contents would have more bytes than can be counted");
  }
  auto bytes = static_cast<int64_t>(counts.bytes);
  if (attempt.side || bytes <= attempt.volume.size_bytes) return ok();
  if (keeps_work_aside(attempt.writer->upload)) {
    attempt.side = true;
    attempt.side_reason = "contents_exceed_size";
    return ok();
  }
  const std::string& name = attempt.volume.name;
  constexpr auto kGiB = static_cast<int64_t>(limits::kGiB);
  int64_t wanted = (bytes + kGiB - 1) / kGiB * kGiB;
  return Error(Code::kContentsExceedSize,
               "volume '" + name + "' would hold " + human_bytes(bytes) + " (" + std::to_string(bytes) +
                   " bytes); its size is " + format_size(attempt.volume.size_bytes) + " (" +
                   std::to_string(attempt.volume.size_bytes) + " bytes)",
               "`cairn volumes expand " + name + " --size " + format_size(wanted) + "` makes room");
}

Result<Publication> Publisher::Impl::build_and_swap(Attempt& attempt, const Deadline& deadline,
                                                    const AlsoInTx<Publication>& also) {
  attempt.step = [this, &attempt](std::string_view name) -> Status {
    if (!hook) return ok();
    Status stopped = hook(name);
    if (!stopped) attempt.crashed = true;
    return stopped;
  };
  attempt.keep_claim = [this, &attempt] { return keep_claim(attempt); };
  CAIRN_CHECK_OK(attempt.step("begin"));
  CAIRN_CHECK_OK(begin(attempt));
  CAIRN_CHECK_OK(attempt.step("merge"));
  CAIRN_CHECK_OK(merge(attempt, deadline));
  CAIRN_CHECK_OK(check_size(attempt));
  const std::string digest = attempt.merged.root.digest.hex();
  if (digest == (attempt.side ? attempt.base.root_digest : attempt.head_digest)) {
    return finish_unchanged(attempt, also, deadline);
  }
  CAIRN_CHECK_OK(keep_claim(attempt));
  CAIRN_CHECK_OK(write_snapshot_record(context, attempt, deadline));
  CAIRN_CHECK_OK(attempt.step("swap"));
  CAIRN_TRY(Publication result, swap(attempt, also, deadline));
  CAIRN_CHECK_OK(attempt.step("swapped"));
  return result;
}

Status Publisher::Impl::finish(catalog::Tx& tx, Attempt& attempt, const Publication& result, Time now) {
  catalog::PublishOpRow row = attempt.op;
  row.snapshot_number = result.snapshot;
  row.root_digest = result.root;
  row.entries = result.entries;
  row.files = result.files;
  row.bytes = result.bytes;
  row.side_label = result.side_label;
  row.side_reason = result.side_reason;
  CAIRN_TRY(bool finished, catalog::publish_ops::finish(tx, row, now));
  if (!finished) return finished_elsewhere();
  CAIRN_CHECK_OK(catalog::packs::detach(tx, attempt.op.changeset));
  CAIRN_CHECK_OK(catalog::volumes::release_publishing(tx, attempt.op.volume, attempt.claim));
  if (attempt.writer->upload.kind == "server") {
    CAIRN_CHECK_OK(catalog::pins::remove_by_purpose(tx, attempt.op.volume, "upload " + attempt.op.upload.hex()));
    CAIRN_CHECK_OK(catalog::uploads::close(tx, attempt.op.upload, now, now));
    CAIRN_CHECK_OK(catalog::leases::end(tx, attempt.writer->lease.id, now, "done"));
  }
  return ok();
}

namespace {

// The lease must be current at this very moment; a publication is a sign of life too.
Status confirm_lease(Context& context, catalog::Tx& tx, Attempt& attempt, const Instant& at) {
  const catalog::LeaseRow& lease = attempt.writer->lease;
  Duration time = lease.kind == "server" ? context.settings.server_lease_time : context.settings.lease_time;
  CAIRN_TRY(bool current,
            catalog::leases::confirm(tx, lease.id, lease.fence, at.now, at.lease_now, at.lease_now + time));
  if (current) return ok();
  if (keeps_work_aside(attempt.writer->upload)) return moved(attempt, "the writer lease was taken meanwhile");
  CAIRN_TRY(std::optional<catalog::LeaseRow> row, catalog::leases::find(tx, lease.id));
  return lease_lost(tx, row ? *row : lease);
}

Publication publication_of(const Attempt& attempt) {
  const store::RootRef& root = attempt.merged.root;
  Publication result;
  result.snapshot = attempt.number;
  result.root = root.digest.hex();
  result.entries = static_cast<int64_t>(root.counts.entries);
  result.files = static_cast<int64_t>(root.counts.files);
  result.bytes = static_cast<int64_t>(root.counts.bytes);
  result.side = attempt.side;
  if (attempt.side) {
    result.side_label = "recovered/" + attempt.writer->upload.holder;
    result.side_reason = attempt.side_reason;
  }
  return result;
}

catalog::SnapshotRow row_of(const Context& context, const Attempt& attempt, const Publication& result, Time now) {
  catalog::SnapshotRow row;
  row.volume = attempt.volume.id;
  row.number = attempt.number;
  row.root_digest = result.root;
  row.root_place = root_text(attempt.merged.root);
  row.record_pack = attempt.record_pack;
  row.kind = attempt.op.kind;
  row.message = attempt.op.message;
  row.author = attempt.writer->lease.user;
  row.author_name = attempt.writer->lease.user_name;
  row.entries = result.entries;
  row.files = result.files;
  row.bytes = result.bytes;
  row.base_number = attempt.base.side ? attempt.base.base_number : attempt.base.number;
  row.fence = attempt.writer->lease.fence;
  row.upload = attempt.op.upload;
  row.lease = attempt.writer->lease.id;
  row.interim = attempt.op.interim && !attempt.side;
  row.side = attempt.side;
  row.side_label = result.side_label;
  row.created = now;
  if (attempt.side) row.expires = now + context.settings.side_snapshot_time;
  return row;
}

}  // namespace

Status Publisher::Impl::touch_packs(catalog::Tx& tx, const Attempt& attempt) {
  std::set<PackId> needed(attempt.merged.packs_named_by_new_nodes.begin(),
                          attempt.merged.packs_named_by_new_nodes.end());
  needed.insert(*attempt.record_pack);
  std::vector<PackId> packs(needed.begin(), needed.end());
  if (touch) {
    CAIRN_TRY(int64_t ticket, catalog::stores::next_ticket(tx, attempt.volume.store));
    CAIRN_TRY(int64_t touched, catalog::packs::touch(tx, attempt.volume.store, packs, ticket));
    if (touched != static_cast<int64_t>(packs.size())) {
      CAIRN_TRY(std::vector<PackId> gone, catalog::packs::untouchable(tx, attempt.volume.store, packs));
      return chunks_gone(gone);
    }
  }
  return catalog::packs::add_to_volume(tx, attempt.volume.id, packs);
}

Result<Publication> Publisher::Impl::finish_unchanged(Attempt& attempt, const AlsoInTx<Publication>& also,
                                                      const Deadline& deadline) {
  return context.db.transact(
      [&](catalog::Tx& tx) -> Result<Publication> {
        CAIRN_TRY(Instant at, instant(context, tx));
        Publication result = publication_of(attempt);
        result.snapshot = attempt.side ? attempt.base.number : attempt.volume.head_number;
        if (attempt.side) {
          // Nothing lies aside unless something did before.
          result.side = attempt.base.side;
          result.side_label = attempt.base.side_label;
          if (!result.side) result.side_reason.clear();
        } else {
          CAIRN_CHECK_OK(confirm_lease(context, tx, attempt, at));
        }
        CAIRN_CHECK_OK(finish(tx, attempt, result, at.now));
        if (also) CAIRN_CHECK_OK(also(tx, result));
        return result;
      },
      deadline);
}

Result<Publication> Publisher::Impl::swap(Attempt& attempt, const AlsoInTx<Publication>& also,
                                          const Deadline& deadline) {
  const catalog::UploadRow& upload = attempt.writer->upload;
  const VolumeId volume = attempt.volume.id;
  Result<Publication> swapped = context.db.transact(
      [&](catalog::Tx& tx) -> Result<Publication> {
        CAIRN_TRY(Instant at, instant(context, tx));
        Publication result = publication_of(attempt);
        // What the new root derives from must still be a root (F1); the guard conflicts with its removal.
        CAIRN_TRY(bool kept, catalog::snapshots::guard(tx, volume, attempt.base.number));
        if (!kept) return moved(attempt, "the snapshot this builds on was removed");
        bool counted;
        if (attempt.side) {
          CAIRN_TRY(counted, catalog::volumes::take_number(tx, volume, attempt.number));
          CAIRN_TRY(bool open, catalog::uploads::side_published(tx, upload.id, attempt.number));
          if (!open) return Error(Code::kUploadExpired, "the upload was closed meanwhile", "run the command again");
        } else {
          CAIRN_CHECK_OK(confirm_lease(context, tx, attempt, at));
          catalog::HeadCounts counts{result.entries, result.files, result.bytes};
          CAIRN_TRY(counted,
                    catalog::volumes::swap_head(tx, volume, attempt.volume.head_number, attempt.number, counts));
          CAIRN_TRY(bool open, catalog::uploads::published(tx, upload.id, attempt.number));
          if (!open) return Error(Code::kUploadExpired, "the upload was closed meanwhile", "run the command again");
          CAIRN_CHECK_OK(catalog::snapshots::supersede(tx, volume, attempt.volume.head_number, at.now));
        }
        if (!counted) return moved(attempt, "the head of the volume moved");
        CAIRN_CHECK_OK(touch_packs(tx, attempt));
        if (attempt.base.side) {
          // The new one holds all of it; who pinned or tagged it keeps it.
          if (!attempt.side) CAIRN_CHECK_OK(catalog::uploads::side_published(tx, upload.id, 0));
          CAIRN_CHECK_OK(catalog::snapshots::end_side(tx, volume, attempt.base.number, at.now));
        }
        CAIRN_TRY(bool inserted, catalog::snapshots::insert(tx, row_of(context, attempt, result, at.now)));
        if (!inserted) return moved(attempt, "the number of the snapshot was taken");
        CAIRN_CHECK_OK(finish(tx, attempt, result, at.now));
        if (also) CAIRN_CHECK_OK(also(tx, result));
        return result;
      },
      deadline);
  if (!swapped && swapped.error().code() == Code::kChunksGone) {
    // Were it only nodes of our own, all is built again; chunks of the client's must be sent again by it.
    CAIRN_TRY(bool only_own, context.db.read([&](catalog::Tx& tx) -> Result<bool> {
      std::vector<PackId> clients;
      for (PackId id : attempt.merged.packs_named_by_new_nodes) {
        if (!attempt.own_packs.contains(id)) clients.push_back(id);
      }
      CAIRN_TRY(std::vector<PackId> gone, catalog::packs::untouchable(tx, attempt.volume.store, clients));
      return gone.empty();
    }));
    attempt.again = only_own;
  }
  return swapped;
}

}  // namespace cairn::volume
