// What a network's parameters are to everyone who does not know layers: shard servers, checkpoints, the wire. Their
// order is the order of the forward pass; an index into that list (`ParameterIndex`) names one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace dtrain {

enum class ParameterKind : uint8_t {
  kTrainable = 1,  // has a gradient; the optimizer moves it
  kStatistic = 2,  // batch norm's running values: a step sets them to the mean of what its micro-batches make of them
};

struct ParameterInfo {
  std::string name;  // "stage1.0.c1.weight", PyTorch's name
  Shape shape;       // PyTorch's shape; elements are fp32
  ParameterKind kind = ParameterKind::kTrainable;

  bool operator==(const ParameterInfo&) const = default;
};

using ParameterIndex = int32_t;

}  // namespace dtrain
