#include "watch/npy_writer.h"

#include <gtest/gtest.h>

#include "data/npy.h"
#include "tests/temporary_directory.h"

namespace dtrain::watch {
namespace {

TEST(NpyWriter, WhatItWritesIsReadBack) {
  const TemporaryDirectory folder;
  RealFileSystem files;
  const std::string path = folder.path() + "/x.npy";
  for (const Shape& shape : {Shape{6}, Shape{2, 3}, Shape{1, 6, 1}}) {
    const std::vector<float> values{1, 2, 3, 4.5f, -5, 6};
    ASSERT_TRUE(write_npy(files, path, shape, values));
    const auto array = data::read_npy(files, path);
    ASSERT_TRUE(array) << array.error().message;
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(array->begin % 64, 0u);
    std::vector<float> back(6);
    data::convert(*array, 0, back);
    EXPECT_EQ(back, values);
  }
  EXPECT_FALSE(write_npy(files, folder.path() + "/none/x.npy", Shape{1}, std::vector<float>{1}));
}

}  // namespace
}  // namespace dtrain::watch
