// A piece of a value that one stage of a network makes and another needs: an activation, or the gradient with respect
// to one. Pieces come in order and are one chunk each, but for the last; the payload is the value's bytes in the layout
// of the kernel that made it, which both sides know from their plans.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"
#include "proto-free-wire/step_kind.h"

namespace dtrain::wire {

struct StageValue {
  static constexpr MessageType kType = MessageType::kStageValue;

  StepKind kind = StepKind::kTrain;
  int64_t step = 0;
  uint32_t micro_batch = 0;
  uint32_t value = 0;  // its number in the plan
  uint32_t piece = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("kind", m.kind);
    v("step", m.step);
    v("micro_batch", m.micro_batch);
    v("value", m.value);
    v("piece", m.piece);
  }
  bool operator==(const StageValue&) const = default;
};

}  // namespace dtrain::wire
