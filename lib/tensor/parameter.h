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
  kFrozen = 3,     // never changes: no gradient, no optimizer's slots; every version is the first one
  kSparse = 4,     // [rows, width]: has gradients of the rows that a step uses, and only rows that were used are kept
};

struct ParameterInfo {
  std::string name;  // "stage1.0.c1.weight", PyTorch's name
  Shape shape;       // PyTorch's shape; elements are fp32
  ParameterKind kind = ParameterKind::kTrainable;
  float rate_multiplier = 1, decay_multiplier = 1;  // on the optimizer's rate and weight decay

  bool operator==(const ParameterInfo&) const = default;
};

using ParameterIndex = int32_t;

// Parameters are cut into chunks, the unit of transfer, checksum, sum and norm, and into blocks of up to four chunks
// (1 MiB), the unit of placement and of commit.
constexpr int64_t kChunkElements = 65'536;
constexpr int64_t kBlockChunks = 4;

}  // namespace dtrain
