// The coordinator orders a server to write its state at `version` into `folder`. Sent when all servers stand at that
// version, before any Rates beyond it, so that the server stands there still.
#pragma once

#include <cstdint>
#include <string>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Snapshot {
  static constexpr MessageType kType = MessageType::kSnapshot;

  int64_t version = 0;
  std::string folder;
  int64_t step = -1;  // that it is the state after, where that is not `version`: of optimizers that try several a step

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("version", m.version);
    v("folder", m.folder);
    v("step", m.step);
  }
  bool operator==(const Snapshot&) const = default;
};

}  // namespace dtrain::wire
