#include "node/data_feed.h"

#include <algorithm>

namespace dtrain::node {

DataFeed::DataFeed(const RunDefinition& run, uint32_t micro_batches, uint32_t eval_micro_batches)
    : run_(run),
      eval_micro_batches_(eval_micro_batches),
      micro_(run.spec.train.batch / micro_batches),
      train_(std::make_unique<Source>(*run.train, run.spec.seed, run.shuffle, run.train_threads)) {
  if (run.test) test_ = std::make_unique<Source>(*run.test, run.spec.seed, false, run.test_threads);
}

data::BatchRequest DataFeed::request(wire::StepKind kind, int64_t step, uint32_t micro_batch) const {
  const int64_t within = micro_batch * micro_;
  if (kind == wire::StepKind::kTrain) return {step * run_.spec.train.batch + within, micro_, micro_};
  return {within, micro_, std::min(micro_, run_.test->size() - within)};
}

Result<worker::Micro> DataFeed::take(const worker::Work& work, uint32_t micro_batch) {
  Source& source = work.kind == wire::StepKind::kTrain ? *train_ : *test_;
  if (taken_from_) taken_from_->prefetcher.give_back(std::move(current_));
  taken_from_ = nullptr;
  DTRAIN_TRY_ASSIGN(current_, source.prefetcher.take(request(work.kind, work.step, micro_batch)));
  taken_from_ = &source;
  announce_after(source, work, micro_batch);
  return worker::Micro{current_.samples.data(), current_.labels.data(), current_.valid};
}

// What follows most likely: the rest of this node, then the same node of the next step (or, in an evaluation, what lies
// behind it).
void DataFeed::announce_after(Source& source, const worker::Work& work, uint32_t micro_batch) {
  const bool training = work.kind == wire::StepKind::kTrain;
  int64_t step = work.step;
  uint32_t next = micro_batch;
  for (size_t i = 0; i < kAhead; ++i) {
    if (++next >= (training ? work.node.last : eval_micro_batches_)) {
      if (!training) return;
      next = work.node.first;
      ++step;
    }
    const data::BatchRequest wanted = request(work.kind, step, next);
    if (source.prefetcher.prefetch(wanted)) continue;
    source.prefetcher.clear();  // full of what was announced under another assignment
    source.prefetcher.prefetch(wanted);
  }
}

}  // namespace dtrain::node
