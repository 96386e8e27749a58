#include "dataset/tokenize.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "dataset/shard_format.h"
#include "dataset/tokenize_output.h"

namespace cairn::dataset {
namespace {

constexpr auto kProgressInterval = std::chrono::milliseconds(250);

// A block on its way from the reader over a worker to the writer.
struct Job {
  DocumentBlock block;
  std::vector<uint32_t> ids;   // of all its documents
  std::vector<size_t> ends;    // of each document in `ids`
  uint64_t text_bytes = 0;
  uint64_t weight = 0;         // bytes it counts for while it is in flight
  std::unique_ptr<Error> error;
  bool done = false;
};

class Pipeline {
 public:
  Pipeline(std::shared_ptr<const Tokenizer> tokenizer, const TokenizeOptions& options, DocumentSource& source)
      : tokenizer_(std::move(tokenizer)), options_(options), source_(source), jobs_max_(2 * options.workers + 2) {
    reader_ = std::thread([this] { read(); });
    for (size_t i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pipeline() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    reader_.join();
    for (std::thread& worker : workers_) worker.join();
  }

  // The next block in order, encoded; none at the end.
  std::shared_ptr<Job> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return in_order_.empty() ? read_all_ : in_order_.front()->done; });
    if (in_order_.empty()) return nullptr;
    std::shared_ptr<Job> job = std::move(in_order_.front());
    in_order_.pop_front();
    in_flight_bytes_ -= job->weight;
    lock.unlock();
    changed_.notify_all();
    return job;
  }

 private:
  void read() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
          return stopping_ || in_order_.empty() || (in_order_.size() < jobs_max_ && in_flight_bytes_ < kInFlightBytesMax);
        });
        if (stopping_) return;
      }
      auto job = std::make_shared<Job>();
      Result<bool> more = source_.next(job->block);
      bool last = !more || !*more;
      if (!more) {
        job->error = std::make_unique<Error>(more.error());
        job->done = true;
      }
      // Text, and up to one id of four bytes for each of its bytes.
      job->weight = job->block.bytes.size() * 5;
      {
        std::lock_guard lock(mutex_);
        if (!last) to_encode_.push_back(job);
        if (!last || job->error) in_order_.push_back(job);
        in_flight_bytes_ += last && !job->error ? 0 : job->weight;
        read_all_ = last;
      }
      changed_.notify_all();
      if (last) return;
    }
  }

  void work() {
    std::unique_ptr<Encoder> encoder = Encoder::create(tokenizer_);
    while (true) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || !to_encode_.empty() || read_all_; });
        if (stopping_ || to_encode_.empty()) return;
        job = std::move(to_encode_.front());
        to_encode_.pop_front();
      }
      encode(*encoder, *job);
      {
        std::lock_guard lock(mutex_);
        job->done = true;
      }
      changed_.notify_all();
    }
  }

  void encode(Encoder& encoder, Job& job) {
    Status encoded = documents_of(job.block, options_.source.text_key, [&](std::string_view text) -> Status {
      CAIRN_CHECK_OK(encoder.encode(text, job.ids));
      if (options_.eos_id) job.ids.push_back(*options_.eos_id);
      job.ends.push_back(job.ids.size());
      job.text_bytes += text.size();
      return ok();
    });
    if (!encoded) job.error = std::make_unique<Error>(encoded.error());
    job.block.bytes = std::string();
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const TokenizeOptions& options_;
  DocumentSource& source_;  // the reader's
  const size_t jobs_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_; a Job belongs to its worker until it is done, then to the writer.
  std::deque<std::shared_ptr<Job>> to_encode_, in_order_;
  uint64_t in_flight_bytes_ = 0;
  bool read_all_ = false, stopping_ = false;

  std::thread reader_;
  std::vector<std::thread> workers_;
};

}  // namespace

Result<TokenizeProgress> tokenize(std::shared_ptr<const Tokenizer> tokenizer, const TokenizeOptions& options,
                                  const std::function<bool(const TokenizeProgress&)>& progress) {
  CAIRN_CHECK(options.workers > 0 && options.max_tokens_per_shard > 0);
  CAIRN_TRY(std::unique_ptr<DocumentSource> source, DocumentSource::open(options.source));
  TokenizeOutput output(options, tokenizer->vocab_size() <= kNarrowVocabSizeMax ? 2 : 4);
  CAIRN_CHECK_OK(output.prepare());
  TokenizeProgress now;
  now.total_bytes = source->total_bytes();
  now.passed_over = source->passed_over();
  std::chrono::steady_clock::time_point told;  // long ago: the first block is told of
  auto tell = [&] {
    now.tokens = output.tokens();
    now.shards = output.shards();
    told = std::chrono::steady_clock::now();
    return !progress || progress(now);
  };
  Pipeline pipeline(std::move(tokenizer), options, *source);
  while (std::shared_ptr<Job> job = pipeline.next()) {
    if (job->error) return *job->error;
    std::span<const uint32_t> ids(job->ids);
    size_t start = 0;
    for (size_t end : job->ends) {
      CAIRN_CHECK_OK(output.append(ids.subspan(start, end - start)));
      start = end;
    }
    now.documents += job->ends.size();
    now.read_bytes += job->block.read_bytes;
    now.text_bytes += job->text_bytes;
    if (std::chrono::steady_clock::now() - told >= kProgressInterval && !tell()) return Error(Code::kCancelled, "stopped");
  }
  if (now.documents == 0) return Error(Code::kDataInvalid, "the input holds no document with text");
  CAIRN_CHECK_OK(output.finish());
  tell();
  return now;
}

}  // namespace cairn::dataset
