// One plain fp32 array for every parameter that is no sparse table, in one piece of memory: values that a worker
// computes with, or a set of their gradients (of a statistic: its next value). The reader synchronises.
#pragma once

#include <span>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/parameter.h"

namespace dtrain::worker {

class ParameterStorage {
 public:
  // Which parameters have an array; the others' pointers are null.
  enum class Of { kAll, kStatistics };
  // Zeroed, so that the first step does not pay for page faults in the middle of backward.
  explicit ParameterStorage(std::span<const ParameterInfo> parameters, Of of = Of::kAll,
                            const std::shared_ptr<SharedMemory>& memory = nullptr);
  // Those of which `held` is true.
  ParameterStorage(std::span<const ParameterInfo> parameters, const std::vector<bool>& held,
                   const std::shared_ptr<SharedMemory>& memory = nullptr);

  // Each aligned to 64 bytes.
  std::span<float* const> pointers() const { return pointers_; }
  float* at(ParameterIndex p) const { return pointers_[static_cast<size_t>(p)]; }
  static size_t bytes(std::span<const ParameterInfo> parameters, Of of = Of::kAll);
  static size_t bytes(std::span<const ParameterInfo> parameters, const std::vector<bool>& held);

 private:
  Buffer buffer_;
  std::vector<float*> pointers_;
};

}  // namespace dtrain::worker
