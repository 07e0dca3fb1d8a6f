// The coordinator's order to all servers about vectors of the size of the trainable parameters (optim/vector_order.h):
// after `drop_oldest`, line i writes vector to[i] with the sum of the next terms[i] of (factors, vectors); with
// `commit` that makes the next version. Then the dot products left[i] · right[i] are measured.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct VectorOrder {
  static constexpr MessageType kType = MessageType::kVectorOrder;

  int64_t step = 0;
  uint32_t round = 0;  // of the orders of this step
  bool drop_oldest = false, commit = false, accept = false;
  std::vector<uint32_t> to, terms, vectors;
  std::vector<double> factors;
  std::vector<uint32_t> left, right;

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("round", m.round);
    v("drop_oldest", m.drop_oldest);
    v("commit", m.commit);
    v("accept", m.accept);
    v("to", m.to);
    v("terms", m.terms);
    v("vectors", m.vectors);
    v("factors", m.factors);
    v("left", m.left);
    v("right", m.right);
  }
  bool operator==(const VectorOrder&) const = default;
};

}  // namespace dtrain::wire
