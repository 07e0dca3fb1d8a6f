// Samples and labels for the tests of engines: functions of kind, step and micro-batch. Memory is used again at once,
// as a real feed does.
#pragma once

#include <span>

#include "base/philox.h"
#include "graph/network.h"
#include "tensor/buffer.h"
#include "worker/engine/batch_feed.h"

namespace dtrain::worker {

class FakeSamples {
 public:
  // `micro`: samples of one.
  FakeSamples(const graph::Network& network, int64_t micro)
      : samples_(static_cast<size_t>(micro * network.input().elements()) * sizeof(float)),
        labels_(static_cast<size_t>(micro) * sizeof(int32_t)),
        classes_(static_cast<uint32_t>(network.labels().classes)) {}

  Micro make(const Work& work, uint32_t micro_batch, int64_t valid) {
    const Philox random(3, stream_id(work.kind == wire::StepKind::kTrain ? "train" : "eval"),
                        static_cast<uint32_t>(work.step * 64 + micro_batch), 0);
    const std::span<float> samples = samples_.as<float>();
    for (size_t i = 0; i < samples.size(); ++i) samples[i] = standard_normal(random.at(i));
    const std::span<int32_t> labels = labels_.as<int32_t>();
    for (size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<int32_t>(random.at(samples.size() + i) % classes_);
    return Micro{samples_.data(), labels_.data(), valid};
  }

 private:
  Buffer samples_, labels_;
  uint32_t classes_;
};

}  // namespace dtrain::worker
