// The rows of all sparse tables of a network, numbered one table after the other, and which shard server keeps each: a
// pure function of the parameters and the number of servers, the same on every task.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/parameter.h"

namespace dtrain::ps {

// A gradient of rows, or their values: those of row i lie behind those of row i − 1, each as long as its table is wide.
struct RowList {
  std::vector<uint64_t> rows;  // ascending
  std::vector<float> values;
};

// Immutable.
class RowSpace {
 public:
  struct Table {
    ParameterIndex parameter = 0;
    uint64_t first = 0, rows = 0;
    int64_t width = 0;
  };
  // A message carries at most so many rows, and elements of them (256 KiB): so a table is no wider.
  static constexpr size_t kMostRows = 16'384, kMostElements = static_cast<size_t>(kChunkElements);

  RowSpace() = default;
  RowSpace(const std::vector<ParameterInfo>& parameters, uint32_t servers);

  bool empty() const { return tables_.empty(); }
  const std::vector<Table>& tables() const { return tables_; }
  uint64_t rows() const { return rows_; }
  uint32_t servers() const { return servers_; }
  // Index of the table that a row belongs to. REQUIRES row < rows().
  size_t table_of(uint64_t row) const;
  // Rows that are often used together, or whose numbers have a pattern, lie on all servers alike.
  uint32_t server_of(uint64_t row) const;
  // Of ascending rows: what their values come to.
  size_t elements(std::span<const uint64_t> rows) const;

  // Calls f(table, begin, end) for the rows [begin, end) of an ascending list that are of one table, table by table.
  template <typename F>
  void for_tables(std::span<const uint64_t> rows, const F& f) const {
    for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      const size_t t = table_of(rows[begin]);
      end = end_of(rows, begin, tables_[t].first + tables_[t].rows);
      f(t, begin, end);
    }
  }
  // Calls f(begin, end) for pieces of an ascending list that fit into a message; once with (0, 0) for an empty one.
  template <typename F>
  void for_pieces(std::span<const uint64_t> rows, const F& f) const {
    size_t begin = 0, elements = 0;
    size_t t = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      while (rows[i] >= tables_[t].first + tables_[t].rows) ++t;
      const auto width = static_cast<size_t>(tables_[t].width);
      if (i - begin == kMostRows || elements + width > kMostElements) {
        f(begin, i);
        begin = i;
        elements = 0;
      }
      elements += width;
    }
    f(begin, rows.size());
  }

 private:
  static size_t end_of(std::span<const uint64_t> rows, size_t begin, uint64_t last);

  std::vector<Table> tables_;
  uint64_t rows_ = 0;
  uint32_t servers_ = 1;
};

}  // namespace dtrain::ps
