// Sums over the micro-batches [first, last) of one step, by the tree: loss, samples, answers. Sent to the coordinator
// before the gradients of the same micro-batches to the server that shares its process.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"
#include "proto-free-wire/step_kind.h"
#include "tensor/metrics.h"

namespace dtrain::wire {

struct MetricNode {
  static constexpr MessageType kType = MessageType::kMetricNode;

  StepKind kind = StepKind::kTrain;
  int64_t step = 0;
  uint32_t first = 0, last = 0;
  Metrics metrics;
  uint32_t lag = 0;      // versions or pushes that the parameters were behind
  bool dropped = false;  // the push came too late, or some of it

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("kind", m.kind);
    v("step", m.step);
    v("first", m.first);
    v("last", m.last);
    v("loss", m.metrics.loss);
    v("samples", m.metrics.samples);
    v("correct", m.metrics.correct);
    v("among_top", m.metrics.among_top);
    v("lag", m.lag);
    v("dropped", m.dropped);
  }
  bool operator==(const MetricNode&) const = default;
};

}  // namespace dtrain::wire
