// The samples of one micro-batch side by side, as the network takes them.
#pragma once

#include <vector>

#include "base/result.h"
#include "data/dataset.h"
#include "data/sampler.h"
#include "tensor/buffer.h"

namespace dtrain::data {

struct Batch {
  Buffer samples;  // F32 or I32 (Dataset::sample_dtype()) [size, sample shape…]
  Buffer labels;   // I32 or F32 (LabelSpec::dtype) [size, label shape…]
  int64_t size = 0;
  int64_t valid = 0;  // only the first `valid` samples count; the rest repeats the first
};

// Samples first … first + valid − 1 of the run, filled up to `size`.
struct BatchRequest {
  int64_t first = 0;
  int64_t size = 0;   // at least 1
  int64_t valid = 0;  // 1 … size

  bool operator==(const BatchRequest&) const = default;
};

// One batch that is being filled, sample by sample. `batch`, whose buffers are used again where they have the size, is
// complete after every sample was read and finish() called. Borrows all that it is made of.
class BatchFill {
 public:
  BatchFill(const Dataset& dataset, const Sampler& sampler, const BatchRequest& request, Batch& batch);

  size_t samples() const { return indices_.size(); }
  // Sample i of the batch; different ones may be read at the same time.
  Status read(size_t i) const;
  // Fills up with copies of the first sample.
  void finish() const;

 private:
  const Dataset& dataset_;
  const uint64_t seed_;
  const BatchRequest request_;
  Batch& batch_;
  std::vector<int64_t> indices_;
  size_t sample_size_, label_size_;
};

// The same at once, by the caller.
Status fill_batch(const Dataset& dataset, const Sampler& sampler, const BatchRequest& request, Batch& batch);

}  // namespace dtrain::data
