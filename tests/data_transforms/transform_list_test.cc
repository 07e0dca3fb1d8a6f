#include "data/transform_list.h"

#include "tests/data/open_toml.h"
#include "tests/data/pictures.h"
#include "tests/data_transforms/transformed.h"
#include "tests/temporary_directory.h"

namespace dtrain::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TransformListTest : public ::testing::Test {
 protected:
  TransformListTest() {
    // Two images of 1 x 4 x 4 with the values 0 … 31.
    std::string images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 4}, labels = {0, 0, 8, 1, 0, 0, 0, 2, 5, 6};
    for (char i = 0; i < 32; ++i) images += i;
    put("x", images);
    put("y", labels);
  }
  void put(const std::string& name, const std::string& content) {
    const std::string path = directory_.path() + "/" + name;
    ASSERT_TRUE(files_.make_directories(parent_path(path)));
    auto file = files_.create(path).value();
    ASSERT_TRUE(file->write(std::as_bytes(std::span(content.data(), content.size()))));
  }
  OpenedData open(const std::string& keys, const Shape& input, const std::string& format = "idx") {
    const std::string files = format == "idx" ? "images = \"x\"\nlabels = \"y\"\nscale = 1\n" : "";
    return open_toml("format = \"" + format + "\"\n" + files + keys, files_, input, directory_.path() + "/run.toml");
  }
  std::string error(const std::string& keys, const Shape& input, const std::string& format = "idx") {
    auto opened = open(keys, input, format);
    if (opened.status) return "";
    EXPECT_EQ(opened.status.error().code, ExitCode::kUsage);
    return opened.status.error().message;
  }

  RealFileSystem files_;
  TemporaryDirectory directory_;
};

TEST_F(TransformListTest, ADatasetOfOneShapeIsTransformedInOrder) {
  auto opened = open("transforms = [{ type = 'center_crop', size = 2 }, { type = 'color_normalize', mean = [1.0] }]",
                     Shape{1, 2, 2});
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_EQ(opened.source.dataset->sample_shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(opened.source.dataset->max_label(), 6);
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).sample, ElementsAre(20, 21, 24, 25));
  EXPECT_THAT(read_sample(*opened.source.dataset, 1).classes, ElementsAre(6));
}

TEST_F(TransformListTest, WhatIsRandomFollowsTheDraw) {
  auto opened = open("transforms = [{ type = 'random_crop', size = [1, 1] }]", Shape{1, 1, 1});
  const Dataset& d = *opened.source.dataset;
  std::vector<int> count(32);
  for (int64_t n = 0; n < 200; ++n) {
    const Draw draw{.index = 1, .number = n, .seed = 3};
    const float value = read_sample(d, draw).sample[0];
    EXPECT_EQ(value, read_sample(d, draw).sample[0]);
    ++count.at(static_cast<size_t>(value));
  }
  for (size_t v = 0; v < 32; ++v) EXPECT_EQ(count[v] > 0, v >= 16) << v;
}

TEST_F(TransformListTest, DigestsDiffer) {
  const auto digest = [&](const std::string& keys) { return open(keys, Shape{1, 4, 4}).source.dataset->digest(); };
  const Digest none = digest(""), flip = digest("transforms = [{ type = 'horizontal_flip' }]");
  EXPECT_EQ(none, digest("transforms = []"));
  EXPECT_NE(none, flip);
  EXPECT_EQ(flip, digest("transforms = [{type='horizontal_flip'}]"));
  EXPECT_NE(flip, digest("transforms = [{ type = 'horizontal_flip', probability = 0.4 }]"));
}

TEST_F(TransformListTest, MistakesAreNamed) {
  const Shape input{1, 4, 4};
  EXPECT_THAT(error("transforms = [{ type = 'horizontal_flap' }]", input), HasSubstr("'horizontal_flip'"));
  EXPECT_THAT(error("transforms = [{ type = 'horizontal_flip', propability = 1 }]", input),
              AllOf(HasSubstr("run.toml:5:"), HasSubstr("transform 1"), HasSubstr("probability")));
  EXPECT_THAT(error("transforms = [1]", input), HasSubstr("transform 1"));
  EXPECT_THAT(error("transforms = 'x'", input), HasSubstr("a list"));
  EXPECT_THAT(error("transforms = [{ type = 'center_crop', size = 2 }]", input), HasSubstr("shape [1, 2, 2]"));
  EXPECT_THAT(error("transforms = [{ type = 'center_crop', size = 2 }, { type = 'center_crop', size = 3 }]", input),
              HasSubstr("out of 2 x 2"));
  EXPECT_THAT(list_error("[{ type = 'cutout', size = 1 }]", {1, 4, 4}, false), HasSubstr("cutout is random"));
}

TEST_F(TransformListTest, OnlyImagesWithALabelOfTheirOwn) {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 2, 2), }\n";
  put("i.npy", std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(header.size()) + '\0' + header + "\1\2\3\4");
  const std::string flat = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 4), }\n";
  put("f.npy", std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(flat.size()) + '\0' + flat + "\1\2\3\4");
  const std::string flip = "transforms = [{ type = 'horizontal_flip', probability = 1 }]\n";
  EXPECT_THAT(error(flip + "inputs = 'i.npy'\nlabels = 'f.npy'", Shape{1, 2, 2}, "npy"),
              HasSubstr("but not its labels"));
  EXPECT_THAT(error(flip + "inputs = 'f.npy'\nlabels = 'f.npy'", Shape{4}, "npy"), HasSubstr("the samples are [4]"));
  const std::string one = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\n";
  put("o.npy", std::string("\x93NUMPY\x01\0", 8) + static_cast<char>(one.size()) + '\0' + one + "\7");
  auto opened = open(flip + "inputs = 'i.npy'\nlabels = 'o.npy'\nscale = 1", Shape{1, 2, 2}, "npy");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_sample(*opened.source.dataset, 0).sample, ElementsAre(2, 1, 4, 3));
}

TEST_F(TransformListTest, PicturesOfAnySizeBecomeSamplesOfOne) {
  std::string rows;
  for (char i = 0; i < 12; ++i) rows += i;
  put("p/x/a.png", png(rows, 4, 3, {PNG_COLOR_TYPE_GRAY, 8, 0, {}}));
  put("p/x/b.png", png(std::string(1, 'x'), 1, 1, {PNG_COLOR_TYPE_GRAY, 8, 0, {}}));
  auto opened = open("folder = 'p'\ntransforms = [{ type = 'center_crop', size = 1 }]", Shape{1, 1, 1}, "images");
  ASSERT_TRUE(opened.status) << opened.status.error().message;
  EXPECT_THAT(read_sample(*opened.source.dataset, 0).sample, ElementsAre(5 * (1.0f / 255.0f)));
  opened = open("folder = 'p'\ntransforms = [{ type = 'center_crop', size = [3, 1] }]", Shape{1, 3, 1}, "images");
  EXPECT_THAT(read_error(*opened.source.dataset, {1}),
              AllOf(HasSubstr("/p/x/b.png': center_crop: 3 x 1 pixels"), HasSubstr("cannot be cut out of 1 x 1")));
  EXPECT_THAT(error("folder = 'p'\ntransforms = [{ type = 'resize', size = 3 }]", Shape{1, 3, 3}, "images"),
              HasSubstr("sizes of their own after these transforms"));
  EXPECT_THAT(error("folder = 'p'\ntransforms = [{ type = 'resize', size = [3, 3] }]", Shape{1, 3, 4}, "images"),
              HasSubstr("shape [1, 3, 3]"));
}

}  // namespace
}  // namespace dtrain::data
