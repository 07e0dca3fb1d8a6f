#include "graph/arena.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tensor/buffer.h"

namespace dtrain::graph {
namespace {

size_t aligned(size_t bytes) { return (bytes + Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment; }

bool overlap(const ArenaItem& a, const ArenaItem& b) { return a.first <= b.last && b.first <= a.last; }

// The start of the smallest gap that holds `bytes` between the placed items, which are in the order of their offsets;
// behind the last one where no gap does.
size_t best_gap(size_t bytes, const ArenaItem& item, const std::vector<const ArenaItem*>& placed) {
  size_t end = 0;  // of what lies before the gap
  size_t best = 0, best_size = SIZE_MAX;
  for (const ArenaItem* p : placed) {
    if (!overlap(*p, item)) continue;
    if (p->offset > end && p->offset - end >= bytes && p->offset - end < best_size) {
      best = end;
      best_size = p->offset - end;
    }
    end = std::max(end, p->offset + aligned(p->bytes));
  }
  return best_size == SIZE_MAX ? end : best;
}

}  // namespace

size_t place(std::span<ArenaItem> items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return items[a].bytes > items[b].bytes; });
  std::vector<const ArenaItem*> placed;  // by offset
  size_t size = 0;
  for (size_t i : order) {
    ArenaItem& item = items[i];
    item.offset = 0;
    if (item.bytes == 0) continue;
    item.offset = best_gap(aligned(item.bytes), item, placed);
    size = std::max(size, item.offset + aligned(item.bytes));
    const auto by_offset = [](const ArenaItem* a, const ArenaItem* b) { return a->offset < b->offset; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), &item, by_offset), &item);
  }
  return size;
}

}  // namespace dtrain::graph
