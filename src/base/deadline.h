// A Deadline bounds a call in time and lets it be cancelled: it goes down every blocking call that waits on disk, network or
// another thread. A child deadline can only be earlier than its parent's. A CancelToken is shared by all who wait on one
// piece of work; Ctrl-C and graceful stop set it.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/result.h"

namespace cairn {

class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  void cancel() const { flag_->store(true); }
  bool cancelled() const { return flag_->load(); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

class Deadline {
 public:
  // Never expires by itself; can be cancelled.
  static Deadline never(CancelToken token = {}) { return Deadline(system_clock(), Duration::max(), std::move(token)); }
  static Deadline after(Duration duration, Clock& clock = system_clock(), CancelToken token = {}) {
    return Deadline(clock, clock.monotonic() + duration, std::move(token));
  }
  // The same token; at most `duration` from now and never later than this one.
  Deadline child(Duration duration) const {
    return Deadline(*clock_, std::min(at_, clock_->monotonic() + duration), token_);
  }

  bool expired() const { return token_.cancelled() || clock_->monotonic() >= at_; }
  // Zero when expired.
  Duration remaining() const {
    if (token_.cancelled()) return Duration(0);
    return at_ == Duration::max() ? Duration::max() : std::max(Duration(0), at_ - clock_->monotonic());
  }
  // cancelled, deadline_exceeded, or ok.
  Status check() const {
    if (token_.cancelled()) return Error(Code::kCancelled, "cancelled");
    if (clock_->monotonic() >= at_) return Error(Code::kDeadlineExceeded, "the time for this call is over");
    return ok();
  }
  const CancelToken& token() const { return token_; }

 private:
  Deadline(Clock& clock, Duration at, CancelToken token) : clock_(&clock), at_(at), token_(std::move(token)) {}
  Clock* clock_;
  Duration at_;
  CancelToken token_;
};

}  // namespace cairn
