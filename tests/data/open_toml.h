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
                            const std::string& file = "run.toml") {
  Result<config::Value> table = config::parse_toml(text, file);
  EXPECT_TRUE(table) << table.error().message;
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  OpenedData opened;
  opened.source = open_data(reader, {files, network_input});
  opened.status = diagnostics.status();
  EXPECT_EQ(opened.source.dataset != nullptr, opened.status.has_value());
  return opened;
}

struct ReadSample {
  std::vector<float> sample;
  std::vector<int32_t> classes;
  std::vector<float> values;
};

inline ReadSample read_sample(const Dataset& dataset, int64_t index) {
  ReadSample r;
  r.sample.resize(static_cast<size_t>(dataset.sample_shape().elements()));
  const auto n = static_cast<size_t>(dataset.labels().shape.elements());
  (dataset.labels().kind == LabelKind::kValues ? r.values.resize(n) : r.classes.resize(n));
  EXPECT_TRUE(dataset.read(index, r.sample, {r.classes, r.values}));
  return r;
}

}  // namespace dtrain::data
