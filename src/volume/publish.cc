#include "volume/publish.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "catalog/stores.h"
#include "catalog/utf8.h"
#include "codec/digest.h"
#include "codec/hex.h"
#include "volume/publish_impl.h"
#include "volume/rows.h"

namespace cairn::volume {
namespace {

constexpr Duration kPollPause = milliseconds(100);
constexpr int64_t kResumedPerCall = 100;

std::string body_hash(const PublishRequest& request) {
  codec::Sha256 hash;
  hash.update("publish\n").update(request.upload.hex()).update("\n").update(secret_hash(request.secret)).update("\n");
  hash.update(request.changeset.hex()).update("\n").update(request.kind).update("\n");
  hash.update(request.interim ? "1\n" : "0\n").update(std::to_string(request.base_snapshot.value_or(-1))).update("\n");
  hash.update(request.message);
  return hash.finish().hex();
}

Status check_request(const PublishRequest& request) {
  static constexpr std::array<std::string_view, 7> kKinds = {"put", "checkpoint", "final",  "save",
                                                             "log", "remove",     "restore"};
  if (request.request.is_none()) return Error(Code::kRequestInvalid, "a publication needs a request id");
  if (std::find(kKinds.begin(), kKinds.end(), request.kind) == kKinds.end()) {
    return Error(Code::kRequestInvalid, "a publication's kind is put, checkpoint, final, save, log, remove or restore");
  }
  if (request.message.size() > 4096 || !catalog::is_catalog_text(request.message)) {
    return Error(Code::kRequestInvalid, "a publication's message is at most 4096 bytes of UTF-8 text");
  }
  return ok();
}

Publication result_of(const catalog::PublishOpRow& op) {
  Publication result;
  result.snapshot = op.snapshot_number;
  result.root = op.root_digest;
  result.entries = op.entries;
  result.files = op.files;
  result.bytes = op.bytes;
  result.side = !op.side_label.empty();
  result.side_label = op.side_label;
  result.side_reason = op.side_reason;
  return result;
}

Error error_of(const catalog::PublishOpRow& op) {
  return Error(code_from_wire(op.error_code).value_or(Code::kInternal), op.error_message, op.error_hint);
}

std::string catalog_text(const std::string& text) {
  return catalog::is_catalog_text(text) ? text : codec::hex_encode(text);
}

// Whether asking again can give another answer: the operation stays open then.
bool leaves_open(const Error& error) {
  switch (retry_class(error.code())) {
    case RetryClass::kBackoff:
    case RetryClass::kReadBack: return true;
    case RetryClass::kNever:
    case RetryClass::kAfterHolder: break;
  }
  return error.code() == Code::kCancelled || error.code() == Code::kIoError || error.code() == Code::kInternal;
}

}  // namespace

Publisher::Publisher(Context& context) : impl_(std::make_unique<Impl>(context)) {}
Publisher::~Publisher() = default;

void Publisher::set_step_hook(std::function<Status(std::string_view)> hook) {
  impl_->hook = std::move(hook);
}
void Publisher::disable_touch_for_canary() {
  impl_->touch = false;
}

Result<Publication> Publisher::publish(const PublishRequest& request, Deadline deadline,
                                       const AlsoInTx<Publication>& also) {
  CAIRN_CHECK_OK(check_request(request));
  const std::string hash = body_hash(request);
  CAIRN_TRY(catalog::PublishOpRow op,
            impl_->context.db.transact(
                [&](catalog::Tx& tx) -> Result<catalog::PublishOpRow> {
                  CAIRN_TRY(std::optional<catalog::PublishOpRow> found,
                            catalog::publish_ops::find(tx, request.request));
                  if (found) return *std::move(found);
                  CAIRN_TRY(Writer writer, authorize(tx, request.upload, request.secret));
                  if (request.interim && !keeps_work_aside(writer.upload)) {
                    return Error(Code::kRequestInvalid, "only runs and sessions publish interim snapshots");
                  }
                  catalog::PublishOpRow row;
                  row.request = request.request;
                  row.body_hash = hash;
                  row.volume = writer.upload.volume;
                  row.upload = request.upload;
                  row.changeset = request.changeset;
                  row.kind = request.kind;
                  row.message = request.message;
                  row.interim = request.interim;
                  row.base_number = request.base_snapshot;
                  CAIRN_TRY(row.created, impl_->context.catalog_clock.now(tx));
                  CAIRN_TRY(bool inserted, catalog::publish_ops::insert(tx, row));
                  if (!inserted)
                    return Error(Code::kBusy, "the same request is being taken by another server", "ask again");
                  return row;
                },
                deadline));
  if (op.body_hash != hash) {
    return Error(Code::kRequestIdReused, "request " + request.request.hex() + " was used for another publication",
                 "use a new request id for another body");
  }
  return impl_->drive(op.request, deadline, also);
}

// Waits for the volume's turn, or for whoever is working on this very operation.
Result<Publication> Publisher::Impl::drive(RequestId request, const Deadline& deadline,
                                           const AlsoInTx<Publication>& also) {
  const Deadline turn = deadline.child(context.settings.publish_wait);
  while (true) {
    CAIRN_TRY(std::optional<catalog::PublishOpRow> op,
              context.db.read([&](catalog::Tx& tx) { return catalog::publish_ops::find(tx, request); }));
    if (!op) return Error(Code::kRequestInvalid, "the publication is too old to ask for");
    if (op->state == "done") return result_of(*op);
    if (op->state == "failed") return error_of(*op);
    Attempt attempt;
    attempt.op = *std::move(op);
    CAIRN_TRY(bool claimed, claim(attempt));
    if (claimed) return run(attempt, deadline, also);
    if (turn.expired()) {
      return Error(Code::kBusy, "another publication of this volume is under way",
                   "ask again with the same request id");
    }
    context.clock.sleep_for(kPollPause);
  }
}

Result<bool> Publisher::Impl::claim(Attempt& attempt) {
  std::array<uint8_t, 16> bytes;
  context.random.fill(bytes);
  attempt.claim = codec::hex_encode(bytes);
  attempt.claim_renewed = context.clock.monotonic();
  return context.db.transact([&](catalog::Tx& tx) -> Result<bool> {
    CAIRN_TRY(catalog::LeaseTime now, context.catalog_clock.lease_now(tx));
    return catalog::volumes::claim_publishing(tx, attempt.op.volume, attempt.op.request, attempt.claim,
                                              now + context.settings.publish_claim_time);
  });
}

Status Publisher::Impl::keep_claim(Attempt& attempt) {
  Duration now = context.clock.monotonic();
  if (now - attempt.claim_renewed < context.settings.publish_claim_time / 6) return ok();
  attempt.claim_renewed = now;
  Result<bool> open = context.db.transact([&](catalog::Tx& tx) -> Result<bool> {
    CAIRN_TRY(catalog::LeaseTime lease_now, context.catalog_clock.lease_now(tx));
    CAIRN_CHECK_OK(catalog::volumes::renew_publishing(tx, attempt.op.volume, attempt.claim,
                                                      lease_now + context.settings.publish_claim_time));
    return is_open(tx, attempt.op.request);
  });
  if (!open) {
    log_warning("a publication's claim was not renewed: {}", open.error().to_string());
    return ok();
  }
  return *open ? ok() : finished_elsewhere();
}

Result<Publication> Publisher::Impl::run(Attempt& attempt, const Deadline& deadline,
                                         const AlsoInTx<Publication>& also) {
  // The head or a pack of our own may go between reading and swapping: then all is done again from the new state.
  constexpr int kAttemptsMax = 5;
  Result<Publication> result =
      Error(Code::kBusy, "the volume changes all the time", "ask again with the same request id");
  for (int i = 0; i < kAttemptsMax; ++i) {
    attempt.again = false;
    attempt.own_packs.clear();
    result = build_and_swap(attempt, deadline, also);
    if (attempt.crashed) return result;
    if (result || !attempt.again) break;
  }
  if (!result) {
    // A commit without an answer may have happened, or another server finished it: the row says so, whatever this
    // attempt met afterwards (a removal ends its own lease).
    auto row = context.db.read([&](catalog::Tx& tx) { return catalog::publish_ops::find(tx, attempt.op.request); });
    if (row && *row && (*row)->state == "done") return result_of(**row);
  }
  if (!result && !leaves_open(result.error())) {
    const Error& error = result.error();
    Status failed = context.db.transact([&](catalog::Tx& tx) -> Status {
      CAIRN_TRY(Time now, context.catalog_clock.now(tx));
      CAIRN_CHECK_OK(catalog::publish_ops::fail(tx, attempt.op.request, std::string(wire_name(error.code())),
                                                catalog_text(error.message()), catalog_text(error.hint()), now));
      return catalog::volumes::release_publishing(tx, attempt.op.volume, attempt.claim);
    });
    if (!failed) log_warning("a publication's failure was not recorded: {}", failed.error().to_string());
    return result;
  }
  if (!result) {
    Status released = context.db.transact(
        [&](catalog::Tx& tx) { return catalog::volumes::release_publishing(tx, attempt.op.volume, attempt.claim); });
    if (!released) log_warning("a publication's claim was not released: {}", released.error().to_string());
  }
  return result;
}

Result<int64_t> Publisher::resume_abandoned(Deadline deadline) {
  CAIRN_TRY(std::vector<catalog::PublishOpRow> running, impl_->context.db.read([&](catalog::Tx& tx) {
    return catalog::publish_ops::list_running(tx, kResumedPerCall);
  }));
  int64_t finished = 0;
  for (catalog::PublishOpRow& op : running) {
    Attempt attempt;
    attempt.op = std::move(op);
    CAIRN_TRY(bool claimed, impl_->claim(attempt));
    if (!claimed) continue;
    Result<Publication> result = impl_->run(attempt, deadline, {});
    if (attempt.crashed) return std::move(result).error();
    if (result || !leaves_open(result.error())) ++finished;
    if (!result) log_info("publication {} did not go on: {}", attempt.op.request.hex(), result.error().to_string());
  }
  return finished;
}

Status Publisher::drop_claims() {
  return impl_->context.db.transact([](catalog::Tx& tx) { return catalog::volumes::drop_publishing_claims(tx); });
}

}  // namespace cairn::volume
