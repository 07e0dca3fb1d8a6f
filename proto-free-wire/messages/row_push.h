// The gradient of one micro-batch with respect to the rows of the sparse tables that it used and that are this server's,
// in parts that fit into a frame; one part without rows, where there are none. The payload is their fp32 values.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct RowPush {
  static constexpr MessageType kType = MessageType::kRowPush;

  int64_t step = 0;
  uint32_t micro_batch = 0;
  uint32_t part = 0;  // of `parts`, in order
  uint32_t parts = 0;
  std::vector<uint64_t> rows;  // ascending; numbered over all sparse tables (ps/row_space.h)

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("step", m.step);
    v("micro_batch", m.micro_batch);
    v("part", m.part);
    v("parts", m.parts);
    v("rows", m.rows);
  }
  bool operator==(const RowPush&) const = default;
};

}  // namespace dtrain::wire
