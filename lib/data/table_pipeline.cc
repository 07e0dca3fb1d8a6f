#include "data/table_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtrain::data {
namespace {

std::vector<int64_t> counts_of(const RawColumn& values) {
  std::vector<int64_t> counts(values.names.size(), 0);
  for (const int32_t code : values.codes)
    if (code >= 0) ++counts[static_cast<size_t>(code)];
  return counts;
}

double mean_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double x : numbers) sum += x;
  return sum / static_cast<double>(numbers.size());
}

double median_of(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<int64_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  if (numbers.size() % 2 == 1) return *middle;
  return (*std::max_element(numbers.begin(), middle) + *middle) / 2;
}

Status fit_number(FittedColumn& column, const RawColumn& values) {
  std::vector<double> numbers;
  numbers.reserve(values.numbers.size());
  for (const double x : values.numbers)
    if (!std::isnan(x)) numbers.push_back(x);
  if (numbers.empty() && (column.missing != Missing::kValue || values.numbers.empty()))
    return fail(ExitCode::kData, "all its values are missing");
  if (column.missing == Missing::kMean) column.fill = mean_of(numbers);
  if (column.missing == Missing::kMedian) column.fill = median_of(numbers);
  // What follows sees the column with its gaps filled, in the order of the rows.
  numbers = values.numbers;
  for (double& x : numbers)
    if (std::isnan(x)) x = column.fill;
  if (column.scale == Scale::kStandard) {
    column.shift = mean_of(numbers);
    double squares = 0;
    for (const double x : numbers) squares += (x - column.shift) * (x - column.shift);
    column.divide = numbers.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(numbers.size() - 1));
  } else if (column.scale == Scale::kMinMax) {
    const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
    column.shift = *least;
    column.divide = *most - *least;
  }
  if (!std::isfinite(column.shift) || !std::isfinite(column.divide) || !std::isfinite(column.fill))
    return fail(ExitCode::kData, "its values are too large to be scaled");
  return {};
}

Status fit_category(FittedColumn& column, const std::vector<std::string>& given, const RawColumn& values) {
  const std::vector<std::string> found = by_frequency(values);
  column.categories = given.empty() ? found : given;
  if (column.choices() == 0) return fail(ExitCode::kData, "all its values are missing");
  if (column.missing != Missing::kMode) return {};
  for (const std::string& name : found) {
    const auto at = std::find(column.categories.begin(), column.categories.end(), name);
    if (at == column.categories.end()) continue;
    column.fill_category = static_cast<int32_t>(at - column.categories.begin());
    return {};
  }
  return fail(ExitCode::kData, "it has no value that could be the most frequent");
}

}  // namespace

std::vector<std::string> by_frequency(const RawColumn& values) {
  const std::vector<int64_t> counts = counts_of(values);
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : values.names[a] < values.names[b];
  });
  std::vector<std::string> sorted;
  for (const size_t i : order) sorted.push_back(values.names[i]);
  return sorted;
}

int64_t FittedColumn::choices() const {
  return static_cast<int64_t>(categories.size()) + (missing == Missing::kCategory ? 1 : 0) + (other ? 1 : 0);
}

int64_t TablePipeline::width() const {
  int64_t width = 0;
  for (const FittedColumn& column : columns) width += column.width();
  return width;
}

Status fit(FittedColumn& column, const std::vector<std::string>& given_categories, const RawColumn& values) {
  return column.category ? fit_category(column, given_categories, values) : fit_number(column, values);
}

Status fit(FittedLabel& label, const std::vector<std::string>& given_categories, const RawColumn& values) {
  if (label.type != LabelType::kClass) return {};
  label.categories = given_categories.empty() ? by_frequency(values) : given_categories;
  return {};
}

}  // namespace dtrain::data
