// What a node says to the server: registering, polling, and the life of an attempt. The seam between agent and executor and
// the world; ApiServerLink speaks to a server through the typed client.
//
// Thread-safe; every call blocks at most until its deadline.
#pragma once

#include "api/types.h"
#include "base/deadline.h"
#include "base/result.h"

namespace cairn::client {
class ApiClient;
}

namespace cairn::agent {

class ServerLink {
 public:
  virtual ~ServerLink() = default;

  virtual Result<api::RegisteredNode> register_node(const api::RegisterNode& body, const Deadline& deadline) = 0;
  virtual Result<api::PollAnswer> poll(NodeId node, const api::PollNode& body, const Deadline& deadline) = 0;
  virtual Result<api::AttemptStart> start_attempt(AttemptId attempt, const api::StartAttempt& body,
                                                  const Deadline& deadline) = 0;
  virtual Result<api::AttemptHeartbeatAnswer> heartbeat(AttemptId attempt, const api::HeartbeatAttempt& body,
                                                        const Deadline& deadline) = 0;
  virtual Status finish(AttemptId attempt, const api::FinishAttempt& body, const Deadline& deadline) = 0;
  // Renews the lease of a writable mount. lease_lost when somebody took it.
  virtual Status heartbeat_upload(const api::Upload& upload, const Deadline& deadline) = 0;
};

class ApiServerLink final : public ServerLink {
 public:
  // `client` must outlive the link.
  explicit ApiServerLink(client::ApiClient& client) : client_(&client) {}
  Result<api::RegisteredNode> register_node(const api::RegisterNode& body, const Deadline& deadline) override;
  Result<api::PollAnswer> poll(NodeId node, const api::PollNode& body, const Deadline& deadline) override;
  Result<api::AttemptStart> start_attempt(AttemptId attempt, const api::StartAttempt& body,
                                          const Deadline& deadline) override;
  Result<api::AttemptHeartbeatAnswer> heartbeat(AttemptId attempt, const api::HeartbeatAttempt& body,
                                                const Deadline& deadline) override;
  Status finish(AttemptId attempt, const api::FinishAttempt& body, const Deadline& deadline) override;
  Status heartbeat_upload(const api::Upload& upload, const Deadline& deadline) override;

 private:
  client::ApiClient* client_;
};

}  // namespace cairn::agent
