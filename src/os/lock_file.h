// A lock between processes: flock(2) on a file. It is held as long as the object lives, and by a child that inherits fd(); the
// kernel drops it when the last holder ends, however it ends. The file stays (removing it would let two hold "the" lock) and
// holds a line about the holder for error messages.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/result.h"
#include "os/fd.h"

namespace cairn::os {

class LockFile {
 public:
  LockFile() = default;
  // busy, naming the holder, when somebody else has it. `note` is what others then read, e.g. "cairn server, pid 123".
  static Result<LockFile> try_lock(const std::string& path, const std::string& note);
  // Waits for it.
  static Result<LockFile> lock(const std::string& path, const std::string& note, const Deadline& deadline);
  // A lock that this process inherited as an open descriptor.
  static LockFile adopt(Fd fd) { return LockFile(std::move(fd)); }

  bool held() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  void unlock() { fd_.reset(); }

 private:
  explicit LockFile(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// What the holder of `path` wrote about itself; empty when nobody ever locked it.
std::string lock_note(const std::string& path);

}  // namespace cairn::os
