// A guest asks a shard server for all that it holds of some tensors: the values of a version (−1: the newest of each
// block, for runs whose blocks have versions of their own), or the mean gradient of the step that leads from that
// version to the next. Answered with TensorChunks and a ReadDone, at once or when the version (the step) is there. It
// takes the place of an earlier Read that is not answered yet.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct Read {
  static constexpr MessageType kType = MessageType::kRead;

  uint32_t request = 0;  // of the guest's choice; comes back with the answer
  bool gradient = false;
  int64_t version = 0;
  std::vector<int64_t> tensors;  // indices, each once

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("request", m.request);
    v("gradient", m.gradient);
    v("version", m.version);
    v("tensors", m.tensors);
  }
  bool operator==(const Read&) const = default;
};

}  // namespace dtrain::wire
