#include "dataset/worker_team.h"

namespace cairn::dataset {

WorkerTeam::WorkerTeam(size_t workers) {
  for (size_t worker = 1; worker < workers; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

WorkerTeam::~WorkerTeam() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerTeam::run(const std::function<void(size_t)>& job) {
  if (threads_.empty()) return job(0);
  {
    std::lock_guard lock(mutex_);
    job_ = &job;
    working_ = threads_.size();
    ++round_;
  }
  wake_.notify_all();
  job(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return working_ == 0; });
}

void WorkerTeam::work(size_t worker) {
  size_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return leaving_ || round_ != seen; });
    if (leaving_) return;
    seen = round_;
    const std::function<void(size_t)>& job = *job_;
    lock.unlock();
    job(worker);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

}  // namespace cairn::dataset
