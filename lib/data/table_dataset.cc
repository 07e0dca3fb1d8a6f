#include "data/table_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace dtrain::data {
namespace {

struct SampleColumn {
  int64_t first = 0, width = 1;  // in the sample
  std::vector<float> values;     // of numbers
  std::vector<int32_t> codes;    // of categories
};

class TableDataset final : public Dataset {
 public:
  TableDataset(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {}

  int64_t size() const override { return rows; }
  const Shape& sample_shape() const override { return shape_; }
  DType sample_dtype() const override { return dtype_; }
  const LabelSpec& labels() const override { return label_spec; }
  int64_t max_label() const override {
    return classes.empty() ? -1 : int64_t{*std::max_element(classes.begin(), classes.end())};
  }
  std::span<const std::string> label_names() const override { return pipeline.label.categories; }
  std::string preprocessing() const override { return pipeline.text(); }
  Digest digest() const override { return content; }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < rows, "sample {} of {}", draw.index, rows);
    const auto row = static_cast<size_t>(draw.index);
    if (dtype_ == DType::kI32) {
      for (size_t c = 0; c < columns.size(); ++c) sample.tokens[c] = columns[c].codes[row];
    } else {
      spread(row, sample.values);
    }
    if (label_spec.kind == LabelKind::kValues)
      label.values[0] = targets.empty() ? 0.0f : targets[row];
    else
      label.classes[0] = classes.empty() ? 0 : classes[row];
    return {};
  }

  int64_t rows = 0;
  std::vector<SampleColumn> columns;
  std::vector<int32_t> classes;  // empty where labels are not asked for, or are numbers
  std::vector<float> targets;
  LabelSpec label_spec;
  TablePipeline pipeline;
  Digest content{};

 private:
  void spread(size_t row, std::span<float> sample) const {
    for (const SampleColumn& column : columns) {
      const auto first = static_cast<size_t>(column.first);
      if (column.codes.empty()) {
        sample[first] = column.values[row];
      } else if (column.width == 1 && !one_hot(column)) {
        sample[first] = static_cast<float>(column.codes[row]);
      } else {
        std::fill_n(sample.begin() + column.first, column.width, 0.0f);
        sample[first + static_cast<size_t>(column.codes[row])] = 1.0f;
      }
    }
  }
  bool one_hot(const SampleColumn& column) const {
    return pipeline.columns[static_cast<size_t>(&column - columns.data())].encode == Encode::kOneHot;
  }

  Shape shape_;
  DType dtype_;
};

class Applying {
 public:
  explicit Applying(TableInput& input) : input_(input) {}

  Result<SampleColumn> column(size_t c) {
    const FittedColumn& fitted = input_.pipeline.columns[c];
    RawColumn& raw = input_.table.columns[c];
    if (fitted.missing == Missing::kError && raw.first_missing.line > 0)
      return input_.table.error(raw.first_missing, fmt::format("{}: the value is missing; the column's key 'missing' "
                                                               "can say what stands for it",
                                                               fitted.describe()));
    SampleColumn out;
    out.width = fitted.width();
    if (fitted.category)
      DTRAIN_TRY(take_categories(fitted, raw, out.codes));
    else
      DTRAIN_TRY(take_numbers(fitted, raw, out.values));
    return out;
  }

  Status label(TableDataset& out) {
    RawColumn& raw = input_.table.columns.back();
    const FittedLabel& fitted = input_.pipeline.label;
    if (raw.first_missing.line > 0)
      return input_.table.error(raw.first_missing, fmt::format("{}: the value is missing", fitted.describe()));
    if (fitted.type == LabelType::kClass)
      return take_codes(fitted.describe(), "", fitted.categories, raw, {}, {}, out.classes);
    for (size_t row = 0; row < raw.numbers.size(); ++row) {
      const double x = raw.numbers[row];
      if (fitted.type == LabelType::kNumber) {
        out.targets.push_back(static_cast<float>(x));
        if (!std::isfinite(out.targets.back())) return too_large(fitted.describe(), row, x);
      } else {
        if (x != std::floor(x) || x < 0 || x > std::numeric_limits<int32_t>::max())
          return input_.table.error(row, fmt::format("{}: {} is not the number of a class", fitted.describe(), x));
        out.classes.push_back(static_cast<int32_t>(x));
      }
    }
    return {};
  }

 private:
  tl::unexpected<Error> too_large(const std::string& column, size_t row, double x) const {
    return input_.table.error(row, fmt::format("{}: {} is too large for a float", column, x));
  }

  Status take_numbers(const FittedColumn& fitted, RawColumn& raw, std::vector<float>& out) {
    out.reserve(raw.numbers.size());
    for (size_t row = 0; row < raw.numbers.size(); ++row) {
      double x = std::isnan(raw.numbers[row]) ? fitted.fill : raw.numbers[row];
      if (fitted.scale != Scale::kNone)
        x = fitted.divide == 0 ? (fitted.scale == Scale::kMinMax ? 0.5 : 0.0) : (x - fitted.shift) / fitted.divide;
      out.push_back(static_cast<float>(x));
      if (!std::isfinite(out.back())) return too_large(fitted.describe(), row, x);
    }
    std::vector<double>().swap(raw.numbers);
    return {};
  }

  Status take_categories(const FittedColumn& fitted, RawColumn& raw, std::vector<int32_t>& out) {
    const auto known = static_cast<int32_t>(fitted.categories.size());
    const bool own = fitted.missing == Missing::kCategory;
    return take_codes(fitted.describe(), "; unknown = \"other\" gives such values a category of their own",
                      fitted.categories, raw, own ? known : fitted.fill_category,
                      fitted.other ? std::optional(known + (own ? 1 : 0)) : std::nullopt, out);
  }

  // Turns the words' numbers into those of the categories, in place.
  Status take_codes(const std::string& column, std::string_view advice, const std::vector<std::string>& categories,
                    RawColumn& raw, int32_t missing, std::optional<int32_t> other, std::vector<int32_t>& out) {
    std::map<std::string_view, int32_t> numbers;
    for (size_t i = 0; i < categories.size(); ++i) numbers.emplace(categories[i], static_cast<int32_t>(i));
    std::vector<int32_t> code_of;
    for (size_t n = 0; n < raw.names.size(); ++n) {
      const auto at = numbers.find(raw.names[n]);
      if (at == numbers.end() && !other)
        return input_.table.error(raw.first_seen[n],
                                  fmt::format("{}: '{}' is none of the {} values of the training data{}", column,
                                              raw.names[n].substr(0, 40), categories.size(), advice));
      code_of.push_back(at == numbers.end() ? *other : at->second);
    }
    out = std::move(raw.codes);
    for (int32_t& code : out) code = code < 0 ? missing : code_of[static_cast<size_t>(code)];
    return {};
  }

  TableInput& input_;
};

// Each sample's numbers, without those that stand for categories, as a vector of length 1.
void normalise(std::vector<SampleColumn>& columns, Normalize norm, int64_t rows) {
  if (norm == Normalize::kNone) return;
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    double length = 0;
    for (const SampleColumn& column : columns) {
      if (column.values.empty()) continue;
      const double x = std::abs(double{column.values[row]});
      length = norm == Normalize::kL1 ? length + x : norm == Normalize::kL2 ? length + x * x : std::max(length, x);
    }
    if (norm == Normalize::kL2) length = std::sqrt(length);
    if (length == 0) continue;
    for (SampleColumn& column : columns)
      if (!column.values.empty()) column.values[row] = static_cast<float>(column.values[row] / length);
  }
}

// What the columns make, for who must set network.input to it.
std::string list_widths(const TablePipeline& pipeline) {
  constexpr size_t kMost = 40;
  std::string text;
  for (size_t c = 0; c < pipeline.columns.size() && c < kMost; ++c)
    text += fmt::format("{}{} {}", c > 0 ? ", " : "", pipeline.columns[c].describe(), pipeline.columns[c].width());
  return pipeline.columns.size() > kMost ? text + ", …" : text;
}

bool only_indices(const TablePipeline& pipeline) {
  return std::all_of(pipeline.columns.begin(), pipeline.columns.end(),
                     [](const FittedColumn& c) { return c.category && c.encode == Encode::kIndex; });
}

Status check_network(const TablePipeline& pipeline, const DatasetContext& context) {
  const int64_t width = pipeline.width();
  if (context.network_input.elements() != width)
    return fail(ExitCode::kUsage, fmt::format("the columns make samples of {} numbers, network.input is {}; of them {}",
                                              width, to_string(context.network_input), list_widths(pipeline)));
  if (context.token_classes == 0) return {};
  for (const FittedColumn& column : pipeline.columns)
    if (column.choices() > context.token_classes)
      return fail(ExitCode::kUsage, fmt::format("{} has {} categories, but the network looks up {}", column.describe(),
                                                column.choices(), context.token_classes));
  return {};
}

}  // namespace

Result<std::unique_ptr<Dataset>> make_table_dataset(TableInput input, const DatasetContext& context) {
  if (input.table.rows == 0)
    return fail(ExitCode::kData, fmt::format("'{}' holds no records but its header", input.table.paths.front()));
  DTRAIN_TRY(check_network(input.pipeline, context));
  const bool tokens = context.token_classes > 0 && only_indices(input.pipeline);
  auto dataset = std::make_unique<TableDataset>(context.network_input, tokens ? DType::kI32 : DType::kF32);
  dataset->rows = input.table.rows;
  Applying applying(input);
  int64_t first = 0;
  for (size_t c = 0; c < input.pipeline.columns.size(); ++c) {
    DTRAIN_TRY_ASSIGN(dataset->columns.emplace_back(), applying.column(c));
    dataset->columns.back().first = first;
    first += dataset->columns.back().width;
  }
  if (input.pipeline.label.type == LabelType::kNumber) dataset->label_spec.kind = LabelKind::kValues;
  if (input.labelled) DTRAIN_TRY(applying.label(*dataset));
  normalise(dataset->columns, input.pipeline.normalize, dataset->rows);
  Sha256 hash;
  hash.update(
      fmt::format("table {} {} {} {} ", dataset->rows, to_string(context.network_input), tokens, input.labelled));
  hash.update(ByteSpan(std::as_bytes(std::span(input.files))));
  hash.update(input.pipeline.text());
  dataset->content = hash.finish();
  dataset->pipeline = std::move(input.pipeline);
  return dataset;
}

}  // namespace dtrain::data
