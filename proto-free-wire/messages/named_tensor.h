// A parameter of the run, fp32 in PyTorch's layout. `kind` is a ParameterKind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct NamedTensor {
  static constexpr MessageType kType = MessageType::kNamedTensor;

  uint32_t tensor = 0;  // its index, by which it is asked for
  std::string name;
  std::vector<int64_t> shape;
  uint8_t kind = 0;  // 1 trainable, 2 running statistic, 3 frozen, 4 sparse table

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("tensor", m.tensor);
    v("name", m.name);
    v("shape", m.shape);
    v("kind", m.kind);
  }
  bool operator==(const NamedTensor&) const = default;
};

}  // namespace dtrain::wire
