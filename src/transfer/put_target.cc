// The rsync rule: where an upload lands.
#include "store/paths.h"
#include "transfer/put.h"

namespace cairn::transfer {

Result<RemoteTarget> resolve_put_target(const std::string& remote, const std::string& local_name, bool contents_only,
                                        bool is_directory) {
  CAIRN_TRY(std::string path, store::normalize_path(remote));
  bool into = remote.empty() || remote.back() == '/' || path.empty();
  if (into && !(is_directory && contents_only)) {
    if (local_name.empty() || local_name == "-") {
      return Error(Code::kPathInvalid, "no name for what is uploaded",
                   is_directory ? "end the remote path with a name" : "name the file: put VOLUME - FOLDER/NAME");
    }
    path = store::join_path(path, local_name);
  }
  if (!path.empty()) CAIRN_CHECK_OK(store::validate_path(path));
  if (store::is_under_runs(path)) {
    return Error(Code::kRunsReadOnly, "'" + store::escape_for_display(path) + "': runs/ is written by runs and sessions only",
                 "put to another path");
  }
  return RemoteTarget{path, !path.empty()};
}

}  // namespace cairn::transfer
