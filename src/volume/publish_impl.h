// The state behind a Publisher. Private to volume/.
#pragma once

#include "volume/publish.h"
#include "volume/publish_parts.h"
#include "volume/store_access.h"
#include "volume/uploads.h"

namespace cairn::volume {

struct Publisher::Impl {
  explicit Impl(Context& the_context) : context(the_context), indexes(the_context), sources(the_context) {}

  Result<Publication> drive(RequestId request, const Deadline& deadline, const AlsoInTx<Publication>& also);
  Result<bool> claim(Attempt& attempt);
  // Renews the claim when that was some time ago. A claim that somebody took all the same ends nothing as long as the
  // operation is open (busy when it is not): this attempt is ahead of its taker's, and the swap lets one of them
  // through.
  Status keep_claim(Attempt& attempt);
  Result<Publication> run(Attempt& attempt, const Deadline& deadline, const AlsoInTx<Publication>& also);
  Result<Publication> build_and_swap(Attempt& attempt, const Deadline& deadline, const AlsoInTx<Publication>& also);
  // Reads writer, volume and base; decides whether the publication goes aside.
  Status begin(Attempt& attempt);
  Status merge(Attempt& attempt, const Deadline& deadline);
  // Whether the contents fit; may turn the publication aside.
  Status check_size(Attempt& attempt);
  Result<Publication> swap(Attempt& attempt, const AlsoInTx<Publication>& also, const Deadline& deadline);
  // Writes and registers the changeset of an `rm` and its operation row.
  Status begin_removal(const RemoveRequest& request, const std::string& hash, const std::vector<std::string>& paths,
                       const OpenUpload& upload, const Deadline& deadline);
  Status touch_packs(catalog::Tx& tx, const Attempt& attempt);
  // Ends an operation that changes nothing.
  Result<Publication> finish_unchanged(Attempt& attempt, const AlsoInTx<Publication>& also, const Deadline& deadline);
  // What every end has in common: the operation's result, the upload's end where it was the server's own.
  Status finish(catalog::Tx& tx, Attempt& attempt, const Publication& result, Time now);

  Context& context;
  PackIndexes indexes;
  NodeSources sources;
  std::function<Status(std::string_view)> hook;
  bool touch = true;
};

}  // namespace cairn::volume
