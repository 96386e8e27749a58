// The typed client of the HTTP API: one method per route (docs/API.md), plus PUT and GET of signed URLs.
//
// Every mutation carries a request id and is sent again with the same id, with backoff and jitter, while the deadline lasts
// and the failure is one that waiting may cure (server_unavailable, busy, rate_limited, outcome_unknown ...). So a caller sees
// outcome_unknown only when the deadline ended first, and may then call again with the same request id where the method
// takes one. Reads are sent again likewise. Errors carry the server's code, message, hint and holder; what is no answer of a
// Cairn server (a proxy's page) becomes server_unavailable and names the URL. The token and signed URLs never stand in an
// error's text.
//
// Thread-safe. The transport, clock and random generator outlive the client.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/routes.h"
#include "api/types.h"
#include "base/clock.h"
#include "base/deadline.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"

namespace cairn::net {
class Transport;
}

namespace cairn::client {

struct ClientOptions {
  std::string url;    // "https://cairn.example.org" or "http://127.0.0.1:8470"; without a trailing '/'
  std::string token;  // empty: only version and health answer
  std::string team;   // sent with every request; servers without teams refuse it
  Duration try_timeout = seconds(60);   // of one attempt of one API call (long polls add their wait)
  Duration default_deadline = seconds(30);  // of a whole call when the caller has no better one
  Duration outage_patience = minutes(10);    // of one call while server, catalog or store is away, whatever its deadline
  Duration silence_patience = hours(1);      // of one call while nothing is answered, whatever was reached and its deadline
  Duration backoff_min = milliseconds(100);
  Duration backoff_max = seconds(5);
};

class ApiClient {
 public:
  ApiClient(net::Transport& transport, Clock& clock, Random& random, ClientOptions options);

  const ClientOptions& options() const { return options_; }
  // `default_deadline` from now.
  Deadline default_deadline(CancelToken token = {}) const;
  RequestId new_request_id();

  // The server and people.
  Result<api::ServerVersion> version(const Deadline& deadline);
  Result<api::WhoAmI> whoami(const Deadline& deadline);
  Result<api::User> create_user(const api::CreateUser& body, const Deadline& deadline);
  Result<api::UserList> list_users(const Deadline& deadline);
  Result<api::CreatedToken> create_token(const api::CreateToken& body, const Deadline& deadline);
  Result<api::TokenList> list_tokens(const Deadline& deadline);
  Status revoke_token(TokenId token, const Deadline& deadline);

  // Volumes. `volume` is a name, or the name of a workspace.
  Result<api::Volume> create_volume(const api::CreateVolume& body, const Deadline& deadline);
  Result<api::VolumeList> list_volumes(const Deadline& deadline);
  Result<api::Volume> get_volume(std::string_view volume, const Deadline& deadline);
  Result<api::Volume> expand_volume(std::string_view volume, const api::ExpandVolume& body, const Deadline& deadline);
  Result<api::DeletePreview> delete_preview(std::string_view volume, const Deadline& deadline);
  Status delete_volume(std::string_view volume, bool purge, const Deadline& deadline);
  Result<api::Volume> undelete_volume(std::string_view volume, const api::UndeleteVolume& body, const Deadline& deadline);
  Result<api::Volume> create_workspace(const api::CreateWorkspace& body, const Deadline& deadline);
  Result<api::SnapshotList> list_snapshots(std::string_view volume, const api::SnapshotsQuery& query,
                                           const Deadline& deadline);
  Status tag_snapshot(std::string_view volume, uint64_t number, const api::TagSnapshot& body, const Deadline& deadline);
  Status drop_side_snapshot(std::string_view volume, uint64_t number, const Deadline& deadline);
  Result<api::Volume> set_history(std::string_view volume, const api::SetHistory& body, const Deadline& deadline);
  Status break_lease(std::string_view volume, const Deadline& deadline);

  // Reading.
  Result<api::Pin> create_pin(std::string_view volume, const api::CreatePin& body, const Deadline& deadline);
  Status delete_pin(PinId pin, const Deadline& deadline);
  Result<api::ListingPage> listing(std::string_view volume, const api::ListingQuery& query, const Deadline& deadline);
  Result<api::EntryPage> list_entries(std::string_view volume, const api::EntriesQuery& query, const Deadline& deadline);
  Result<api::Usage> usage(std::string_view volume, const api::PathQuery& query, const Deadline& deadline);
  Result<api::Entry> stat(std::string_view volume, const api::PathQuery& query, const Deadline& deadline);
  Result<api::UrlGrant> request_urls(std::string_view volume, const api::RequestUrls& body, const Deadline& deadline);
  Result<api::Published> remove_paths(std::string_view volume, const api::RemovePaths& body, const Deadline& deadline);

  // Writing.
  // The secret is chosen here: neither the answer nor what the server keeps holds it.
  Result<api::Upload> open_upload(std::string_view volume, api::OpenUpload body, const Deadline& deadline);
  Result<api::HeartbeatAnswer> heartbeat_upload(UploadId upload, const api::Heartbeat& body, const Deadline& deadline);
  Result<api::PackGrant> request_packs(UploadId upload, const api::RequestPacks& body, const Deadline& deadline);
  Result<api::ResumablePacks> resumable_packs(UploadId upload, const api::RequestResumable& body,
                                              const Deadline& deadline);
  // `request`: the id of an earlier call whose outcome is unknown; none: a new one.
  Result<api::Published> publish(UploadId upload, const api::Publish& body, const Deadline& deadline,
                                 RequestId request = {});
  Status close_upload(UploadId upload, const api::CloseUpload& body, const Deadline& deadline);

  // Runs.
  Result<api::Run> create_run(const api::CreateRun& body, const Deadline& deadline);
  Result<api::RunList> list_runs(const api::RunsQuery& query, const Deadline& deadline);
  Result<api::Run> get_run(RunId run, const Deadline& deadline);
  Result<api::LogPage> run_logs(RunId run, const api::LogsQuery& query, const Deadline& deadline);
  Result<api::CheckpointList> run_checkpoints(RunId run, const Deadline& deadline);
  Result<api::Run> stop_run(RunId run, const api::StopRun& body, const Deadline& deadline);

  // Nodes and attempts.
  Result<api::NodeList> list_nodes(const Deadline& deadline);
  Result<api::RegisteredNode> register_node(const api::RegisterNode& body, const Deadline& deadline);
  Result<api::PollAnswer> poll_node(NodeId node, const api::PollNode& body, const Deadline& deadline);
  Result<api::AttemptStart> start_attempt(AttemptId attempt, const api::StartAttempt& body, const Deadline& deadline);
  Result<api::AttemptHeartbeatAnswer> heartbeat_attempt(AttemptId attempt, const api::HeartbeatAttempt& body,
                                                        const Deadline& deadline);
  Status finish_attempt(AttemptId attempt, const api::FinishAttempt& body, const Deadline& deadline);

  // Repeats `once`, a GET or PUT of an object, with backoff, while it fails by what waiting may cure. It is given up when the
  // deadline ends, or after `outage_patience` and no fewer than six tries.
  Status persist(const std::function<Status()>& once, const Deadline& deadline);

  // Fills `out` with the bytes [offset, offset + out.size()) behind a signed URL. One try: retries belong to the caller, who
  // knows when to ask for a new URL (url_invalid says that it has expired). data_corrupt when fewer bytes came.
  Status get_object(const std::string& url, uint64_t offset, std::span<uint8_t> out, const Deadline& deadline);

  // One PUT of exactly these bytes. object_exists (412) when an earlier try has arrived: the caller then registers the pack,
  // and the server's check of it decides. One try; a PUT whose answer was lost is outcome_unknown and is safe to repeat.
  // `sent` is called with the bytes newly handed to the network, for progress.
  Status put_object(const std::string& url, std::span<const uint8_t> bytes, const Deadline& deadline,
                    const std::function<void(uint64_t)>& sent = {});

 private:
  struct Call;
  struct Reply;
  struct Try;

  Result<Reply> perform(const Call& call, const Deadline& deadline);
  Try try_once(const Call& call, const Deadline& deadline);
  void wait_before_retry(int tries, Duration at_least, const Deadline& deadline);
  std::string absolute_url(const std::string& url) const;
  template <class Answer>
  Result<Answer> ask(const Call& call, const Deadline& deadline);
  Status tell(const Call& call, const Deadline& deadline);

  net::Transport& transport_;
  Clock& clock_;
  Random& random_;
  std::mutex random_mutex_;
  ClientOptions options_;
};

}  // namespace cairn::client
