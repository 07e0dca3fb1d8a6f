// Who looks on while a shard server takes its steps: guests who read a run, and puts that change it. Called within the
// server's own calls, on its thread; must not call back but for ShardServer's const members.
#pragma once

#include <cstdint>
#include <span>

namespace dtrain::ps {

class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  // A chunk's sum over all micro-batches of `step` is there: not divided by their number, before any clipping.
  virtual void on_root(uint32_t block, uint32_t chunk, int64_t step, std::span<const float> root) = 0;
  // A block has this version, and nobody has seen it yet: `values` may still be changed. Whether they were.
  virtual bool on_commit(uint32_t block, int64_t version, std::span<float> values) = 0;
};

}  // namespace dtrain::ps
