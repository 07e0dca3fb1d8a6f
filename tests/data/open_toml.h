// Opens a dataset as a run file would: from the text of its table.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "config/parse.h"
#include "data/dataset.h"

namespace dtrain::data {

struct OpenedData {
  DataSource source;
  Status status;
};

// The table begins at line 1 of `file`; relative paths are seen from that file's folder.
inline OpenedData open_toml(const std::string& text, const FileSystem& files, const Shape& network_input,
                            const std::string& file = "run.toml", int64_t token_classes = 0, int64_t label_classes = 0,
                            bool labelled = true) {
  Result<config::Value> table = config::parse_toml(text, file);
  EXPECT_TRUE(table) << table.error().message;
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  OpenedData opened;
  opened.source = open_data(reader, {.files = files,
                                     .network_input = network_input,
                                     .token_classes = token_classes,
                                     .label_classes = label_classes,
                                     .labelled = labelled});
  opened.status = diagnostics.status();
  EXPECT_EQ(opened.source.dataset != nullptr, opened.status.has_value());
  return opened;
}

struct ReadSample {
  std::vector<float> sample;
  std::vector<int32_t> tokens;
  std::vector<int32_t> classes;
  std::vector<float> values;
};

inline ReadSample read_sample(const Dataset& dataset, const Draw& draw) {
  ReadSample r;
  const auto size = static_cast<size_t>(dataset.sample_shape().elements());
  (dataset.sample_dtype() == DType::kI32 ? r.tokens.resize(size) : r.sample.resize(size));
  const auto n = static_cast<size_t>(dataset.labels().shape.elements());
  (dataset.labels().kind == LabelKind::kValues ? r.values.resize(n) : r.classes.resize(n));
  const Status status = dataset.read(draw, {r.sample, r.tokens}, {r.classes, r.values});
  EXPECT_TRUE(status) << status.error().message;
  return r;
}
inline ReadSample read_sample(const Dataset& dataset, int64_t index) { return read_sample(dataset, Draw{index}); }

// The message of a sample that cannot be read.
inline std::string read_error(const Dataset& dataset, const Draw& draw) {
  std::vector<float> sample(static_cast<size_t>(dataset.sample_shape().elements()));
  std::vector<int32_t> tokens(sample.size());
  const auto n = static_cast<size_t>(dataset.labels().shape.elements());
  std::vector<int32_t> classes(n);
  std::vector<float> values(n);
  const Status status = dataset.read(draw, {sample, tokens}, {classes, values});
  if (status) return "";
  EXPECT_EQ(status.error().code, ExitCode::kData);
  return status.error().message;
}

}  // namespace dtrain::data
