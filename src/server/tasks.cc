#include "server/tasks.h"

#include "base/log.h"
#include "catalog/requests.h"
#include "catalog/tasks.h"

namespace cairn::server {
namespace {

// How long a task may take before another server may begin the same one.
constexpr Duration kTaskLease = minutes(10);
constexpr Duration kTaskTime = minutes(60);
constexpr int64_t kBatch = 1'000;

template <class T>
Status dropped(const Result<T>& result) {
  if (!result) return result.error();
  return ok();
}

}  // namespace

Tasks::Tasks(Services& services, TaskSettings settings) : s_(services), settings_(settings) {
  holder_ = Id<struct TaskHolderTag>::random(s_.random).hex();
  define();
}

Tasks::~Tasks() { stop(); }

void Tasks::define() {
  auto add = [this](std::string name, Duration every, bool slow, std::function<Status(const Deadline&)> work) {
    tasks_.push_back(Task{std::move(name), every, slow, std::move(work), Duration(0)});
  };
  add("work", seconds(5), false, [this](const Deadline&) -> Status {
    s_.work.tick();
    return ok();
  });
  add("retention", minutes(1), false, [this](const Deadline&) -> Status {
    CAIRN_CHECK_OK(dropped(s_.retention.run_all()));
    return dropped(s_.uploads.lapse_abandoned());
  });
  add("prune", minutes(10), false, [this](const Deadline& deadline) -> Status {
    for (int64_t gone = kBatch; gone == kBatch;) {
      CAIRN_CHECK_OK(deadline.check());
      CAIRN_TRY(gone, s_.db.transact([&](catalog::Tx& tx) -> Result<int64_t> {
        CAIRN_TRY(Time now, s_.catalog_clock.removal_now(tx));
        return catalog::prune_requests(tx, now - catalog::kRequestsKept, kBatch);
      }));
    }
    return ok();
  });
  add("resume-publications", seconds(15), true,
      [this](const Deadline& deadline) { return dropped(s_.publisher.resume_abandoned(deadline)); });
  add("purge", seconds(30), true, [this](const Deadline&) { return dropped(s_.volumes.purge_due()); });
  add("gc", settings_.gc_interval, true, [this](const Deadline& deadline) -> Status {
    CAIRN_TRY(volume::GcReport report, s_.collector.run_all(deadline));
    if (report.condemned > 0 || report.deleted > 0 || report.failed > 0) {
      log_info("garbage: condemned={} deleted={} deleted_bytes={} failed={}", report.condemned, report.deleted,
               report.deleted_bytes, report.failed);
    }
    return ok();
  });
}

Status Tasks::start() {
  CAIRN_TRY(auto stamp, s_.catalog_clock.stamp(s_.db));
  note(stamp);
  Duration now = s_.clock.monotonic();
  for (Task& task : tasks_) task.due = now + (task.name == "gc" ? task.every : Duration(0));
  threads_.emplace_back([this] { stamp_loop(); });
  threads_.emplace_back([this] { loop(false); });
  threads_.emplace_back([this] { loop(true); });
  return ok();
}

void Tasks::stop() {
  stop_.cancel();
  {
    // Between a waiter's look and its wait.
    std::lock_guard lock(mutex_);
  }
  stopping_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Tasks::sleep(Duration duration) {
  std::unique_lock lock(mutex_);
  stopping_.wait_for(lock, duration, [&] { return stop_.cancelled(); });
  return !stop_.cancelled();
}

void Tasks::stamp_loop() {
  while (sleep(catalog::CatalogClock::kStampEvery)) {
    auto stamp = s_.catalog_clock.stamp(s_.db, Deadline::after(seconds(30), s_.clock, stop_));
    if (!stamp) {
      log_error("the catalog's clock could not be stamped: {}", stamp.error().to_string());
    } else {
      note(*stamp);
    }
  }
}

void Tasks::note(const catalog::CatalogClock::Stamp& stamp) {
  if (stamp.paused > Duration(0)) {
    log_warning("no server was there, or the clock jumped, for {} s: no lease counts that time",
                stamp.paused.count() / 1'000'000);
  }
  if (stamp.taken_back) log_warning("the clock was set back from a jump that was not believed yet: nothing was removed");
  bool held = stamp.held > Duration(0);
  if (held && (!held_ || stamp.paused > Duration(0))) {
    log_warning("the clock jumped forward by {} s: old history, the trash and garbage are kept until servers have run for {} h"
                " with it; if it is wrong, set it right before",
                stamp.held.count() / 1'000'000, std::chrono::duration_cast<hours>(catalog::CatalogClock::kHold).count());
  }
  held_ = held;
}

Status Tasks::run(Task& task) {
  Deadline deadline = Deadline::after(kTaskTime, s_.clock, stop_);
  CAIRN_TRY(auto lease, s_.db.transact(
                            [&](catalog::Tx& tx) { return catalog::take_task(tx, task.name, holder_, kTaskLease); }, deadline));
  if (!lease) return ok();
  Status done = task.work(deadline);
  Status released = s_.db.transact([&](catalog::Tx& tx) { return catalog::release_task(tx, *lease); });
  return done ? released : done;
}

void Tasks::loop(bool slow) {
  while (!stop_.cancelled()) {
    Duration now = s_.clock.monotonic();
    Duration wait = seconds(60);
    for (Task& task : tasks_) {
      if (task.slow != slow || stop_.cancelled()) continue;
      if (task.due <= now) {
        Status done = run(task);
        if (!done && !stop_.cancelled()) log_error("background task {}: {}", task.name, done.error().to_string());
        task.due = s_.clock.monotonic() + task.every;
      }
      wait = std::min(wait, std::max(Duration(0), task.due - now));
    }
    if (!sleep(std::max<Duration>(wait, milliseconds(50)))) return;
  }
}

Status Tasks::run_all_once() {
  CAIRN_CHECK_OK(dropped(s_.catalog_clock.stamp(s_.db)));
  for (Task& task : tasks_) {
    Status done = run(task);
    if (!done) return std::move(done.error()).while_doing("running task " + task.name);
  }
  return ok();
}

}  // namespace cairn::server
