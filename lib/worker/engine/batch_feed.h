// Where the engine's micro-batches come from: which samples they are follows from the step alone, loading them happens
// ahead on another thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "worker/worker_protocol.h"

namespace dtrain::worker {

// Valid until the next take().
struct Micro {
  const void* samples = nullptr;  // F32, or I32 where the network reads tokens
  const void* labels = nullptr;
  int64_t valid = 0;  // leading samples that count
};

class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // The next micro-batch of `work`; they are taken in order.
  virtual Result<Micro> take(const Work& work, uint32_t micro_batch) = 0;
};

}  // namespace dtrain::worker
