// LIBSVM's text format: a label, then the elements that are not 0 as index:value, the indices rising from 1; '#' begins
// a comment.
//
//   [data.train]
//   format = "libsvm"
//   file = "train.txt"
//   features = 123          of a sample; default: as many as the network takes
//   label_type = "class"    or "number"
//   limit = …
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "data/array_dataset.h"
#include "data/csv_file.h"
#include "data/registry.h"

namespace dtrain::data {
namespace {

constexpr int64_t kMaxFeatures = int64_t{1} << 24;

// Samples as their elements that are not 0, one after the other.
struct SparseRows {
  std::vector<uint64_t> begins = {0};  // of each sample, and the end
  std::vector<uint32_t> indices;       // from 0
  std::vector<float> values;
  std::vector<double> labels;
  std::vector<int64_t> lines;
};

class LibsvmDataset final : public Dataset {
 public:
  LibsvmDataset(SparseRows rows, Shape shape) : rows_(std::move(rows)), shape_(std::move(shape)) {}

  int64_t size() const override { return static_cast<int64_t>(rows_.labels.size()); }
  const Shape& sample_shape() const override { return shape_; }
  const LabelSpec& labels() const override { return label_spec; }
  int64_t max_label() const override {
    return classes.empty() ? -1 : int64_t{*std::max_element(classes.begin(), classes.end())};
  }
  std::span<const std::string> label_names() const override { return names; }
  std::string preprocessing() const override { return learnt; }
  Digest digest() const override { return content; }

  Status read(const Draw& draw, SampleOut sample, LabelOut label) const override {
    DTRAIN_CHECK(draw.index >= 0 && draw.index < size(), "sample {} of {}", draw.index, size());
    const auto row = static_cast<size_t>(draw.index);
    std::fill(sample.values.begin(), sample.values.end(), 0.0f);
    for (uint64_t i = rows_.begins[row]; i < rows_.begins[row + 1]; ++i)
      sample.values[rows_.indices[i]] = rows_.values[i];
    if (label_spec.kind == LabelKind::kValues)
      label.values[0] = static_cast<float>(rows_.labels[row]);
    else
      label.classes[0] = classes.empty() ? 0 : classes[row];
    return {};
  }
  const SparseRows& rows() const { return rows_; }

  std::vector<int32_t> classes;
  std::vector<std::string> names;
  std::string learnt;
  LabelSpec label_spec;
  Digest content{};

 private:
  SparseRows rows_;
  Shape shape_;
};

// Reads the lines of a file.
class LibsvmReader {
 public:
  LibsvmReader(std::string_view text, const std::string& path, int64_t features, LabelKind labels)
      : rest_(text), path_(path), features_(features), labels_(labels) {}

  Result<SparseRows> read(int64_t limit) {
    // An element takes four bytes, "1:2 ".
    rows_.indices.reserve(static_cast<size_t>(std::count(rest_.begin(), rest_.end(), ':')));
    rows_.values.reserve(rows_.indices.capacity());
    while (!rest_.empty() && (limit == 0 || static_cast<int64_t>(rows_.labels.size()) < limit)) {
      ++line_;
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      DTRAIN_TRY(read_line(rest_.substr(0, std::min(rest_.find('#'), end))));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
    }
    if (rows_.labels.empty()) return fail(ExitCode::kData, fmt::format("'{}' holds no samples", path_));
    return std::move(rows_);
  }

 private:
  tl::unexpected<Error> error(std::string_view reason) const {
    return fail(ExitCode::kData, fmt::format("'{}', line {}: {}", path_, line_, reason));
  }

  static std::string_view word(std::string_view& line) {
    constexpr std::string_view kBlanks = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    const std::string_view found = line.substr(0, line.find_first_of(kBlanks));
    line.remove_prefix(found.size());
    return found;
  }

  Status read_line(std::string_view line) {
    const std::string_view first = word(line);
    if (first.empty()) return {};
    const std::optional<double> label = parse_number(first);
    if (!label) return error(fmt::format("the label '{}' is not a finite number", first.substr(0, 40)));
    if (labels_ == LabelKind::kValues && !std::isfinite(static_cast<float>(*label)))
      return error(fmt::format("the label {} is too large for a float", *label));
    int64_t last = 0;
    for (std::string_view element = word(line); !element.empty(); element = word(line)) {
      const size_t colon = element.find(':');
      const std::string_view before = element.substr(0, colon);
      int64_t index = 0;
      const auto [end, failure] = std::from_chars(before.data(), before.data() + before.size(), index);
      if (colon == std::string_view::npos || failure != std::errc() || end != before.data() + before.size())
        return error(fmt::format("'{}' is not index:value", element.substr(0, 40)));
      if (index < 1 || index > features_)
        return error(fmt::format("index {} is not from 1 to features = {}", index, features_));
      if (index <= last) return error(fmt::format("index {} does not rise: {} stands before it", index, last));
      const std::optional<double> value = parse_number(element.substr(colon + 1));
      if (!value || !std::isfinite(static_cast<float>(*value)))
        return error(fmt::format("'{}': the value is not a finite number", element.substr(0, 40)));
      rows_.indices.push_back(static_cast<uint32_t>(index - 1));
      rows_.values.push_back(static_cast<float>(*value));
      last = index;
    }
    rows_.begins.push_back(rows_.indices.size());
    rows_.labels.push_back(*label);
    rows_.lines.push_back(line_);
    return {};
  }

  std::string_view rest_;
  const std::string& path_;
  const int64_t features_;
  const LabelKind labels_;
  int64_t line_ = 0;
  SparseRows rows_;
};

// The labels that are classes, in the order of their numbers: of the training data, or as they travelled with it.
Result<std::vector<double>> class_labels(const SparseRows& rows, const std::string& learnt) {
  std::vector<double> labels;
  if (learnt.empty()) {
    labels = rows.labels;
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    return labels;
  }
  try {
    const auto document = nlohmann::json::parse(learnt);
    if (document.at("format") == "dtrain libsvm 1") return document.at("labels").get<std::vector<double>>();
  } catch (const nlohmann::json::exception&) {  // said below
  }
  return fail(ExitCode::kCheckpoint,
              "the training data were prepared otherwise than as libsvm: their labels are not known");
}

Status take_classes(LibsvmDataset& dataset, const std::string& path, const std::string& learnt, bool labelled) {
  DTRAIN_TRY_ASSIGN(const std::vector<double> labels, class_labels(dataset.rows(), learnt));
  for (const double label : labels) dataset.names.push_back(fmt::format("{}", label));
  dataset.learnt = nlohmann::ordered_json{{"format", "dtrain libsvm 1"}, {"labels", labels}}.dump();
  if (!labelled) return {};
  for (size_t row = 0; row < dataset.rows().labels.size(); ++row) {
    const double label = dataset.rows().labels[row];
    const auto at = std::lower_bound(labels.begin(), labels.end(), label);
    if (at == labels.end() || *at != label)
      return fail(ExitCode::kData, fmt::format("'{}', line {}: the label {} is none of the {} of the training data",
                                               path, dataset.rows().lines[row], label, labels.size()));
    dataset.classes.push_back(static_cast<int32_t>(at - labels.begin()));
  }
  return {};
}

std::unique_ptr<Dataset> make_libsvm(config::TableReader& table, const DatasetContext& context) {
  const std::string path = table.require_path("file");
  const std::vector<std::string> kinds = {"class", "number"};
  const bool classes = table.choice("label_type", "class", kinds) == "class";
  const int64_t features =
      table.has("features") ? table.require_integer("features", 1, kMaxFeatures) : context.network_input.elements();
  table.also_known("features");
  table.also_known("limit");
  const int64_t limit = table.has("limit") ? table.integer("limit", 1, 1) : 0;
  if (features != context.network_input.elements())
    table.error("features", fmt::format("samples have {} features, network.input is {}", features,
                                        to_string(context.network_input)));
  if (path.empty() || !table.diagnostics().ok()) return nullptr;
  const auto read = [&]() -> Result<std::unique_ptr<Dataset>> {
    DTRAIN_TRY_ASSIGN(const std::string text, context.files.read_file(path, std::numeric_limits<uint64_t>::max()));
    const LabelKind kind = classes ? LabelKind::kClass : LabelKind::kValues;
    DTRAIN_TRY_ASSIGN(SparseRows rows, LibsvmReader(text, path, features, kind).read(limit));
    auto dataset = std::make_unique<LibsvmDataset>(std::move(rows), context.network_input);
    dataset->label_spec.kind = kind;
    if (classes) DTRAIN_TRY(take_classes(*dataset, path, context.preprocessing, context.labelled));
    dataset->content = sha256(fmt::format("libsvm {} {} {} {} {}", dataset->size(), to_string(context.network_input),
                                          classes, dataset->learnt, to_hex(sha256(text))));
    return dataset;
  };
  Result<std::unique_ptr<Dataset>> dataset = read();
  if (dataset) return std::move(*dataset);
  report(table, "file", dataset.error());
  return nullptr;
}

const DatasetRegistration kRegistration("libsvm", make_libsvm);

}  // namespace
}  // namespace dtrain::data
