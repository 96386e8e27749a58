// The tables of attempts and of what they hold: one attempt is one start of an executor for a run. Functions on one
// transaction; states are the words of run/states.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "catalog/catalog_clock.h"
#include "catalog/db.h"

namespace cairn::catalog {

struct AttemptRow {
  AttemptId id;
  RunId run;
  int64_t number = 0;
  NodeId node;
  std::string state;
  std::string secret_hash;
  int64_t log_seq = 0;  // last line stored
  Time opened_at;
  std::optional<Time> started_at;
  LeaseTime seen_lease;
  std::optional<Time> ended_at;
};

struct AttemptGrantRow {
  int64_t position = 0;  // of the mount
  VolumeId volume;
  std::optional<UploadId> upload;
  std::optional<LeaseId> lease;
  std::optional<PinId> pin;
};

Status insert_attempt(Tx& tx, const AttemptRow& attempt);
Result<std::optional<AttemptRow>> find_attempt(Tx& tx, AttemptId id);
// The newest attempt of a run.
Result<std::optional<AttemptRow>> newest_attempt(Tx& tx, RunId run);
// Attempts of a node that have not ended (LOST and SUPERSEDED ones count until they report).
Result<std::vector<AttemptRow>> open_attempts(Tx& tx, NodeId node);
// Attempts in a state that heartbeats, last seen before `before`.
Result<std::vector<AttemptRow>> silent_attempts(Tx& tx, LeaseTime before);

// True when the attempt was in `from`.
Result<bool> move_attempt(Tx& tx, AttemptId id, std::string_view from, std::string_view to, std::optional<Time> started_at,
                          std::optional<Time> ended_at);
Result<bool> set_attempt_secret(Tx& tx, AttemptId id, std::string_view secret_hash);
Result<bool> touch_attempt(Tx& tx, AttemptId id, LeaseTime lease_now);
Result<bool> set_attempt_log_seq(Tx& tx, AttemptId id, int64_t from, int64_t to);

// Replaces what the attempt holds.
Status set_attempt_grants(Tx& tx, AttemptId id, const std::vector<AttemptGrantRow>& grants);
Result<std::vector<AttemptGrantRow>> attempt_grants(Tx& tx, AttemptId id);

}  // namespace cairn::catalog
