#include "agent/server_link.h"

#include "client/api_client.h"

namespace cairn::agent {

Result<api::RegisteredNode> ApiServerLink::register_node(const api::RegisterNode& body, const Deadline& deadline) {
  return client_->register_node(body, deadline);
}

Result<api::PollAnswer> ApiServerLink::poll(NodeId node, const api::PollNode& body, const Deadline& deadline) {
  return client_->poll_node(node, body, deadline);
}

Result<api::AttemptStart> ApiServerLink::start_attempt(AttemptId attempt, const api::StartAttempt& body,
                                                       const Deadline& deadline) {
  return client_->start_attempt(attempt, body, deadline);
}

Result<api::AttemptHeartbeatAnswer> ApiServerLink::heartbeat(AttemptId attempt, const api::HeartbeatAttempt& body,
                                                             const Deadline& deadline) {
  return client_->heartbeat_attempt(attempt, body, deadline);
}

Status ApiServerLink::finish(AttemptId attempt, const api::FinishAttempt& body, const Deadline& deadline) {
  return client_->finish_attempt(attempt, body, deadline);
}

Status ApiServerLink::heartbeat_upload(const api::Upload& upload, const Deadline& deadline) {
  api::Heartbeat body;
  body.secret = upload.secret;
  auto answer = client_->heartbeat_upload(upload.upload, body, deadline);
  if (!answer) return std::move(answer).error();
  return ok();
}

}  // namespace cairn::agent
