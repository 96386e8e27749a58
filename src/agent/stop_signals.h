// Who of a sandbox's processes hears that the run is to end, and when. SIGTERM goes down from process 1 as far as it is heard: a
// program that handles it is told and is left to end its own children (a trainer its data loaders), while those of a shell, and of
// whatever would just die, are told as well. What only filters a pipe (`| tee log`) hears it last: it ends by itself when its
// input does, and whoever writes to it must not meet a broken pipe while saving. What loses its parent meanwhile is told then.
//
// Not thread-safe. A signal never reaches a stranger that got the number of a process that ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <utility>

namespace cairn::agent {

class StopSignals {
 public:
  // `init` is process 1 of the sandbox, as the caller sees it.
  explicit StopSignals(pid_t init) : init_(init) {}

  // Tells those whose turn it is and who have not heard yet. Called again and again until all have ended.
  void send();

 private:
  pid_t init_;
  std::set<std::pair<pid_t, int64_t>> told_;  // number and start time
};

}  // namespace cairn::agent
