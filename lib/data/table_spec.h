// What [data.train] declares about a table: its columns, how each becomes numbers of the sample, and the label.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/table_reader.h"

namespace dtrain::data {

enum class Scale { kNone, kStandard, kMinMax };
enum class Encode { kOneHot, kIndex };
// What stands where a value is missing. kCategory: a category of its own; kMode: the most frequent one.
enum class Missing { kError, kMean, kMedian, kValue, kMode, kCategory };
enum class Normalize { kNone, kL1, kL2, kMax };
enum class LabelType { kClass, kIndex, kNumber };

// A column by its name in the header, or by its place, from 1.
struct ColumnKey {
  std::string name;
  int64_t number = 0;
};
std::string to_string(const ColumnKey& key);

struct ColumnSpec {
  static constexpr const char* kAllOthers = "*";  // as a name: what no other entry and no label names

  ColumnKey key;
  config::Position position;
  bool category = false;
  Missing missing = Missing::kError;
  // Of numbers.
  Scale scale = Scale::kStandard;
  double fill = 0;  // of Missing::kValue
  // Of categories.
  Encode encode = Encode::kOneHot;
  bool other = false;                   // unknown ones are one more category; else an error
  std::vector<std::string> categories;  // in this order; empty: those that occur, by frequency
};

struct LabelColumn {
  ColumnKey key;
  config::Position position;
  LabelType type = LabelType::kClass;
  std::vector<std::string> categories;  // of kClass, as ColumnSpec has it
};

struct TableSpec {
  std::vector<ColumnSpec> columns;
  LabelColumn label;
  Normalize normalize = Normalize::kNone;

  // The keys columns, label and normalize.
  static TableSpec read(config::TableReader& table);
};

// The words of run files and models for these, in the order of the values.
extern const std::vector<std::string> kScaleNames, kEncodeNames, kNormalizeNames, kLabelTypeNames;

}  // namespace dtrain::data
