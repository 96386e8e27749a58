// Threads that do one job after another together, each knowing its number: for loops whose rounds are too short to start threads.
//
// `run` belongs to one thread, which works along as worker 0.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cairn::dataset {

class WorkerTeam {
 public:
  // REQUIRES: workers >= 1.
  explicit WorkerTeam(size_t workers);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  // Calls job(0) … job(size() - 1), each on a thread of its own, and returns when all have returned. `job` may not throw.
  void run(const std::function<void(size_t worker)>& job);
  size_t size() const { return threads_.size() + 1; }

 private:
  void work(size_t worker);

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(size_t)>* job_ = nullptr;
  size_t round_ = 0;
  size_t working_ = 0;
  bool leaving_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cairn::dataset
