// Fills batches on several threads, for samples that take time to read, as images that are decoded. What is in a batch
// does not depend on the number of threads. Thread-safe. Borrows dataset and sampler.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace dtrain::data {

class BatchMaker {
 public:
  // The caller of make() reads too: there are threads − 1 of its own.
  BatchMaker(const Dataset& dataset, const Sampler& sampler, size_t threads);
  ~BatchMaker();
  BatchMaker(const BatchMaker&) = delete;
  BatchMaker& operator=(const BatchMaker&) = delete;

  // Returns when all of the batch is there. Of several errors the one of the first sample.
  Status make(const BatchRequest& request, Batch& batch);

 private:
  // A batch that is being made, in the frame of its make().
  struct Job {
    const BatchFill& fill;
    size_t next = 0;     // the first sample that nobody reads yet
    size_t reading = 0;  // samples that are being read
    size_t failed_at = 0;
    std::optional<Error> error;

    bool left() const { return next < fill.samples() && !error; }
  };

  void help();
  // Reads one sample of the job; `lock` is given up meanwhile.
  void read_one(Job& job, std::unique_lock<std::mutex>& lock);

  const Dataset& dataset_;
  const Sampler& sampler_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Job*> jobs_;  // with samples left; all below under mutex_
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace dtrain::data
