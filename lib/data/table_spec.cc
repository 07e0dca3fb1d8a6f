#include "data/table_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace dtrain::data {
namespace {

constexpr int64_t kMaxColumns = 1 << 20;

template <typename T>
T choose(config::TableReader& table, const char* key, T standard, const std::vector<std::string>& names) {
  const std::string word = table.choice(key, names[static_cast<size_t>(standard)], names);
  return static_cast<T>(std::find(names.begin(), names.end(), word) - names.begin());
}

// For messages before the entry is read.
std::string describe_entry(const config::Value& entry, const char* key, const char* what) {
  const config::Value* name = entry.find(key);
  if (name && name->is_string()) return fmt::format("{} '{}'", what, name->as_string());
  if (name && name->is_integer()) return fmt::format("{} {}", what, name->as_integer());
  return what;
}

ColumnKey read_key(config::TableReader& table, const char* key) {
  const config::Value* value = table.value(key);
  if (value && value->is_integer()) return {"", table.require_integer(key, 1, kMaxColumns)};
  const ColumnKey read{table.require_string(key), 0};
  if (value && value->is_string() && read.name.empty())
    table.error(key, fmt::format("'{}' is empty: a column has a name, or a number from 1", key));
  return read;
}

std::vector<std::string> read_categories(config::TableReader& table) {
  std::vector<std::string> categories = table.strings("categories");
  if (table.has("categories") && categories.empty()) table.error("categories", "'categories' is empty");
  if (std::set<std::string>(categories.begin(), categories.end()).size() != categories.size())
    table.error("categories", "'categories' holds one twice");
  return categories;
}

void read_number(config::TableReader& table, ColumnSpec& column) {
  column.scale = choose(table, "scale", Scale::kStandard, kScaleNames);
  const config::Value* missing = table.value("missing");
  if (missing && !missing->is_string()) {
    column.missing = Missing::kValue;
    column.fill = table.number("missing", 0);
    return;
  }
  const std::vector<std::string> words = {"error", "mean", "median"};
  const std::string word = table.choice("missing", "error", words);
  column.missing = word == "mean" ? Missing::kMean : word == "median" ? Missing::kMedian : Missing::kError;
}

void read_category(config::TableReader& table, ColumnSpec& column) {
  column.encode = choose(table, "encode", Encode::kOneHot, kEncodeNames);
  const std::vector<std::string> missing = {"error", "mode", "category"}, unknown = {"error", "other"};
  const std::string word = table.choice("missing", "error", missing);
  column.missing = word == "mode" ? Missing::kMode : word == "category" ? Missing::kCategory : Missing::kError;
  column.other = table.choice("unknown", "error", unknown) == "other";
  column.categories = read_categories(table);
}

ColumnSpec read_column(const config::Value& entry, config::Diagnostics& diagnostics) {
  config::TableReader table(entry, diagnostics, describe_entry(entry, "name", "column"));
  ColumnSpec column;
  column.position = entry.position();
  column.key = read_key(table, "name");
  const std::vector<std::string> types = {"number", "category"};
  column.category = table.choice("type", "number", types) == "category";
  if (column.category)
    read_category(table, column);
  else
    read_number(table, column);
  table.finish();
  return column;
}

LabelColumn read_label(const config::Value& entry, config::Diagnostics& diagnostics) {
  config::TableReader table(entry, diagnostics, describe_entry(entry, "column", "label"));
  LabelColumn label;
  label.position = entry.position();
  label.key = read_key(table, "column");
  label.type = choose(table, "type", LabelType::kClass, kLabelTypeNames);
  if (label.type == LabelType::kClass) label.categories = read_categories(table);
  table.finish();
  return label;
}

}  // namespace

const std::vector<std::string> kScaleNames = {"none", "standard", "minmax"}, kEncodeNames = {"onehot", "index"},
                               kNormalizeNames = {"none", "l1", "l2", "max"},
                               kLabelTypeNames = {"class", "index", "number"};

std::string to_string(const ColumnKey& key) {
  return key.name.empty() ? fmt::format("column {}", key.number) : fmt::format("column '{}'", key.name);
}

TableSpec TableSpec::read(config::TableReader& table) {
  TableSpec spec;
  if (const config::Value* label = table.require_table("label")) spec.label = read_label(*label, table.diagnostics());
  if (const config::Value* columns = table.list("columns")) {
    for (const config::Value& entry : columns->as_array())
      spec.columns.push_back(read_column(entry, table.diagnostics()));
    if (spec.columns.empty()) table.error("columns", "'columns' is empty: the samples would be, too");
  } else {
    spec.columns.push_back({.key = {ColumnSpec::kAllOthers, 0}, .position = table.position()});
  }
  spec.normalize = choose(table, "normalize", Normalize::kNone, kNormalizeNames);
  return spec;
}

}  // namespace dtrain::data
