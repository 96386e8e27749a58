// A file under construction beside its final name, `.cairn-<hash>.part`, the same for every try, so that an interrupted one is
// found again. It is locked while it is written: whoever finds it locked (two downloads into one place) writes under a name of
// its own, so each brings its whole file under the final name, and neither ever renames what the other is writing.
//
// One thread at a time. The folder outlives it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "os/fd.h"
#include "os/tree.h"

namespace cairn::transfer {

class PartFile {
 public:
  // `in_place`: the folder is private, the file has its final name at once and no lock.
  PartFile(const os::Directory& root, std::string relative, bool in_place);

  // Opens what an interrupted try left, if it has `size` bytes; false when there is nothing to go on with.
  Result<bool> open_left_over(uint64_t size);
  // Opens it, empty.
  Status open();
  int fd() const { return fd_.get(); }
  bool is_open() const { return fd_.valid(); }
  // A later try finds it by its name.
  bool can_be_resumed() const { return !in_place_ && !own_name_; }
  // It takes its final name; the descriptor stays open. file_changed when somebody put another file in its place.
  Status install() const;
  Status close() { return os::close_fd(std::move(fd_), relative_); }
  // Closes and removes it. REQUIRES: not installed.
  void drop();

 private:
  Result<bool> claim();
  Result<bool> lock(os::Fd file);
  Result<bool> is_named() const;

  const os::Directory& root_;
  const std::string relative_;
  const bool in_place_;
  std::string name_;
  bool own_name_ = false;
  os::Fd fd_;
};

// A name beside `relative` that no other try has.
std::string own_part_name(const std::string& relative);

}  // namespace cairn::transfer
