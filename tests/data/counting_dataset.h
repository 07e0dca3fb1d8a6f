// A dataset whose sample i is {i, -i} with class i, that can be held up in the middle of a read and can fail.
#pragma once

#include <condition_variable>
#include <mutex>

#include "data/dataset.h"

namespace dtrain::data {

class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(int64_t n) : n_(n) {}

  int64_t size() const override { return n_; }
  const Shape& sample_shape() const override { return shape_; }
  const LabelSpec& labels() const override { return spec_; }
  int64_t max_label() const override { return n_ - 1; }
  Digest digest() const override { return {}; }
  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    const int64_t index = draw.index;
    std::unique_lock lock(mutex_);
    ++reads_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_; });
    if (index == bad_) return fail(ExitCode::kData, "sample is damaged");
    sample.values[0] = static_cast<float>(index);
    sample.values[1] = static_cast<float>(-index);
    label.classes[0] = static_cast<int32_t>(index);
    return {};
  }

  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  void wait_for_reads(int64_t n) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reads_ >= n; });
  }
  int64_t reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  void set_bad(int64_t index) { bad_ = index; }

 private:
  int64_t n_;
  Shape shape_{2};
  LabelSpec spec_;
  int64_t bad_ = -1;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int64_t reads_ = 0;
  bool held_ = false;
};

}  // namespace dtrain::data
