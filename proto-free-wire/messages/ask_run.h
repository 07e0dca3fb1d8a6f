// A guest asks what this run is. Answered with RunInfo, a TaskPlace for every task and a NamedTensor for every
// parameter.
#pragma once

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct AskRun {
  static constexpr MessageType kType = MessageType::kAskRun;

  template <typename Self, typename Visitor>
  static void fields(Self&, Visitor&&) {}
  bool operator==(const AskRun&) const = default;
};

}  // namespace dtrain::wire
