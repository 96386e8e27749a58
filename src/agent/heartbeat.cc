#include "agent/heartbeat.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/log.h"

namespace cairn::agent {
namespace {

constexpr Duration kCallTimeout = seconds(20);
constexpr Duration kLogDelay = milliseconds(500);  // how long new lines wait for company

bool is_final_answer(const Error& error) {
  return error.code() == Code::kNotAllowed || error.code() == Code::kRunStateConflict || error.code() == Code::kRunNotFound;
}

}  // namespace

Heartbeat::Heartbeat(ServerLink& server, LogSpool& spool, const api::AttemptStart& start, std::string secret,
                     CancelToken outside, CancelToken end)
    : server_(server), spool_(spool), attempt_(start.attempt), secret_(std::move(secret)),
      interval_(seconds(std::clamp<int64_t>(static_cast<int64_t>(start.heartbeat_seconds), 1, 60))),
      outside_(std::move(outside)), end_(std::move(end)), grace_seconds_(start.grace_seconds) {
  for (const api::MountGrant& mount : start.mounts) {
    if (mount.upload) leases_.push_back({mount.volume, *mount.upload});
  }
  thread_ = std::thread([this] { loop(); });
}

Heartbeat::~Heartbeat() {
  quit_.cancel();
  {
    std::lock_guard lock(mutex_);
    dirty_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Heartbeat::set_state(api::RunState state, std::string message) {
  std::lock_guard lock(mutex_);
  state_ = state;
  message_ = std::move(message);
  dirty_ = true;
  changed_.notify_all();
}

void Heartbeat::set_message(std::string message) {
  std::lock_guard lock(mutex_);
  message_ = std::move(message);
}

void Heartbeat::set_pending(api::PendingState pending, bool safe_to_stop) {
  std::lock_guard lock(mutex_);
  pending_ = pending;
  safe_to_stop_ = safe_to_stop;
}

void Heartbeat::set_saved(api::SavedState saved) {
  std::lock_guard lock(mutex_);
  saved_ = saved;
  dirty_ = true;
  changed_.notify_all();
}

Status Heartbeat::tell_reboot(const CancelToken& cancel) {
  std::unique_lock lock(mutex_);
  after_reboot_ = true;
  dirty_ = true;
  changed_.notify_all();
  while (!reboot_known_) {
    if (cancel.cancelled()) return Error(Code::kCancelled, "cancelled before the server heard of the node's restart");
    changed_.wait_for(lock, milliseconds(200));
    dirty_ = true;
  }
  return ok();
}

bool Heartbeat::stop_asked() const {
  std::lock_guard lock(mutex_);
  return stop_asked_;
}

uint64_t Heartbeat::grace_seconds() const {
  std::lock_guard lock(mutex_);
  return grace_seconds_;
}

bool Heartbeat::flush(Duration timeout) {
  uint64_t wanted = spool_.last_sequence();
  std::unique_lock lock(mutex_);
  dirty_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, timeout, [&] { return acknowledged_ >= wanted || lines_refused_; });
}

void Heartbeat::renew_leases() {
  for (WriterLease& lease : leases_) {
    if (lease.lost) continue;
    Status status = server_.heartbeat_upload(lease.upload, Deadline::after(kCallTimeout, system_clock(), quit_));
    // An upload that is closed has no lease either.
    if (status || (status.error().code() != Code::kLeaseLost && status.error().code() != Code::kUploadExpired)) continue;
    lease.lost = true;
    spool_.note(fmt::format("the writer lease of '{}' was lost ({}); what this run changes there is kept aside at its end",
                            lease.volume, status.error().message()));
  }
}

bool Heartbeat::beat() {
  api::HeartbeatAttempt body;
  uint64_t acknowledged = 0;
  {
    std::lock_guard lock(mutex_);
    body.secret = secret_;
    body.state = state_;
    body.message = message_;
    body.pending = pending_;
    body.safe_to_stop = safe_to_stop_;
    body.after_reboot = after_reboot_;
    body.saved = saved_;
    acknowledged = acknowledged_;
    dirty_ = false;
  }
  auto batch = spool_.batch_after(acknowledged);
  if (batch) {
    body.log_sequence = batch->first_sequence;
    body.logs = std::move(batch->records);
  } else {
    log_error("cannot read back the captured log: {}", batch.error().to_string());
  }
  auto answer = server_.heartbeat(attempt_, body, Deadline::after(kCallTimeout, system_clock(), quit_));
  std::lock_guard lock(mutex_);
  lines_refused_ = !batch || (!answer && retry_class(answer.error().code()) == RetryClass::kNever);
  if (!answer) {
    if (!failing_ && !quit_.cancelled()) log_warning("heartbeat: {}", answer.error().to_string());
    failing_ = true;
    if (is_final_answer(answer.error())) {
      end_.cancel();
      reboot_known_ = true;  // it holds no lease any more
    }
    changed_.notify_all();
    return false;
  }
  failing_ = false;
  if (body.after_reboot) reboot_known_ = true;
  bool advanced = answer->log_sequence > acknowledged_;
  if (!body.logs.empty() && answer->log_sequence == acknowledged_) lines_refused_ = true;
  // Fewer than before: its catalog is an older one, and what it lost is sent again.
  acknowledged_ = answer->log_sequence;
  // More than there are: a power loss took lines that were sent. What is written from here on must not pass for those.
  spool_.go_on_after(answer->log_sequence);
  changed_.notify_all();
  if (answer->stop) {
    stop_asked_ = true;
    grace_seconds_ = answer->grace_seconds;
    end_.cancel();
  }
  return advanced && acknowledged_ < spool_.last_sequence();
}

void Heartbeat::loop() {
  using SteadyTime = std::chrono::steady_clock::time_point;
  SteadyTime next_beat{};
  while (!quit_.cancelled()) {
    if (outside_.cancelled()) end_.cancel();
    bool more = false;
    bool due = std::chrono::steady_clock::now() >= next_beat;
    bool wanted = false;
    {
      std::lock_guard lock(mutex_);
      wanted = dirty_ || (!failing_ && acknowledged_ < spool_.last_sequence());
    }
    if (due || wanted) {
      more = beat();
      if (due) renew_leases();
      if (due) next_beat = std::chrono::steady_clock::now() + interval_;
    }
    if (more) continue;
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLogDelay, [&] { return dirty_ && !failing_; });
  }
}

}  // namespace cairn::agent
