// Makes batches ready before they are needed, on a thread of its own, or on several. The consumer says which batches
// will come and takes them by the same words; what was not announced is made on the spot, so that the content of a
// batch never depends on whether it was prefetched. Bounded: at most `capacity` announced batches are in the works or
// ready. prefetch, take, clear and give_back are for one consumer thread; stop may come from one other. Borrows dataset
// and sampler.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch_maker.h"

namespace dtrain::data {

class Prefetcher {
 public:
  // `threads` read the samples of a batch.
  Prefetcher(const Dataset& dataset, const Sampler& sampler, size_t capacity, size_t threads = 1);
  ~Prefetcher();  // stops
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Announces a batch. False where there is no room, or after stop(); true also where it was announced already.
  bool prefetch(const BatchRequest& request);
  // The batch; waits only where the thread is just making it.
  Result<Batch> take(const BatchRequest& request);
  // Takes back a batch's memory for the next ones.
  void give_back(Batch batch);
  // Forgets all that was announced and not taken: after a reassignment other batches will come.
  void clear();
  // Ends the thread after the batch that it is making; take() goes on to work without it.
  void stop();

 private:
  enum class State { kWaiting, kMaking, kReady };
  struct Entry {
    BatchRequest request;
    State state = State::kWaiting;
    bool forgotten = false;  // while being made
    Result<Batch> batch;
  };
  using Entries = std::deque<Entry>;

  void work();
  Entries::iterator find(const BatchRequest& request);
  Batch spare();
  Result<Batch> make(const BatchRequest& request, Batch batch);

  BatchMaker maker_;
  const size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Entries entries_;  // in the order announced; all below under mutex_
  std::vector<Batch> spares_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace dtrain::data
