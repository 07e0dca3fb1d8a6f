// Images of numbers for tests of transforms, as they come out of a list of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/parse.h"
#include "data/transform_list.h"

namespace dtrain::data {

struct ReadList {
  TransformList list;
  Status status;
};

// `text` is what stands at the key `transforms`.
inline ReadList read_list(const std::string& text, const ImageShape& images, bool training = true) {
  const RealFileSystem files;
  Result<config::Value> table = config::parse_toml("transforms = " + text, "run.toml");
  EXPECT_TRUE(table) << table.error().message;
  config::Diagnostics diagnostics;
  config::TableReader reader(*table, diagnostics, "[data.train]");
  const DatasetContext context{.files = files, .network_input = Shape{}, .training = training};
  ReadList out;
  out.list = TransformList::read(reader, images, context);
  reader.finish();
  out.status = diagnostics.status();
  return out;
}

inline std::string list_error(const std::string& text, const ImageShape& images, bool training = true) {
  const Status status = read_list(text, images, training).status;
  return status ? "" : status.error().message;
}

// Values 0, 1, 2, … times `step`.
inline Image counting_image(const ImageShape& shape, float step = 1) {
  Image image = make_image(shape);
  for (size_t i = 0; i < image.values.size(); ++i) image.values[i] = static_cast<float>(i) * step;
  return image;
}

inline Image transformed(const std::string& text, Image image, int64_t number = 0, uint64_t seed = 1) {
  ReadList read = read_list(text, {image.shape.channels, 0, 0});
  EXPECT_TRUE(read.status) << read.status.error().message;
  const Status done = read.list.apply(image, {.index = 0, .number = number, .seed = seed});
  EXPECT_TRUE(done) << done.error().message;
  const ImageShape after = read.list.shape();
  if (after.fixed()) {
    EXPECT_EQ(after, image.shape);
  }
  EXPECT_EQ(image.values.size(), static_cast<size_t>(image.shape.channels * image.shape.height * image.shape.width));
  return image;
}

}  // namespace dtrain::data
