// The folders of a node cache and their locks:
//
//   lowers/<root>/tree      the files           lowers/<root>.part     one under construction, or left by a crash
//   lowers/<root>/manifest  entry spool         lowers/<root>.gone     one being removed
//   lowers/<root>/staged    marker, written last: volume, snapshot, files, bytes; its mtime is the last use
//   locks/<root>.lock       shared: in use; exclusive: being made or removed
//   keep/<root>/<holder>    spared by eviction, whoever lives
//
// Functions of the path only; the locks make them safe between processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "os/fd.h"
#include "os/tree.h"

namespace cairn::transfer {

struct LowerMarker {
  std::string volume;
  uint64_t snapshot = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  int64_t used_ns = 0;  // mtime of the marker
};

class LowerStore {
 public:
  explicit LowerStore(std::string dir) : dir_(std::move(dir)) {}
  Status prepare() const;

  std::string lower_dir(const std::string& root) const { return dir_ + "/lowers/" + root; }
  std::string part_dir(const std::string& root) const { return lower_dir(root) + ".part"; }
  std::string tree_dir(const std::string& root) const { return lower_dir(root) + "/tree"; }
  std::string manifest_file(const std::string& root) const { return lower_dir(root) + "/manifest"; }

  // The lower's marker when it is staged.
  std::optional<LowerMarker> marker(const std::string& root) const;
  Status write_marker(const std::string& folder, const LowerMarker& marker) const;
  // Its last use is now.
  void touch(const std::string& root) const;
  // All staged lowers.
  Result<std::vector<std::string>> roots() const;
  // Removes the folder `name` below lowers/ with everything in it.
  Status remove(const std::string& name) const;
  // The finished part becomes the lower. REQUIRES: the exclusive lock.
  Status install(const std::string& root) const;
  // What crashes left.
  Status remove_left_overs(const std::string& except_root) const;

  // A lock on the lower; an invalid descriptor when somebody holds it and `wait` is false; busy when
  // somebody holds it until the deadline.
  Result<os::Fd> lock(const std::string& root, bool exclusive, bool wait, const Deadline& deadline) const;

  Status keep(const std::string& root, const std::string& holder) const;
  Status release(const std::string& root, const std::string& holder) const;
  bool is_kept(const std::string& root) const;

 private:
  std::string dir_;
};

}  // namespace cairn::transfer
