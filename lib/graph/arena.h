// Offsets for buffers that live for a while each, so that two that never live at once may share memory. A pure
// function.
#pragma once

#include <cstddef>
#include <span>

namespace dtrain::graph {

struct ArenaItem {
  size_t bytes = 0;
  int first = 0, last = 0;  // steps in which it holds something, both included
  size_t offset = 0;        // the answer: a multiple of Buffer::kAlignment
};

// Sets the offsets and returns the arena's size. Largest first, each into the smallest gap that fits among those
// already placed whose lives overlap (Pisarchyk & Lee 2020, "Efficient Memory Management for Deep Neural Net
// Inference", greedy by size).
size_t place(std::span<ArenaItem> items);

}  // namespace dtrain::graph
