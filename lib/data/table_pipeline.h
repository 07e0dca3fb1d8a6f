// How the columns of a table become the numbers of a sample: learnt from the training data (what stands where a value
// is missing, mean and deviation, the categories and their order), then applied to any table alike. It travels as text
// in models. Learning is in fp64 in the order of the rows, so that every task that learns from the same files gets the
// same bits. The stages are those of Spark ML: Imputer, StringIndexer, OneHotEncoder, StandardScaler or MinMaxScaler,
// Normalizer; man/dtrain.toml.5.scd says the formulas. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/csv_file.h"
#include "data/raw_table.h"
#include "data/table_spec.h"

namespace dtrain::data {

// A column of the file that the pipeline was learnt from: its name where that had a header, and its place, from 1.
struct FittedColumn {
  std::string name;
  int64_t number = 0;
  bool category = false;
  Missing missing = Missing::kError;
  Scale scale = Scale::kNone;  // (x − shift) / divide; a constant column becomes 0 (standard) or ½ (minmax)
  double fill = 0, shift = 0, divide = 1;
  Encode encode = Encode::kOneHot;
  std::vector<std::string> categories;  // 0 …, then the missing where they are a category, then the unknown
  int32_t fill_category = 0;            // of Missing::kMode
  bool other = false;

  std::string describe() const { return to_string(ColumnKey{name, name.empty() ? number : 0}); }
  int64_t choices() const;  // categories with the two that may follow
  int64_t width() const { return category && encode == Encode::kOneHot ? choices() : 1; }
};

struct FittedLabel {
  std::string name;
  int64_t number = 0;
  LabelType type = LabelType::kClass;
  std::vector<std::string> categories;

  std::string describe() const { return "label, " + to_string(ColumnKey{name, name.empty() ? number : 0}); }
};

struct TablePipeline {
  static constexpr size_t kMaxText = size_t{64} << 20;

  int64_t fields = 0;  // of the records that it was learnt from
  CsvOptions options;  // so that other files of the kind need not say it again
  std::vector<std::string> missing_values;
  std::vector<FittedColumn> columns;  // in the order in which they stand in a sample
  FittedLabel label;
  Normalize normalize = Normalize::kNone;

  int64_t width() const;
  std::string text() const;
  // Text from a model file may say anything; the error is the bare reason.
  static Result<TablePipeline> from_text(std::string_view text);
};

// Learns what `column` says from the values. Errors: the bare reason.
Status fit(FittedColumn& column, const std::vector<std::string>& given_categories, const RawColumn& values);
Status fit(FittedLabel& label, const std::vector<std::string>& given_categories, const RawColumn& values);

// The categories by frequency, the most frequent first, equal ones in the order of their bytes.
std::vector<std::string> by_frequency(const RawColumn& values);

}  // namespace dtrain::data
