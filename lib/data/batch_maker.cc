#include "data/batch_maker.h"

#include <algorithm>

namespace dtrain::data {

BatchMaker::BatchMaker(const Dataset& dataset, const Sampler& sampler, size_t threads)
    : dataset_(dataset), sampler_(sampler) {
  for (size_t i = 1; i < threads; ++i) helpers_.emplace_back([this] { help(); });
}

BatchMaker::~BatchMaker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    work_.notify_all();
  }
  for (std::thread& t : helpers_) t.join();
}

Status BatchMaker::make(const BatchRequest& request, Batch& batch) {
  if (helpers_.empty()) return fill_batch(dataset_, sampler_, request, batch);
  const BatchFill fill(dataset_, sampler_, request, batch);
  Job job{fill};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  work_.notify_all();
  while (job.left()) read_one(job, lock);
  done_.wait(lock, [&] { return job.reading == 0; });
  jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
  lock.unlock();
  if (job.error) return tl::unexpected(std::move(*job.error));
  fill.finish();
  return {};
}

// Samples are begun in order and what was begun is finished, so that the first error is always found.
void BatchMaker::read_one(Job& job, std::unique_lock<std::mutex>& lock) {
  const size_t i = job.next++;
  ++job.reading;
  lock.unlock();
  Status read = job.fill.read(i);
  lock.lock();
  if (!read && (!job.error || i < job.failed_at)) {
    job.error = std::move(read.error());
    job.failed_at = i;
  }
  if (--job.reading == 0) done_.notify_all();
}

void BatchMaker::help() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto job = jobs_.end();
    work_.wait(lock, [&] {
      job = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* j) { return j->left(); });
      return stopping_ || job != jobs_.end();
    });
    if (stopping_) return;
    read_one(**job, lock);
  }
}

}  // namespace dtrain::data
