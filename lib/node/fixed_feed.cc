#include "node/fixed_feed.h"

#include "data/sampler.h"

namespace dtrain::node {

Result<std::unique_ptr<FixedFeed>> FixedFeed::load(const RunDefinition& run, uint32_t micro_batches) {
  auto feed = std::make_unique<FixedFeed>();
  const int64_t micro = run.spec.train.batch / micro_batches;
  const data::Sampler sampler(run.train->size(), run.spec.seed, run.shuffle);
  feed->batches_.resize(micro_batches);
  for (uint32_t m = 0; m < micro_batches; ++m)
    DTRAIN_TRY(data::fill_batch(*run.train, sampler, {m * micro, micro, micro}, feed->batches_[m]));
  return feed;
}

Result<worker::Micro> FixedFeed::take(const worker::Work&, uint32_t micro_batch) {
  const data::Batch& batch = batches_[micro_batch];
  return worker::Micro{batch.samples.data(), batch.labels.data(), batch.valid};
}

}  // namespace dtrain::node
