// The attempt's sign of life, from a thread of its own: state, progress and log lines to the server, every writable mount's
// lease renewed. A lease that somebody took is said in the run's log. A server that does not answer changes nothing for the run;
// one that says stop, or that no longer knows the attempt, cancels `end`.
//
// Thread-safe. The destructor ends the thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/log_spool.h"
#include "agent/server_link.h"
#include "base/clock.h"
#include "base/deadline.h"

namespace cairn::agent {

class Heartbeat {
 public:
  // `outside` is watched too (a signal to this process) and cancels `end` as the server's stop does.
  Heartbeat(ServerLink& server, LogSpool& spool, const api::AttemptStart& start, std::string secret, CancelToken outside,
            CancelToken end);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Sent at once.
  void set_state(api::RunState state, std::string message);
  void set_message(std::string message);
  void set_pending(api::PendingState pending, bool safe_to_stop);
  void set_saved(api::SavedState saved);

  // Returns when the server knows that the node was restarted; cancelled when `cancel` comes first.
  Status tell_reboot(const CancelToken& cancel);

  bool stop_asked() const;  // by the server
  uint64_t grace_seconds() const;
  // Waits until the server has every log line so far, or will not take them; false when neither came within `timeout`.
  bool flush(Duration timeout);

 private:
  void loop();
  bool beat();  // true when more log lines wait
  void renew_leases();

  ServerLink& server_;
  LogSpool& spool_;
  AttemptId attempt_;
  std::string secret_;
  struct WriterLease {
    std::string volume;
    api::Upload upload;
    bool lost = false;  // only the thread looks
  };
  std::vector<WriterLease> leases_;
  Duration interval_;
  CancelToken outside_;
  CancelToken end_;
  CancelToken quit_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  api::RunState state_ = api::RunState::kCreating;
  std::string message_;
  api::PendingState pending_;
  bool safe_to_stop_ = true;
  bool after_reboot_ = false;
  bool reboot_known_ = false;
  std::optional<api::SavedState> saved_;
  bool dirty_ = true;
  bool stop_asked_ = false;
  bool failing_ = false;
  uint64_t grace_seconds_;
  uint64_t acknowledged_ = 0;
  bool lines_refused_ = false;  // what waits will not be taken, or cannot be read back
  std::thread thread_;
};

}  // namespace cairn::agent
