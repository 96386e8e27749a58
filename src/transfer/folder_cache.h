// The folder that was used last, held open: paths come in order, so one folder serves many entries and each of them costs one
// system call instead of three. One thread; the root outlives it.
#pragma once

#include <string>
#include <string_view>

#include "os/tree.h"
#include "store/paths.h"

namespace cairn::transfer {

class FolderCache {
 public:
  explicit FolderCache(const os::Directory& root) : root_(root) {}

  // The folder that holds `relative`; valid until the next call.
  Result<const os::Directory*> parent_of(std::string_view relative) {
    std::string_view parent = store::parent_path(relative);
    if (parent.empty()) return &root_;
    if (!folder_.valid() || path_ != parent) {
      folder_ = os::Directory();
      CAIRN_TRY(folder_, root_.open_directory(parent));
      path_ = parent;
    }
    return &folder_;
  }

 private:
  const os::Directory& root_;
  std::string path_;
  os::Directory folder_;
};

}  // namespace cairn::transfer
