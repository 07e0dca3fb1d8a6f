// The engine's micro-batches from the run's data sets: sample i of micro-batch m of step t is global sample
// t · batch + m · micro + i; an evaluation goes through the test data once, in the file's order. The batches that will
// probably be asked for next are read ahead. One consumer thread.
#pragma once

#include <memory>
#include <optional>

#include "data/prefetcher.h"
#include "data/sampler.h"
#include "node/run_definition.h"
#include "worker/engine/batch_feed.h"

namespace dtrain::node {

class DataFeed final : public worker::BatchFeed {
 public:
  // `run` has its data open and outlives the feed.
  DataFeed(const RunDefinition& run, uint32_t micro_batches, uint32_t eval_micro_batches);

  Result<worker::Micro> take(const worker::Work& work, uint32_t micro_batch) override;

 private:
  struct Source {
    Source(const data::Dataset& dataset, uint64_t seed, bool shuffle, size_t threads)
        : sampler(dataset.size(), seed, shuffle), prefetcher(dataset, sampler, kAhead, threads) {}
    data::Sampler sampler;
    data::Prefetcher prefetcher;
  };
  static constexpr size_t kAhead = 2;

  data::BatchRequest request(wire::StepKind kind, int64_t step, uint32_t micro_batch) const;
  void announce_after(Source& source, const worker::Work& work, uint32_t micro_batch);

  const RunDefinition& run_;
  const uint32_t eval_micro_batches_;
  const int64_t micro_;  // samples of one
  std::unique_ptr<Source> train_, test_;
  Source* taken_from_ = nullptr;
  data::Batch current_;
};

}  // namespace dtrain::node
