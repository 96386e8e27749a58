#include "testing/storage_world.h"

#include <algorithm>

#include <fmt/core.h>

#include "catalog/leases.h"
#include "catalog/migrations.h"
#include "catalog/publish_ops.h"
#include "codec/hex.h"
#include "store/mark.h"

namespace cairn::testing {
namespace {

volume::Settings simulator_settings() {
  volume::Settings settings;
  settings.lease_time = minutes(5);
  settings.unfinished_upload_time = minutes(20);
  settings.pin_time = minutes(15);
  settings.gc_grace = minutes(10);
  settings.side_snapshot_time = hours(1'000);
  return settings;
}

FaultPlan fault_plan(const SimulatorOptions& options) {
  FaultPlan plan;
  plan.seed = options.seed;
  if (options.faults) {
    plan.fail = 15;
    plan.applied_but_failed = 15;
  }
  return plan;
}

Error violation(std::string what) {
  return Error(Code::kInternal, std::move(what));
}

// What a world with faults, other writers and garbage collection may answer to an honest client.
bool may_happen(const Error& error) {
  switch (error.code()) {
    case Code::kStoreUnavailable:
    case Code::kBusy:
    case Code::kOutcomeUnknown:
    case Code::kLeaseLost:
    case Code::kUploadExpired:
    case Code::kUploadNotFound:
    case Code::kWriterLeaseHeld:
    case Code::kChunksGone:
    case Code::kObjectNotFound:
    case Code::kPinNotFound:
    case Code::kSnapshotNotFound:
    case Code::kLimitExceeded:
    case Code::kPathNotFound:
    case Code::kDeadlineExceeded: return true;
    default: return error.message() == "crash";
  }
}

}  // namespace

struct StorageWorld::Server {
  Server(catalog::Db& db, object::ObjectStore& objects, Clock& clock, Random& random)
      : context(db, objects, clock, random, simulator_settings()),
        volumes(context),
        leases(context),
        uploads(context),
        publisher(context),
        reads(context),
        retention(context),
        gc(context),
        client(context, objects) {}
  volume::Context context;
  volume::Volumes volumes;
  volume::Leases leases;
  volume::Uploads uploads;
  volume::Publisher publisher;
  volume::Reads reads;
  volume::Retention retention;
  volume::GarbageCollector gc;
  StorageClient client;
};

StorageWorld::StorageWorld(const SimulatorOptions& options, SimulatorReport& report, std::string catalog_path)
    : options_(options),
      report_(report),
      path_(std::move(catalog_path)),
      dice_(options.seed),
      ids_(options.seed + 1'000'000),
      faulty_(pristine_, clock_, fault_plan(options)),
      recording_(faulty_) {}
StorageWorld::~StorageWorld() = default;

Status StorageWorld::start() {
  faulty_.set_enabled(false);
  CAIRN_TRY(db_, catalog::Db::open("sqlite:" + path_));
  CAIRN_CHECK_OK(catalog::migrate(*db_, clock_));
  CAIRN_CHECK_OK(restart());
  for (UserId& user : users_) user = UserId::random(ids_);
  for (const char* history : {"off", "2"}) {
    Volume volume;
    CAIRN_TRY(auto policy, volume::HistoryPolicy::parse(history));
    CAIRN_TRY(volume.info,
              server_->volumes.create({users_[0], "alice"}, "v" + std::to_string(volumes_.size()), {}, policy));
    volume.model[0] = {};
    volumes_.push_back(std::move(volume));
  }
  faulty_.set_enabled(options_.faults);
  return ok();
}

Status StorageWorld::restart() {
  server_ = std::make_unique<Server>(*db_, recording_, clock_, ids_);
  if (!options_.touch) server_->publisher.disable_touch_for_canary();
  CAIRN_CHECK_OK(stamp());
  return server_->publisher.drop_claims();
}

Status StorageWorld::stamp() {
  CAIRN_CHECK_OK(server_->context.catalog_clock.stamp(*db_));
  return ok();
}

StorageWorld::Writer* StorageWorld::some_writer() {
  return writers_.empty() ? nullptr : writers_[below(writers_.size())].get();
}

void StorageWorld::drop(const Writer* writer) {
  std::erase_if(writers_, [&](const auto& one) { return one.get() == writer; });
}

Status StorageWorld::open_upload() {
  if (writers_.size() >= 4) return ok();
  int number = static_cast<int>(below(volumes_.size()));
  volume::LeaseRequest request;
  request.volume = volumes_[static_cast<size_t>(number)].info.id;
  bool run = chance(35);
  request.kind = run ? volume::HolderKind::kRun : volume::HolderKind::kUpload;
  request.holder = run ? "run" : "put";
  request.user = users_[below(2)];
  request.user_name = "somebody";
  if (!run) request.source = chance(50) ? "laptop:/data" : "desktop:/data";
  for (const auto& other : writers_) {
    if (other->volume == number && chance(20)) request.takeover_secret = other->upload.lease.secret;
  }
  CAIRN_TRY(auto before, server_->leases.current(request.volume));
  Result<volume::OpenUpload> upload = server_->uploads.open(request);
  if (!upload) return may_happen(upload.error()) ? ok() : Status(upload.error());
  if (before) ++report_.takeovers;
  if (before && upload->lease.fence <= before->fence) return violation("a fence did not grow");
  auto writer = std::make_unique<Writer>();
  writer->upload = *std::move(upload);
  writer->volume = number;
  writer->run = run;
  if (chance(50)) {
    auto resumed = server_->uploads.resumable(writer->upload.id, writer->upload.lease.secret, PackId(), 1'000);
    if (!resumed && !may_happen(resumed.error())) return resumed.error();
  }
  writers_.push_back(std::move(writer));
  return ok();
}

Status StorageWorld::change() {
  Writer* writer = some_writer();
  if (writer == nullptr || writer->in_flight) return ok();
  return change_some(*writer);
}

// Puts and deletes; the bytes of a put are what the client remembers to lie somewhere, or are sent now, or later.
Status StorageWorld::change_some(Writer& writer) {
  Volume& volume = volumes_[static_cast<size_t>(writer.volume)];
  for (uint64_t i = 1 + below(3); i > 0; --i) {
    std::string path = (writer.run ? "runs/r" : "d") + std::to_string(below(3)) + "/" + std::to_string(below(5));
    if (chance(25)) {
      writer.changes.puts.erase(path);
      writer.changes.deletes.insert(path);
      continue;
    }
    std::string text = "content " + std::to_string(below(12));
    auto known = volume.remembered.find(text);
    if (known != volume.remembered.end() && chance(80)) {
      writer.changes.puts[path] = {text, known->second};
      continue;
    }
    Result<BuiltDataPack> built = server_->client.promise(writer.upload, {text});
    if (!built) return may_happen(built.error()) ? ok() : Status(built.error());
    writer.unsent.push_back(*std::move(built));
    writer.changes.puts[path] = {text, {}};
  }
  return chance(60) ? send_late() : ok();
}

Status StorageWorld::send_late() {
  Writer* writer = some_writer();
  if (writer == nullptr) return ok();
  return send_pending(*writer);
}

Status StorageWorld::send_pending(Writer& writer) {
  Volume& volume = volumes_[static_cast<size_t>(writer.volume)];
  for (auto it = writer.unsent.begin(); it != writer.unsent.end();) {
    Status sent = server_->client.put(it->promised, it->bytes);
    if (sent) sent = server_->client.register_pack(writer.upload, it->promised.id);
    if (!sent && !may_happen(sent.error())) return sent;
    if (!sent && sent.error().code() == Code::kStoreUnavailable) {
      ++it;
      continue;
    }
    if (sent) {
      for (const auto& [text, chunk] : it->chunks) volume.remembered[text] = chunk;
    }
    it = writer.unsent.erase(it);
  }
  for (auto& [path, file] : writer.changes.puts) {
    if (file.second) continue;
    auto known = volume.remembered.find(file.first);
    if (known != volume.remembered.end()) {
      file.second = known->second;
      continue;
    }
    auto sent = server_->client.send(writer.upload, {file.first});
    if (!sent) return may_happen(sent.error()) ? ok() : Status(sent.error());
    file.second = sent->at(file.first);
    volume.remembered[file.first] = *file.second;
  }
  return ok();
}

Status StorageWorld::publish() {
  Writer* writer = some_writer();
  if (writer == nullptr) return ok();
  if (!writer->in_flight) {
    if (writer->changes.puts.empty() && writer->changes.deletes.empty()) return ok();
    CAIRN_CHECK_OK(send_pending(*writer));
    for (const auto& [path, file] : writer->changes.puts) {
      if (!file.second) return ok();
    }
    Result<PackId> changeset = server_->client.send_changeset(writer->upload, writer->changes);
    if (!changeset) {
      if (!may_happen(changeset.error())) return changeset.error();
      if (changeset.error().code() == Code::kLeaseLost) drop(writer);
      return ok();
    }
    volume::PublishRequest request;
    request.request = RequestId::random(ids_);
    request.upload = writer->upload.id;
    request.secret = writer->upload.lease.secret;
    request.changeset = *changeset;
    request.message = request.request.hex();
    request.interim = writer->run && chance(50);
    writer->in_flight = request;
    meant_[request.request.hex()] = writer->changes;
  }
  int dies_at = chance(15) ? static_cast<int>(below(10)) : -1;
  server_->publisher.set_step_hook([this, dies_at, calls = 0](std::string_view) mutable -> Status {
    if (calls++ != dies_at) return ok();
    ++report_.crashes;
    return Error(Code::kInternal, "crash");
  });
  Result<volume::Publication> result = server_->publisher.publish(*writer->in_flight, soon());
  server_->publisher.set_step_hook({});
  bool died = !result && result.error().message() == "crash";
  CAIRN_CHECK_OK(settle(*writer, result));
  return died && chance(80) ? restart() : ok();
}

Status StorageWorld::settle(Writer& writer, const Result<volume::Publication>& result) {
  Volume& volume = volumes_[static_cast<size_t>(writer.volume)];
  if (result) {
    ++report_.publications;
    if (result->side) ++report_.side_publications;
    if (result->side && !writer.run) return violation("an upload went aside");
    writer.in_flight.reset();
    writer.changes = {};
    if (!writer.run && chance(70)) return close();
    return ok();
  }
  const Error& error = result.error();
  if (!may_happen(error)) return error;
  switch (error.code()) {
    case Code::kChunksGone:
      // What the client believed to be there is sent again.
      ++report_.chunks_gone;
      for (auto& [path, file] : writer.changes.puts) {
        if (file.second) volume.remembered.erase(file.first);
        file.second.reset();
      }
      writer.in_flight.reset();
      return ok();
    case Code::kLeaseLost:
    case Code::kUploadExpired:
    case Code::kUploadNotFound:
      if (writer.run && error.code() == Code::kLeaseLost) return violation("a run was refused: " + error.to_string());
      drop(&writer);
      return ok();
    default: return ok();  // asked again later, under the same request id
  }
}

Status StorageWorld::resume() {
  Result<int64_t> resumed = server_->publisher.resume_abandoned(soon());
  return resumed || may_happen(resumed.error()) ? ok() : Status(resumed.error());
}

Status StorageWorld::remove() {
  Volume& volume = volumes_[below(volumes_.size())];
  volume::RemoveRequest request;
  request.request = RequestId::random(ids_);
  request.volume = volume.info.id;
  request.actor = {users_[0], "alice"};
  request.paths = {chance(50) ? "d" + std::to_string(below(3)) : "runs/r" + std::to_string(below(3))};
  request.message = request.request.hex();
  Changes& meant = meant_[request.message];
  meant.deletes.insert(request.paths.begin(), request.paths.end());
  Result<volume::Publication> result = server_->publisher.remove(request, soon());
  return result || may_happen(result.error()) ? ok() : Status(result.error());
}

Status StorageWorld::heartbeat() {
  Writer* writer = some_writer();
  if (writer == nullptr) return ok();
  Result<volume::Lease> lease = server_->uploads.heartbeat(writer->upload.id, writer->upload.lease.secret);
  if (lease) return ok();
  if (!may_happen(lease.error())) return lease.error();
  if (!writer->run) drop(writer);
  return ok();
}

Status StorageWorld::close() {
  Writer* writer = some_writer();
  if (writer == nullptr) return ok();
  Status closed = server_->uploads.close(writer->upload.id, writer->upload.lease.secret);
  if (!closed && !may_happen(closed.error())) return closed;
  drop(writer);
  return ok();
}

Status StorageWorld::pin_or_unpin() {
  if (!pins_.empty() && chance(50)) {
    size_t which = below(pins_.size());
    CAIRN_CHECK_OK(server_->reads.unpin(pins_[which]));
    pins_.erase(pins_.begin() + static_cast<ptrdiff_t>(which));
    return ok();
  }
  const Volume& volume = volumes_[below(volumes_.size())];
  std::optional<int64_t> number;
  if (chance(50) && volume.newest > 0) number = static_cast<int64_t>(below(static_cast<uint64_t>(volume.newest) + 1));
  Result<volume::Pinned> pin = server_->reads.pin(volume.info.id, number, "reader");
  if (!pin) return may_happen(pin.error()) ? ok() : Status(pin.error());
  pins_.push_back(pin->pin);
  return ok();
}

Status StorageWorld::retain() {
  Result<int64_t> retired = server_->retention.run_all();
  if (!retired) return retired.error();
  report_.snapshots_retired += static_cast<int>(*retired);
  return ok();
}

Status StorageWorld::mark() {
  Result<volume::Mark> mark = server_->gc.mark(volumes_[below(volumes_.size())].info.store, soon());
  if (!mark) return may_happen(mark.error()) ? ok() : Status(mark.error());
  marks_.push_back(*std::move(mark));
  return ok();
}

// By any mark, however old.
Status StorageWorld::condemn() {
  if (marks_.empty()) return ok();
  size_t which = below(marks_.size());
  CAIRN_CHECK_OK(server_->gc.condemn(marks_[which]));
  if (chance(70)) marks_.erase(marks_.begin() + static_cast<ptrdiff_t>(which));
  return ok();
}

Status StorageWorld::sweep() {
  Result<volume::GcReport> report =
      server_->gc.sweep(volumes_[below(volumes_.size())].info.store, Deadline::never(), 50);
  if (!report) return may_happen(report.error()) ? ok() : Status(report.error());
  report_.packs_deleted += static_cast<int>(report->deleted);
  return ok();
}

// A stalled server sends an old DELETE (again).
Status StorageWorld::delete_late() {
  if (recording_.removed.empty()) return ok();
  object::ObjectKey key = recording_.removed[below(recording_.removed.size())];
  ++report_.late_deletes;
  return pristine_.remove(key, Deadline::never());
}

Status StorageWorld::pass_seconds() {
  clock_.advance(seconds(1 + below(20)));
  return stamp();
}

Status StorageWorld::pass_minutes() {
  for (uint64_t i = 4 * (1 + below(6)); i > 0; --i) {
    clock_.advance(seconds(30));
    CAIRN_CHECK_OK(stamp());
  }
  return ok();
}

// Nobody is there to stamp: no lease may expire by it.
Status StorageWorld::outage() {
  CAIRN_TRY(auto before, server_->leases.current(volumes_[0].info.id));
  clock_.advance(hours(1 + below(3)));
  CAIRN_CHECK_OK(restart());
  CAIRN_TRY(auto after, server_->leases.current(volumes_[0].info.id));
  if (before && (!after || after->lease != before->lease)) return violation("an outage ended a lease");
  return ok();
}

}  // namespace cairn::testing
