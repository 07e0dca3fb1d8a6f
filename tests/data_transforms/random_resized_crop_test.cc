#include <cmath>

#include <algorithm>

#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The image is its own coordinates, x in one channel and y in the other: what is left of it tells the box.
Image coordinates(int64_t height, int64_t width) {
  Image image = make_image({2, height, width});
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      image.row(0, y)[x] = static_cast<float>(x);
      image.row(1, y)[x] = static_cast<float>(y);
    }
  return image;
}

struct Seen {
  double width, height, left, top;
};
// Enlarged so much, a resized row begins and ends with its first and last pixel.
Seen box(const std::string& keys, int64_t height, int64_t width, int64_t number) {
  const Image out =
      transformed("[{ type = 'random_resized_crop', size = 256, " + keys + " }]", coordinates(height, width), number);
  const double left = out.row(0, 0)[0], right = out.row(0, 0)[255], top = out.row(1, 0)[0], bottom = out.row(1, 255)[0];
  return {right - left + 1, bottom - top + 1, left, top};
}

TEST(RandomResizedCropTest, AreaAndProportionsAreWithinTheirRanges) {
  double least = 1, most = 0, narrow = 9, wide = 0;
  for (int64_t n = 0; n < 400; ++n) {
    const Seen b = box("scale = [0.2, 0.6], ratio = [0.5, 2]", 60, 80, n);
    ASSERT_EQ(b.width, std::floor(b.width));
    ASSERT_TRUE(b.left >= 0 && b.top >= 0 && b.left + b.width <= 80 && b.top + b.height <= 60);
    const double area = b.width * b.height / 4800, ratio = b.width / b.height;
    least = std::min(least, area), most = std::max(most, area);
    narrow = std::min(narrow, ratio), wide = std::max(wide, ratio);
  }
  EXPECT_NEAR(least, 0.2, 0.02);
  EXPECT_NEAR(most, 0.6, 0.02);
  EXPECT_NEAR(narrow, 0.5, 0.04);
  EXPECT_NEAR(wide, 2, 0.15);
}

TEST(RandomResizedCropTest, ABoxFollowsFromItsWords) {
  const Philox stream(1, stream_id("transform/1/random_resized_crop"), 7, 0);
  const Philox4 words = stream.group(0);
  const double target = 64 * 64 * (0.25 + 0.25 * uniform01(words[0]));
  const double ratio = 0.75 * std::pow(16.0 / 9.0, words[1] / 4294967296.0);
  const Seen b = box("scale = [0.25, 0.5]", 64, 64, 7);
  EXPECT_EQ(b.width, std::round(std::sqrt(target * ratio)));
  EXPECT_EQ(b.height, std::round(std::sqrt(target / ratio)));
  EXPECT_EQ(b.top, words[2] * static_cast<uint64_t>(64 - b.height + 1) >> 32);
  EXPECT_EQ(b.left, words[3] * static_cast<uint64_t>(64 - b.width + 1) >> 32);
}

TEST(RandomResizedCropTest, WhereNothingFitsTheMiddleIsTaken) {
  // All of a square's area with width : height = 2 never fits.
  const Seen square = box("scale = [1, 1], ratio = [2, 2]", 40, 40, 0);
  EXPECT_EQ(square.width, 40);
  EXPECT_EQ(square.height, 20);
  EXPECT_EQ(square.top, 10);
  const Seen flat = box("scale = [1, 1], ratio = [0.5, 0.5]", 10, 30, 0);
  EXPECT_EQ(flat.width, 5);
  EXPECT_EQ(flat.left, 12);
  // One pixel is a part too.
  const Image one = transformed("[{ type = 'random_resized_crop', size = [1, 2] }]", {{1, 1, 1}, {5}});
  EXPECT_THAT(one.values, ElementsAre(5, 5));
}

TEST(RandomResizedCropTest, AllOfTheImageIsAResize) {
  const std::string all = "[{ type = 'random_resized_crop', size = 2, scale = [1, 1], ratio = [1, 1] }]";
  const Image image = counting_image({1, 4, 4});
  EXPECT_EQ(transformed(all, image).values, transformed("[{ type = 'resize', size = 2 }]", image).values);
}

TEST(RandomResizedCropTest, MistakesAreNamed) {
  for (const char* keys : {"scale = [0.5]", "scale = [0.6, 0.5]", "scale = [0, 0.5]", "scale = [0.5, 1.5]"})
    EXPECT_THAT(list_error(std::string("[{ type = 'random_resized_crop', size = 2, ") + keys + " }]", {1, 4, 4}),
                HasSubstr("scale"));
  EXPECT_THAT(list_error("[{ type = 'random_resized_crop', size = 2, ratio = [2, 1] }]", {1, 4, 4}),
              HasSubstr("ratio"));
  EXPECT_THAT(list_error("[{ type = 'random_resized_crop', size = 2 }]", {1, 4, 4}, false), HasSubstr("is random"));
}

}  // namespace
}  // namespace dtrain::data
