// Waits until a snapshot writer says that it has written something.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "node/snapshot_writer.h"

namespace dtrain::node {

class WrittenShards {
 public:
  std::function<void()> wake() {
    return [this] {
      const std::lock_guard lock(mutex_);
      ++wakes_;
      changed_.notify_all();
    };
  }
  // The next shard.
  WrittenShard wait_for(SnapshotWriter& writer) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return wakes_ > taken_; })) {
      ADD_FAILURE() << "nothing was written";
      return {};
    }
    ++taken_;
    for (WrittenShard& done : writer.take_done()) ready_.push_back(std::move(done));
    WrittenShard first = std::move(ready_.front());
    ready_.erase(ready_.begin());
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int wakes_ = 0, taken_ = 0;
  std::vector<WrittenShard> ready_;
};

}  // namespace dtrain::node
