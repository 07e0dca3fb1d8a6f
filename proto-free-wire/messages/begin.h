// The coordinator tells a task the numbers that are fixed for the run, and where it starts.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Begin {
  static constexpr MessageType kType = MessageType::kBegin;

  uint32_t micro_batches = 0;       // K
  uint32_t eval_micro_batches = 0;  // K of an evaluation; 0: none
  uint32_t threads = 0;             // for one micro-batch
  int64_t step = 0;                 // version that the servers must load
  std::string checkpoint;           // folder to load it from; empty: initial values

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("micro_batches", m.micro_batches);
    v("eval_micro_batches", m.eval_micro_batches);
    v("threads", m.threads);
    v("step", m.step);
    v("checkpoint", m.checkpoint);
  }
  bool operator==(const Begin&) const = default;
};

}  // namespace dtrain::wire
