// Whether somebody asked the trainer to end: SIGTERM or SIGINT (signal_stop), or a test. The first signal asks for an orderly end
// (finish the step, save, leave with exit code 130); the second leaves at once with the same code and saves nothing.
//
// Thread-safe.
#pragma once

#include "base/clock.h"

namespace cairn::trainer {

inline constexpr int kExitStopped = 130;

class StopRequest {
 public:
  virtual ~StopRequest() = default;
  virtual bool requested() const = 0;
  // Since the request; 0 without one.
  virtual Duration age() const = 0;
};

// Installs the handlers on first use, and lets in the signals that were held.
StopRequest& signal_stop();
// Keeps signals waiting, also past exec, until let in: so that a program that starts itself anew loses none.
void hold_stop_signals();
void let_stop_signals_in();
// The signal that asked, or 0.
int stop_signal_number();

}  // namespace cairn::trainer
