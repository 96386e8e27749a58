// A bounded queue between threads that can end in two ways: close() lets the readers finish what is in it, abort() wakes
// everybody at once and drops it. Also the first error of a group of threads (FirstError).
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "base/result.h"

namespace cairn::transfer {

template <class T>
class Channel {
 public:
  explicit Channel(size_t capacity) : capacity_(capacity) {}

  // False when the channel was closed or aborted: the item was not taken.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    if (closed_) return false;
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }
  // Nothing at the end.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.notify_all();
    return item;
  }
  void close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void abort() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    items_.clear();
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  bool closed_ = false;
};

// Keeps the first error that any thread reports and then calls `on_error` once (to wake the others).
class FirstError {
 public:
  explicit FirstError(std::function<void()> on_error = {}) : on_error_(std::move(on_error)) {}
  void report(Error error) {
    {
      std::lock_guard lock(mutex_);
      if (error_) return;
      error_ = std::move(error);
    }
    if (on_error_) on_error_();
  }
  bool failed() const {
    std::lock_guard lock(mutex_);
    return error_.has_value();
  }
  Status status() const {
    std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return ok();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::function<void()> on_error_;
};

}  // namespace cairn::transfer
