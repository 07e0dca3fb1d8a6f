// What a network's loss compares with: tells data readers what to deliver beside the samples.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace dtrain::graph {

struct LabelSpec {
  enum class Kind { kClasses, kTargets };
  Kind kind = Kind::kClasses;
  Shape shape;          // of one sample's labels; of one class a sample: a scalar
  int64_t classes = 0;  // of kClasses: labels are 0 … classes − 1
  int64_t top_k = 0;    // of kClasses: metrics count labels among so many most likely answers too; 0: they do not

  DType dtype() const { return kind == Kind::kClasses ? DType::kI32 : DType::kF32; }
  bool operator==(const LabelSpec&) const = default;
};

}  // namespace dtrain::graph
