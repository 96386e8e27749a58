#include "trainer/stop_request.h"

#include <csignal>
#include <ctime>
#include <unistd.h>

#include <atomic>

namespace cairn::trainer {
namespace {

std::atomic<int> signal_number{0};
std::atomic<int64_t> asked_at_us{0};
static_assert(std::atomic<int64_t>::is_always_lock_free, "used in a signal handler");

int64_t monotonic_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

void on_signal(int number) {
  if (signal_number.load() != 0) _exit(kExitStopped);
  asked_at_us = monotonic_us();
  signal_number = number;
}

void mask_stop_signals(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(how, &signals, nullptr);
}

class SignalStop final : public StopRequest {
 public:
  SignalStop() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    let_stop_signals_in();
  }
  bool requested() const override { return signal_number.load() != 0; }
  Duration age() const override { return requested() ? Duration(monotonic_us() - asked_at_us.load()) : Duration(0); }
};

}  // namespace

StopRequest& signal_stop() {
  static auto* instance = new SignalStop();
  return *instance;
}

void hold_stop_signals() { mask_stop_signals(SIG_BLOCK); }
void let_stop_signals_in() { mask_stop_signals(SIG_UNBLOCK); }

int stop_signal_number() { return signal_number.load(); }

}  // namespace cairn::trainer
