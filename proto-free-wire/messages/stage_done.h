// A stage needs nothing more of the micro-batches before `micro_batches` of this step: whoever sends it values may go
// on with later ones.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"
#include "proto-free-wire/step_kind.h"

namespace dtrain::wire {

struct StageDone {
  static constexpr MessageType kType = MessageType::kStageDone;

  StepKind kind = StepKind::kTrain;
  int64_t step = 0;
  uint32_t micro_batches = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("kind", m.kind);
    v("step", m.step);
    v("micro_batches", m.micro_batches);
  }
  bool operator==(const StageDone&) const = default;
};

}  // namespace dtrain::wire
