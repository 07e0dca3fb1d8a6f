// The micro-batches of an optimizer that takes all training samples in each step, in one order: each is read once and
// kept. Evaluations read the test data as ever.
#pragma once

#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/sampler.h"
#include "node/data_feed.h"

namespace dtrain::node {

class FullBatchFeed final : public worker::BatchFeed {
 public:
  // `run` has its data open and outlives the feed.
  FullBatchFeed(const RunDefinition& run, uint32_t micro_batches, uint32_t eval_micro_batches);

  Result<worker::Micro> take(const worker::Work& work, uint32_t micro_batch) override;

 private:
  const RunDefinition& run_;
  const int64_t micro_;  // samples of one
  const data::Sampler sampler_;
  std::vector<std::optional<data::Batch>> batches_;  // by micro-batch
  DataFeed test_;
};

}  // namespace dtrain::node
