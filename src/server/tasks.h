// Background tasks: what has to be done without anybody asking. Every server runs them all; a task that one server should do at
// a time takes a catalog lease first and is skipped where another server holds it. Losing that lease is harmless: every step
// of the domain modules is a conditional statement that may come late or twice.
//
// The stamp of the catalog's clock has a thread of its own, since leases count on it; quick tasks share one, and those that may
// take long (garbage, purge, publications of servers that died) another. stop() ends the waits at once and the work at its
// next look at the deadline.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/services.h"

namespace cairn::server {

struct TaskSettings {
  Duration gc_interval = hours(1);
};

class Tasks {
 public:
  // Does nothing before start().
  Tasks(Services& services, TaskSettings settings);
  ~Tasks();

  // Stamps the clock once before it returns.
  Status start();
  void stop();

  // Runs every task once, in this thread: for tests.
  Status run_all_once();

 private:
  struct Task {
    std::string name;
    Duration every;
    bool slow;
    std::function<Status(const Deadline&)> work;
    Duration due{0};
  };

  void define();
  void stamp_loop();
  // What people should know of a stamp.
  void note(const catalog::CatalogClock::Stamp& stamp);
  void loop(bool slow);
  Status run(Task& task);
  // False when it is time to stop.
  bool sleep(Duration duration);

  Services& s_;
  TaskSettings settings_;
  std::string holder_;  // of task leases: this process
  std::vector<Task> tasks_;
  bool held_ = false;  // at the last stamp
  CancelToken stop_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::server
