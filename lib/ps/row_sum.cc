#include "ps/row_sum.h"

#include <algorithm>

#include "base/check.h"
#include "ps/chunk_math.h"

namespace dtrain::ps {

RowList add(const RowSpace& space, const RowList& a, const RowList& b) {
  RowList out;
  out.rows.reserve(a.rows.size() + b.rows.size());
  std::set_union(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(), std::back_inserter(out.rows));
  out.values.resize(space.elements(out.rows));
  size_t i = 0, k = 0;
  const float *left = a.values.data(), *right = b.values.data();
  float* to = out.values.data();
  space.for_tables(out.rows, [&](size_t t, size_t begin, size_t end) {
    const auto width = static_cast<size_t>(space.tables()[t].width);
    for (size_t r = begin; r < end; ++r, to += width) {
      const bool in_a = i < a.rows.size() && a.rows[i] == out.rows[r];
      const bool in_b = k < b.rows.size() && b.rows[k] == out.rows[r];
      if (in_a && in_b)
        ps::add({to, width}, {left, width}, {right, width});
      else
        std::copy_n(in_a ? left : right, width, to);
      if (in_a) ++i, left += width;
      if (in_b) ++k, right += width;
    }
  });
  return out;
}

bool RowSum::covers(uint32_t micro_batch) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& h) { return h.node.first <= micro_batch && micro_batch < h.node.last; });
}

void RowSum::add(uint32_t micro_batch, RowList rows) {
  DTRAIN_CHECK(micro_batch < micro_batches_ && !covers(micro_batch), "micro-batch {}", micro_batch);
  Held added{{micro_batch, micro_batch + 1}, std::move(rows)};
  while (added.node.size() < micro_batches_) {
    const Node other = sibling(added.node, micro_batches_);
    const auto found = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.node == other; });
    if (found == held_.end()) break;
    added.sum = ps::add(space_, found->sum, added.sum);  // a + b is b + a to the bit
    added.node = parent(added.node, micro_batches_);
    held_.erase(found);
  }
  held_.push_back(std::move(added));
}

RowList RowSum::take_root() {
  DTRAIN_CHECK(complete());
  RowList root = std::move(held_.front().sum);
  held_.clear();
  return root;
}

}  // namespace dtrain::ps
