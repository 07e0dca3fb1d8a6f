// The same micro-batches in every step, loaded before the first: for timing steps without the reading of data.
#pragma once

#include <memory>
#include <vector>

#include "data/batch.h"
#include "node/run_definition.h"
#include "worker/engine/batch_feed.h"

namespace dtrain::node {

class FixedFeed final : public worker::BatchFeed {
 public:
  // The micro-batches of step 0. `run` has its data open.
  static Result<std::unique_ptr<FixedFeed>> load(const RunDefinition& run, uint32_t micro_batches);

  Result<worker::Micro> take(const worker::Work& work, uint32_t micro_batch) override;

 private:
  std::vector<data::Batch> batches_;  // by micro-batch
};

}  // namespace dtrain::node
