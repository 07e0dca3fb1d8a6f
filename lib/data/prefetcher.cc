#include "data/prefetcher.h"

#include <algorithm>

#include "base/check.h"

namespace dtrain::data {

Prefetcher::Prefetcher(const Dataset& dataset, const Sampler& sampler, size_t capacity, size_t threads)
    : maker_(dataset, sampler, threads), capacity_(capacity), thread_([this] { work(); }) {}

Prefetcher::~Prefetcher() { stop(); }

Prefetcher::Entries::iterator Prefetcher::find(const BatchRequest& request) {
  return std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& e) { return !e.forgotten && e.request == request; });
}

Batch Prefetcher::spare() {
  if (spares_.empty()) return {};
  Batch batch = std::move(spares_.back());
  spares_.pop_back();
  return batch;
}

Result<Batch> Prefetcher::make(const BatchRequest& request, Batch batch) {
  DTRAIN_TRY(maker_.make(request, batch));
  return batch;
}

bool Prefetcher::prefetch(const BatchRequest& request) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  if (find(request) != entries_.end()) return true;
  if (entries_.size() >= capacity_) return false;
  entries_.push_back({request, State::kWaiting, false, Batch{}});
  changed_.notify_all();
  return true;
}

Result<Batch> Prefetcher::take(const BatchRequest& request) {
  std::unique_lock lock(mutex_);
  auto entry = find(request);
  if (entry == entries_.end() || entry->state == State::kWaiting) {
    if (entry != entries_.end()) entries_.erase(entry);
    Batch batch = spare();
    lock.unlock();
    return make(request, std::move(batch));
  }
  // The thread finishes the batch that it has begun, also when it is told to stop.
  changed_.wait(lock, [&] { return find(request)->state == State::kReady; });
  entry = find(request);
  Result<Batch> batch = std::move(entry->batch);
  entries_.erase(entry);
  return batch;
}

void Prefetcher::give_back(Batch batch) {
  const std::lock_guard lock(mutex_);
  if (spares_.size() <= capacity_) spares_.push_back(std::move(batch));
}

void Prefetcher::clear() {
  const std::lock_guard lock(mutex_);
  for (Entry& e : entries_) {
    if (e.state == State::kMaking) e.forgotten = true;
    if (e.state == State::kReady && e.batch && spares_.size() <= capacity_) spares_.push_back(std::move(*e.batch));
  }
  std::erase_if(entries_, [](const Entry& e) { return !e.forgotten; });
}

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    auto next = entries_.end();
    changed_.wait(lock, [&] {
      next = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.state == State::kWaiting; });
      return stopping_ || next != entries_.end();
    });
    if (stopping_) return;
    next->state = State::kMaking;
    const BatchRequest request = next->request;
    Batch batch = spare();
    lock.unlock();
    Result<Batch> made = make(request, std::move(batch));
    lock.lock();
    const auto mine =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.state == State::kMaking; });
    DTRAIN_CHECK(mine != entries_.end() && mine->request == request);
    if (mine->forgotten) {
      if (made) spares_.push_back(std::move(*made));
      entries_.erase(mine);
    } else {
      mine->batch = std::move(made);
      mine->state = State::kReady;
    }
    changed_.notify_all();
  }
}

}  // namespace dtrain::data
