// The columns that are wanted of one or more files of delimited text, as they stand there: numbers, and words by their
// number in a list of them. What is no number, and what is missing, is told by its place. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/csv_file.h"

namespace dtrain::data {

struct TablePlace {
  size_t file = 0;
  int64_t line = 0;  // 0: nowhere
};

struct RawColumn {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();  // among numbers; a word's is −1

  bool words = false;
  std::vector<double> numbers;
  std::vector<int32_t> codes;  // of words: which of `names`
  std::vector<std::string> names;
  std::vector<TablePlace> first_seen;  // of each name
  TablePlace first_missing;
};

// What is wanted: field number `field` of the records, from 0.
struct RawRequest {
  size_t field = 0;
  bool words = false;
};

struct RawTable {
  std::vector<std::string> paths;
  std::vector<int64_t> begins;     // the first row of each file
  std::vector<RawColumn> columns;  // one a request
  int64_t rows = 0;

  tl::unexpected<Error> error(const TablePlace& at, std::string_view reason) const;
  // Of a row whose line nobody kept: told by its number among the records of its file.
  tl::unexpected<Error> error(size_t row, std::string_view reason) const;
};

// Adds the records of `file` to `table`, up to `limit` rows altogether (0: all). `names` are the columns', for
// messages.
Status add_file(RawTable& table, CsvFile& file, const std::vector<RawRequest>& requests,
                const std::vector<std::string>& names, const std::vector<std::string>& missing_values, int64_t limit);

}  // namespace dtrain::data
