// A network lowered to ops, in the order in which they run: forward, then (for training) backward. No layout, no
// memory, no device yet: that is the plan's part. Plain data; built once, then only read.
#pragma once

#include <any>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/parameter.h"
#include "tensor/shape.h"

namespace dtrain::graph {

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;

enum class ValueKind : uint8_t {
  kTemporary,      // lives in the arena
  kSample,         // the micro-batch's inputs, the caller's
  kLabels,         // its labels, the caller's
  kLookup,         // rows of a sparse table that its tokens are, the caller's
  kParameter,      // a parameter's present value, the caller's
  kParameterCopy,  // the same in another layout, kept from run to run; only the planner makes these
  kParameterOut,   // its gradient, or a statistic's next value: written to the caller's memory
  kMetrics,        // the loss's numbers (tensor/metrics.h): written to the caller's memory
  kPrediction,     // what the loss reads, plain F32: written to the caller's memory
  kImport,         // made by another task, the caller's; only the cut into stages makes these
};

struct Value {
  Shape shape;  // the batch included; of an opaque value: none
  DType dtype = DType::kF32;
  ValueKind kind = ValueKind::kTemporary;
  bool opaque = false;            // a workspace: the kernel that writes it says how large it is
  ParameterIndex parameter = -1;  // of kParameter and kParameterOut
  int32_t lookup = -1;            // of kLookup: index of Network::lookups()
  ValueId view_of = kNoValue;     // the same elements, row-major, under another shape
  // Of kParameterOut: `count` elements of the parameter from `first` on are here, behind `skip` others that do not
  // count (of a row that another piece holds too). count 0: this is no piece but the whole.
  int64_t first = 0, count = 0, skip = 0;
  bool transient = false;  // of kParameter: differs in every run, so that no copy in another layout is kept
  bool own = false;        // of kParameterOut: lies in the arena until the observer has seen it, not with the caller
};

struct Node {
  std::string op;
  std::any attributes;
  std::vector<ValueId> inputs, outputs;
  int layer = -1;  // index of the layer that emitted it
};

struct Program {
  std::vector<Value> values;
  std::vector<Node> nodes;

  ValueId add(Value value) {
    values.push_back(std::move(value));
    return static_cast<ValueId>(values.size()) - 1;
  }
  Value& at(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& at(ValueId id) const { return values[static_cast<size_t>(id)]; }
  // The value whose memory `id` is a view of (itself where it is no view).
  ValueId root(ValueId id) const {
    while (at(id).view_of != kNoValue) id = at(id).view_of;
    return id;
  }
};

enum class Mode { kTrain, kEval, kPredict };  // kPredict: up to what the loss reads, without labels

}  // namespace dtrain::graph
