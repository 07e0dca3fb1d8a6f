// A worker asks for rows of the sparse tables at a version: those of one micro-batch that are this server's, in parts
// that fit into a frame; none, where it has no use for any, for the answer says that the version is there. Answered with
// Rows at once, or when that version is committed; with RowsGone where it is no longer kept. A higher round means that
// what was asked for in earlier ones is of no use any more.
#pragma once

#include <cstdint>
#include <vector>

#include "proto-free-wire/message_type.h"

namespace dtrain::wire {

struct RowPull {
  static constexpr MessageType kType = MessageType::kRowPull;

  uint64_t round = 0;
  uint32_t part = 0;
  int64_t version = 0;
  std::vector<uint64_t> rows;  // ascending; numbered over all sparse tables (ps/row_space.h)

  template <typename Self, typename Visitor>
  static void fields(Self& m, Visitor&& v) {
    v("round", m.round);
    v("part", m.part);
    v("version", m.version);
    v("rows", m.rows);
  }
  bool operator==(const RowPull&) const = default;
};

}  // namespace dtrain::wire
