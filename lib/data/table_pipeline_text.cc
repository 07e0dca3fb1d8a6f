// The pipeline as JSON text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/table_pipeline.h"

namespace dtrain::data {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "dtrain table 1";
const std::vector<std::string> kMissingNames = {"error", "mean", "median", "value", "mode", "category"};

template <typename T>
const std::string& name_of(T value, const std::vector<std::string>& names) {
  return names[static_cast<size_t>(value)];
}

struct Invalid {
  std::string reason;
};

template <typename T>
T value_of(const ordered_json& in, const char* key, const std::vector<std::string>& names) {
  const auto word = in.at(key).get<std::string>();
  const auto at = std::find(names.begin(), names.end(), word);
  if (at == names.end()) throw Invalid{fmt::format("it has the unknown {} '{}'", key, word)};
  return static_cast<T>(at - names.begin());
}

double finite(const ordered_json& in, const char* key) {
  const auto number = in.at(key).get<double>();
  if (!std::isfinite(number)) throw Invalid{fmt::format("its {} is not finite", key)};
  return number;
}

int64_t place(const ordered_json& in) {
  const auto number = in.at("number").get<int64_t>();
  if (number < 1) throw Invalid{"a column's number is below 1"};
  return number;
}

ordered_json to_json(const FittedColumn& c) {
  ordered_json out = {{"name", c.name}, {"number", c.number}, {"type", c.category ? "category" : "number"}};
  out["missing"] = name_of(c.missing, kMissingNames);
  if (c.category) {
    out["encode"] = name_of(c.encode, kEncodeNames);
    if (c.missing == Missing::kMode) out["fill"] = c.fill_category;
    out["unknown"] = c.other ? "other" : "error";
    out["categories"] = c.categories;
  } else {
    if (c.missing != Missing::kError) out["fill"] = c.fill;
    out["scale"] = name_of(c.scale, kScaleNames);
    if (c.scale != Scale::kNone) out["shift"] = c.shift, out["divide"] = c.divide;
  }
  return out;
}

FittedColumn column_from(const ordered_json& in) {
  FittedColumn c;
  c.name = in.at("name").get<std::string>();
  c.number = place(in);
  c.category = in.at("type").get<std::string>() == "category";
  c.missing = value_of<Missing>(in, "missing", kMissingNames);
  if (c.category) {
    c.encode = value_of<Encode>(in, "encode", kEncodeNames);
    c.other = in.at("unknown").get<std::string>() == "other";
    c.categories = in.at("categories").get<std::vector<std::string>>();
    if (c.missing == Missing::kMode) c.fill_category = in.at("fill").get<int32_t>();
    if (c.choices() == 0) throw Invalid{"a column has no categories"};
    if (c.missing == Missing::kMode &&
        (c.fill_category < 0 || static_cast<size_t>(c.fill_category) >= c.categories.size()))
      throw Invalid{"a column's most frequent category is none of its categories"};
  } else {
    if (c.missing != Missing::kError) c.fill = finite(in, "fill");
    c.scale = value_of<Scale>(in, "scale", kScaleNames);
    if (c.scale != Scale::kNone) c.shift = finite(in, "shift"), c.divide = finite(in, "divide");
  }
  return c;
}

TablePipeline pipeline_from(const ordered_json& in) {
  if (const auto format = in.at("format").get<std::string>(); format != kFormat)
    throw Invalid{fmt::format("it is of format '{}', this dtrain knows '{}'", format, kFormat)};
  TablePipeline p;
  p.fields = in.at("fields").get<int64_t>();
  const auto delimiter = in.at("delimiter").get<std::string>();
  if (delimiter.size() != 1) throw Invalid{"its delimiter is not one character"};
  p.options = {delimiter[0], std::nullopt, in.at("trim").get<bool>()};
  if (const ordered_json& header = in.at("header"); !header.is_null()) p.options.header = header.get<bool>();
  p.missing_values = in.at("missing_values").get<std::vector<std::string>>();
  p.normalize = value_of<Normalize>(in, "normalize", kNormalizeNames);
  for (const ordered_json& column : in.at("columns")) p.columns.push_back(column_from(column));
  if (p.columns.empty()) throw Invalid{"it has no columns"};
  const ordered_json& label = in.at("label");
  p.label = {
      label.at("name").get<std::string>(), place(label), value_of<LabelType>(label, "type", kLabelTypeNames), {}};
  if (p.label.type == LabelType::kClass) p.label.categories = label.at("categories").get<std::vector<std::string>>();
  return p;
}

}  // namespace

std::string TablePipeline::text() const {
  ordered_json out = {{"format", kFormat},
                      {"fields", fields},
                      {"delimiter", std::string(1, options.delimiter)},
                      {"header", options.header ? ordered_json(*options.header) : ordered_json()},
                      {"trim", options.trim},
                      {"missing_values", missing_values},
                      {"normalize", name_of(normalize, kNormalizeNames)}};
  out["columns"] = ordered_json::array();
  for (const FittedColumn& c : columns) out["columns"].push_back(to_json(c));
  out["label"] = {{"name", label.name}, {"number", label.number}, {"type", name_of(label.type, kLabelTypeNames)}};
  if (label.type == LabelType::kClass) out["label"]["categories"] = label.categories;
  // Names from the files are UTF-8; what the run file says is, too.
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<TablePipeline> TablePipeline::from_text(std::string_view text) {
  constexpr int kMaxDepth = 4;
  try {
    bool deep = false;
    const auto shallow = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
      deep |= depth > kMaxDepth;
      return !deep;
    };
    const ordered_json in = ordered_json::parse(text, shallow, false);
    if (in.is_discarded() || deep) return fail(ExitCode::kCheckpoint, "it is not JSON of the expected depth");
    return pipeline_from(in);
  } catch (const Invalid& invalid) {
    return fail(ExitCode::kCheckpoint, invalid.reason);
  } catch (const nlohmann::json::exception& e) {
    return fail(ExitCode::kCheckpoint, e.what());
  }
}

}  // namespace dtrain::data
