// The table `publish_ops`: one row a publication, keyed by its request id. running → done | failed; the result stays
// for at least a week, so that asking again gets the same answer.
//
// Typed statements inside the caller's transaction. Who works on it is said by the volume's publishing claim.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/db.h"

namespace cairn::catalog {

struct PublishOpRow {
  RequestId request;
  std::string body_hash;
  VolumeId volume;
  UploadId upload;
  PackId changeset;
  std::string kind;
  std::string message;
  bool interim = false;
  std::optional<int64_t> base_number;
  std::string state = "running";
  // Of a done one:
  int64_t snapshot_number = 0;
  std::string root_digest;
  int64_t entries = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  std::string side_label;
  std::string side_reason;
  // Of a failed one: wire name, message, hint.
  std::string error_code;
  std::string error_message;
  std::string error_hint;
  Time created;
};

namespace publish_ops {

// False when there is one under that request id.
Result<bool> insert(Tx& tx, const PublishOpRow& row);
Result<std::optional<PublishOpRow>> find(Tx& tx, RequestId request);
// Writes the result fields of `row`; false unless it was running.
Result<bool> finish(Tx& tx, const PublishOpRow& row, Time now);
Result<bool> fail(Tx& tx, RequestId request, const std::string& code, const std::string& message,
                  const std::string& hint, Time now);
// Oldest first.
Result<std::vector<PublishOpRow>> list_running(Tx& tx, int64_t limit);
Result<int64_t> remove_finished(Tx& tx, Time before, int64_t limit);
Status remove_of_volume(Tx& tx, VolumeId volume);

}  // namespace publish_ops
}  // namespace cairn::catalog
