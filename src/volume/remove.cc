// `rm` at the server (Publisher::remove): a publication whose changeset the server writes itself.
#include <algorithm>
#include <set>

#include "catalog/leases.h"
#include "catalog/snapshots.h"
#include "catalog/stores.h"
#include "catalog/uploads.h"
#include "codec/crc32c.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "store/paths.h"
#include "store/tree_reader.h"
#include "volume/publish_impl.h"
#include "volume/rows.h"
#include "volume/uploads.h"

namespace cairn::volume {
namespace {

constexpr size_t kPathsMax = 10'000;
using Paths = std::set<std::string, store::PathLess>;

std::string body_hash(const RemoveRequest& request, const Paths& paths) {
  codec::Sha256 hash;
  hash.update("remove\n").update(request.volume.hex()).update("\n").update(request.actor.user.hex()).update("\n");
  for (const std::string& path : paths) hash.update(codec::hex_encode(path)).update("\n");
  hash.update(request.message);
  return hash.finish().hex();
}

// Each path once, without those that go with a folder above them.
Result<Paths> paths_of(const RemoveRequest& request) {
  if (request.paths.empty() || request.paths.size() > kPathsMax) {
    return Error(Code::kRequestInvalid, "name 1 to 10000 paths to remove");
  }
  Paths all;
  for (const std::string& path : request.paths) {
    if (path.empty())
      return Error(Code::kPathInvalid, "name what to remove: the whole volume goes with `cairn volumes delete`");
    CAIRN_CHECK_OK(store::validate_path(path));
    all.insert(path);
  }
  Paths top;
  for (const std::string& path : all) {
    if (top.empty() || !store::is_at_or_under(path, *top.rbegin())) top.insert(path);
  }
  return top;
}

Result<codec::Bytes> changeset_of(store::NodeSource& source, const store::RootRef& root, const Paths& paths,
                                  const std::string& volume, const Deadline& deadline) {
  store::TreeReader tree(source, root, deadline);
  store::BytesSink sink;
  store::ChangesetWriter writer(sink);
  for (const std::string& path : paths) {
    CAIRN_TRY(std::optional<store::PathStat> found, tree.stat(path));
    if (!found) {
      return Error(Code::kPathNotFound,
                   "there is no '" + store::escape_for_display(path) + "' on volume '" + volume + "'",
                   "`cairn volumes ls " + volume + "` shows what there is");
    }
    CAIRN_CHECK_OK(writer.remove_prefix(path));
  }
  CAIRN_CHECK_OK(writer.finish());
  return sink.take();
}

}  // namespace

Result<Publication> Publisher::remove(const RemoveRequest& request, Deadline deadline,
                                      const AlsoInTx<Publication>& also) {
  Context& context = impl_->context;
  if (request.request.is_none()) return Error(Code::kRequestInvalid, "a removal needs a request id");
  CAIRN_TRY(Paths paths, paths_of(request));
  const std::string hash = body_hash(request, paths);
  CAIRN_TRY(std::optional<catalog::PublishOpRow> op,
            context.db.read([&](catalog::Tx& tx) { return catalog::publish_ops::find(tx, request.request); }));
  if (op && op->body_hash != hash) {
    return Error(Code::kRequestIdReused, "request " + request.request.hex() + " was used for another publication",
                 "use a new request id for another body");
  }
  if (op) return impl_->drive(request.request, deadline, also);

  Uploads uploads(context);
  LeaseRequest lease;
  lease.volume = request.volume;
  lease.kind = HolderKind::kServer;
  lease.holder = "rm by " + (request.actor.name.empty() ? request.actor.user.hex() : request.actor.name.substr(0, 100));
  lease.user = request.actor.user;
  lease.user_name = request.actor.name;
  lease.source = "rm " + request.request.hex();
  CAIRN_TRY(OpenUpload upload, uploads.open(lease));
  Status begun = impl_->begin_removal(request, hash, {paths.begin(), paths.end()}, upload, deadline);
  Result<Publication> result = Error(Code::kInternal, "not begun");
  if (begun) {
    result = impl_->drive(request.request, deadline, also);
  } else {
    result = std::move(begun).error();
  }
  // A publication that was done has ended the upload itself; one that may go on keeps it until its short lease is over.
  if (!result && retry_class(result.error().code()) == RetryClass::kNever && result.error().code() != Code::kInternal) {
    (void)uploads.close(upload.id, upload.lease.secret);
  }
  return result;
}

Status Publisher::Impl::begin_removal(const RemoveRequest& request, const std::string& hash,
                                      const std::vector<std::string>& paths, const OpenUpload& upload,
                                      const Deadline& deadline) {
  std::string name;
  CAIRN_TRY(catalog::SnapshotRow base, context.db.read([&](catalog::Tx& tx) -> Result<catalog::SnapshotRow> {
    CAIRN_TRY(catalog::VolumeRow volume, created_volume(tx, upload.volume));
    name = volume.name;
    CAIRN_TRY(std::optional<catalog::SnapshotRow> row, catalog::snapshots::find(tx, upload.volume, upload.base.number));
    if (!row) return Error(Code::kSnapshotNotFound, "the head of volume '" + name + "' is gone");
    return *std::move(row);
  }));
  CAIRN_TRY(store::RootRef root, root_of(base));
  std::shared_ptr<store::NodeSource> source = sources.get(upload.store);
  CAIRN_TRY(codec::Bytes bytes, changeset_of(*source, root, Paths(paths.begin(), paths.end()), name, deadline));

  Uploads uploads(context);
  PackWish wish;
  wish.kind = PackKind::kChangeset;
  wish.size_bytes = static_cast<int64_t>(bytes.size());
  wish.crc32c = codec::crc32c(bytes);
  CAIRN_TRY(std::vector<PromisedPack> promised, uploads.promise(upload.id, upload.lease.secret, {wish}));
  catalog::PackRow pack;
  pack.object_key = promised.front().key;
  CAIRN_CHECK_OK(put_own_object(context, pack, bytes, deadline));
  CAIRN_TRY(Registration registration, uploads.register_packs(upload.id, upload.lease.secret, {promised.front().id}));
  if (!registration.rejected.empty()) return registration.rejected.front().error;
  return context.db.transact([&](catalog::Tx& tx) -> Status {
    catalog::PublishOpRow row;
    row.request = request.request;
    row.body_hash = hash;
    row.volume = upload.volume;
    row.upload = upload.id;
    row.changeset = promised.front().id;
    row.kind = "remove";
    row.message = request.message;
    CAIRN_TRY(row.created, context.catalog_clock.now(tx));
    CAIRN_TRY(bool inserted, catalog::publish_ops::insert(tx, row));
    if (!inserted) return Error(Code::kBusy, "the same request is being taken by another server", "ask again");
    return ok();
  });
}

}  // namespace cairn::volume
