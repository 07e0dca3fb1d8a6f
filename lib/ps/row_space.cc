#include "ps/row_space.h"

#include <algorithm>

#include "base/check.h"

namespace dtrain::ps {

RowSpace::RowSpace(const std::vector<ParameterInfo>& parameters, uint32_t servers) : servers_(servers) {
  DTRAIN_CHECK(servers > 0);
  for (size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].kind != ParameterKind::kSparse) continue;
    const Shape& shape = parameters[p].shape;
    DTRAIN_CHECK(shape.rank() == 2 && shape[0] > 0 && shape[1] > 0 && shape[1] <= static_cast<int64_t>(kMostElements),
                 "{} of shape {}", parameters[p].name, to_string(shape));
    tables_.push_back({static_cast<ParameterIndex>(p), rows_, static_cast<uint64_t>(shape[0]), shape[1]});
    rows_ += static_cast<uint64_t>(shape[0]);
  }
}

size_t RowSpace::table_of(uint64_t row) const {
  const auto next =
      std::upper_bound(tables_.begin(), tables_.end(), row, [](uint64_t r, const Table& t) { return r < t.first; });
  return static_cast<size_t>(next - tables_.begin()) - 1;
}

// The last step of SplitMix64 (Steele, Lea and Flood 2014).
uint32_t RowSpace::server_of(uint64_t row) const {
  row = (row ^ (row >> 30)) * 0xbf58476d1ce4e5b9u;
  row = (row ^ (row >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>((row ^ (row >> 31)) % servers_);
}

size_t RowSpace::elements(std::span<const uint64_t> rows) const {
  size_t elements = 0;
  for_tables(rows, [&](size_t t, size_t begin, size_t end) {
    elements += (end - begin) * static_cast<size_t>(tables_[t].width);
  });
  return elements;
}

size_t RowSpace::end_of(std::span<const uint64_t> rows, size_t begin, uint64_t last) {
  return static_cast<size_t>(std::lower_bound(rows.begin() + static_cast<ptrdiff_t>(begin), rows.end(), last) -
                             rows.begin());
}

}  // namespace dtrain::ps
