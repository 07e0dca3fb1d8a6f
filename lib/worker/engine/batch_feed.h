// Where the engine's micro-batches come from: which samples they are follows from the step alone, loading them happens ahead
// on another thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "proto-free-wire/step_kind.h"

namespace dtrain::worker {

// Valid until the next take().
struct Micro {
  const float* samples = nullptr;
  const void* labels = nullptr;
  int64_t valid = 0;  // leading samples that count
};

class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  virtual Result<Micro> take(wire::StepKind kind, int64_t step, uint32_t micro_batch) = 0;
};

}  // namespace dtrain::worker
