// The coordinator gives a worker the micro-batches [first, last) of every step from `from` until before `until`.
// A later one (higher generation) replaces it, for the step under way as well. For an evaluation, `from` is the version
// and `until` is from + 1. [also_first, also_last) is a straggler's share, to be computed when its own is done:
// whoever is first counts.
#pragma once

#include <cstdint>

#include "proto-free-wire/message_type.h"
#include "proto-free-wire/step_kind.h"

namespace dtrain::wire {

struct Assign {
  static constexpr MessageType kType = MessageType::kAssign;

  uint32_t generation = 0;
  StepKind kind = StepKind::kTrain;
  int64_t from = 0, until = 0;
  uint32_t first = 0, last = 0;
  uint32_t also_first = 0, also_last = 0;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("generation", m.generation);
    v("kind", m.kind);
    v("from", m.from);
    v("until", m.until);
    v("first", m.first);
    v("last", m.last);
    v("also_first", m.also_first);
    v("also_last", m.also_last);
  }
  bool operator==(const Assign&) const = default;
};

}  // namespace dtrain::wire
