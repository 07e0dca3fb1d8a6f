#include "node/full_batch_feed.h"

namespace dtrain::node {

FullBatchFeed::FullBatchFeed(const RunDefinition& run, uint32_t micro_batches, uint32_t eval_micro_batches)
    : run_(run),
      micro_(run.spec.train.batch / micro_batches),
      sampler_(run.train->size(), run.spec.seed, run.shuffle),
      batches_(micro_batches),
      test_(run, micro_batches, eval_micro_batches) {}

Result<worker::Micro> FullBatchFeed::take(const worker::Work& work, uint32_t micro_batch) {
  if (work.kind == wire::StepKind::kEval) return test_.take(work, micro_batch);
  std::optional<data::Batch>& batch = batches_[micro_batch];
  if (!batch) {
    DTRAIN_TRY(data::fill_batch(*run_.train, sampler_, {micro_batch * micro_, micro_, micro_}, batch.emplace()));
  }
  return worker::Micro{batch->samples.data(), batch->labels.data(), batch->valid};
}

}  // namespace dtrain::node
