#include "data/raw_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace dtrain::data {
namespace {

// A column being read: looks a word's number up.
class ColumnWriter {
 public:
  ColumnWriter(RawColumn& column, size_t file, size_t rows) : column_(column), file_(file) {
    if (column.words)
      column.codes.reserve(column.codes.size() + rows);
    else
      column.numbers.reserve(column.numbers.size() + rows);
    for (size_t i = 0; i < column.names.size(); ++i) numbers_.emplace(column.names[i], static_cast<int32_t>(i));
  }

  // The error is the bare reason.
  Result<void> add(std::string_view field, bool missing, int64_t line) {
    if (missing && column_.first_missing.line == 0) column_.first_missing = {file_, line};
    if (column_.words) {
      if (missing)
        column_.codes.push_back(-1);
      else
        DTRAIN_TRY(add_word(field, line));
      return {};
    }
    const std::optional<double> number = missing ? RawColumn::kMissing : parse_number(field);
    if (!number)
      return fail(ExitCode::kData, fmt::format("'{}' is not a finite number; what means that there is none belongs "
                                               "into missing_values",
                                               field.substr(0, 40)));
    column_.numbers.push_back(*number);
    return {};
  }

 private:
  Result<void> add_word(std::string_view word, int64_t line) {
    if (column_.codes.empty() || column_.codes.back() < 0 ||
        column_.names[static_cast<size_t>(column_.codes.back())] != word) {
      auto at = numbers_.find(word);
      if (at == numbers_.end()) {
        if (!is_utf8(word)) return fail(ExitCode::kData, "the text is not UTF-8");
        at = numbers_.emplace(word, static_cast<int32_t>(column_.names.size())).first;
        column_.names.emplace_back(word);
        column_.first_seen.push_back({file_, line});
      }
      column_.codes.push_back(at->second);
    } else {
      column_.codes.push_back(column_.codes.back());
    }
    return {};
  }

  RawColumn& column_;
  const size_t file_;
  std::map<std::string, int32_t, std::less<>> numbers_;
};

}  // namespace

tl::unexpected<Error> RawTable::error(const TablePlace& at, std::string_view reason) const {
  return fail(ExitCode::kData, fmt::format("'{}', line {}: {}", paths[at.file], at.line, reason));
}

tl::unexpected<Error> RawTable::error(size_t row, std::string_view reason) const {
  const auto at = static_cast<int64_t>(row);
  const auto file = std::upper_bound(begins.begin(), begins.end(), at) - begins.begin() - 1;
  return fail(ExitCode::kData, fmt::format("'{}', record {}: {}", paths[static_cast<size_t>(file)],
                                           at - begins[static_cast<size_t>(file)] + 1, reason));
}

Status add_file(RawTable& table, CsvFile& file, const std::vector<RawRequest>& requests,
                const std::vector<std::string>& names, const std::vector<std::string>& missing_values, int64_t limit) {
  const size_t number = table.paths.size();
  table.paths.push_back(file.path());
  table.begins.push_back(table.rows);
  table.columns.resize(requests.size());
  std::vector<ColumnWriter> writers;
  for (size_t c = 0; c < requests.size(); ++c) {
    table.columns[c].words = requests[c].words;
    writers.emplace_back(table.columns[c], number, file.most_records());
  }
  while (limit == 0 || table.rows < limit) {
    DTRAIN_TRY_ASSIGN(const bool any, file.next());
    if (!any) break;
    for (size_t c = 0; c < requests.size(); ++c) {
      const std::string_view field = file.field(requests[c].field);
      const bool missing = std::find(missing_values.begin(), missing_values.end(), field) != missing_values.end();
      if (const auto added = writers[c].add(field, missing, file.line()); !added)
        return file.error(fmt::format("{}: {}", names[c], added.error().message));
    }
    ++table.rows;
  }
  return {};
}

}  // namespace dtrain::data
