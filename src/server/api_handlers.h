// The API's handlers, one per route: decode, call the domain, encode. What they have in common (who may, idempotency, errors)
// is in app.cc.
//
// A handler that changes something passes `also` to the domain call, so that its answer is stored under the request id, and
// an audit event written, in the same transaction.
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>

#include "api/types.h"
#include "http/message.h"
#include "server/call.h"
#include "server/services.h"

namespace cairn::server {

class ApiHandlers {
 public:
  explicit ApiHandlers(Services& services) : s_(services) {}

  Result<http::Response> handle(Call& call);

 private:
  using Answer = Result<http::Response>;

  // account_handlers.cc
  Answer version(Call& call);
  Answer whoami(Call& call);
  Answer create_user(Call& call);
  Answer list_users(Call& call);
  Answer create_token(Call& call);
  Answer list_tokens(Call& call);
  Answer revoke_token(Call& call);

  // volume_handlers.cc
  Answer create_volume(Call& call);
  Answer list_volumes(Call& call);
  Answer get_volume(Call& call);
  Answer expand_volume(Call& call);
  Answer delete_preview(Call& call);
  Answer delete_volume(Call& call);
  Answer undelete_volume(Call& call);
  Answer create_workspace(Call& call);
  Answer list_snapshots(Call& call);
  Answer tag_snapshot(Call& call);
  Answer drop_side_snapshot(Call& call);
  Answer set_history(Call& call);
  Answer break_lease(Call& call);

  // read_handlers.cc
  Answer create_pin(Call& call);
  Answer delete_pin(Call& call);
  Answer listing(Call& call);
  Answer list_entries(Call& call);
  Answer usage(Call& call);
  Answer stat(Call& call);
  Answer request_urls(Call& call);
  Answer remove_paths(Call& call);

  // upload_handlers.cc
  Answer open_upload(Call& call);
  Answer heartbeat_upload(Call& call);
  Answer request_packs(Call& call);
  Answer resumable_packs(Call& call);
  Answer publish(Call& call);
  Answer close_upload(Call& call);

  // run_handlers.cc
  Answer create_run(Call& call);
  Answer list_runs(Call& call);
  Answer get_run(Call& call);
  Answer run_logs(Call& call);
  Answer run_checkpoints(Call& call);
  Answer stop_run(Call& call);
  Answer list_nodes(Call& call);
  Answer register_node(Call& call);
  Answer poll_node(Call& call);
  Answer start_attempt(Call& call);
  Answer heartbeat_attempt(Call& call);
  Answer finish_attempt(Call& call);

  volume::Actor actor(const Call& call) const { return {call.who.user, call.who.name}; }
  // The asker's own volume of that name.
  Result<volume::VolumeInfo> own_volume(const Call& call) { return s_.volumes.find(call.who.user, call.name()); }
  Result<Time> now(const Deadline& deadline);

  // Stores the answer and notes the change, in the transaction that makes it.
  Status record(catalog::Tx& tx, Call& call, const std::string& answer, const char* action, const char* kind,
                const std::string& name);
  template <class T, class Convert>
  volume::AlsoInTx<T> recording(Call& call, const char* action, const char* kind, std::string name, Convert convert) {
    return [this, &call, action, kind, name = std::move(name), convert](catalog::Tx& tx, const T& value) {
      return record(tx, call, api::to_json(convert(value)), action, kind, name);
    };
  }
  // For a domain call that offers no place for it.
  Status note(Call& call, const char* action, const char* kind, const std::string& name);
  // For a change of the volume the call names that answers nothing.
  template <class T>
  volume::AlsoInTx<T> recording_done(Call& call, const char* action) {
    return [this, &call, action](catalog::Tx& tx, const T&) { return record(tx, call, kDone, action, "volume", call.name()); };
  }
  static constexpr const char* kDone = "{}";
  static Answer done() { return http::Response::json(200, kDone); }

  Services& s_;
};

}  // namespace cairn::server
