#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

Image line(std::vector<float> values, bool upright) {
  const auto n = static_cast<int64_t>(values.size());
  return {upright ? ImageShape{1, n, 1} : ImageShape{1, 1, n}, std::move(values)};
}

// Weights of a triangle twice as wide as the reduction: 4 to 2 are (3, 3, 1) / 7 of the first three.
TEST(ResizeTest, ReducingTakesTheMeanUnderATriangle) {
  for (bool upright : {false, true}) {
    const std::string two = upright ? "[{ type = 'resize', size = [2, 1] }]" : "[{ type = 'resize', size = [1, 2] }]";
    EXPECT_THAT(transformed(two, line({0, 1, 2, 3}, upright)).values,
                ElementsAre(FloatNear(5 / 7.0f, 1e-6f), FloatNear(16 / 7.0f, 1e-6f)));
    const std::string three = upright ? "[{ type = 'resize', size = [3, 1] }]" : "[{ type = 'resize', size = [1, 3] }]";
    EXPECT_THAT(transformed(three, line({0, 1, 4, 9, 16}, upright)).values,
                ElementsAre(FloatNear(3 / 7.0f, 1e-6f), FloatNear(40 / 9.0f, 1e-6f), FloatNear(13, 1e-5f)));
  }
}

TEST(ResizeTest, EnlargingInterpolatesBetweenPixelCentres) {
  EXPECT_THAT(transformed("[{ type = 'resize', size = [1, 4] }]", line({0, 4}, false)).values, ElementsAre(0, 1, 3, 4));
  // Each channel by itself.
  const Image two = transformed("[{ type = 'resize', size = [2, 2] }]", {{2, 1, 1}, {3, 8}});
  EXPECT_THAT(two.values, ElementsAre(3, 3, 3, 3, 8, 8, 8, 8));
}

TEST(ResizeTest, OneNumberIsTheShorterSide) {
  EXPECT_EQ(transformed("[{ type = 'resize', size = 2 }]", make_image({1, 4, 7})).shape, (ImageShape{1, 2, 3}));
  EXPECT_EQ(transformed("[{ type = 'resize', size = 4 }]", make_image({3, 5, 2})).shape, (ImageShape{3, 10, 4}));
  EXPECT_EQ(read_list("[{ type = 'resize', size = 2 }]", {1, 4, 7}).list.shape(), (ImageShape{1, 2, 3}));
  EXPECT_FALSE(read_list("[{ type = 'resize', size = 2 }]", {1, 0, 0}).list.shape().fixed());
}

TEST(ResizeTest, TheSameSizeIsTheSameImage) {
  const Image image = counting_image({2, 3, 4}, 0.1f);
  EXPECT_EQ(transformed("[{ type = 'resize', size = 3 }]", image).values, image.values);
}

// A file of a few kilobytes may hold a picture of one column and millions of rows: what it becomes must not take more
// memory on the way than it and the result do.
TEST(ResizeTest, ATallAndNarrowImageTakesNoMoreMemoryThanItsSizes) {
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  Image tall = make_image({1, 1 << 20, 1});
  std::fill(tall.values.begin(), tall.values.end(), 0.5f);
  const auto before = peak_kib();
  const Image out = transformed("[{ type = 'resize', size = [2, 256] }]", tall);
  EXPECT_LT(peak_kib() - before, 256 << 10) << "a gibibyte is 2^20 rows of 256";
  for (const float x : out.values) ASSERT_NEAR(x, 0.5f, 1e-3f);
}

// Both directions at once: rows of the output share rows of the input.
TEST(ResizeTest, BothDirectionsAreThoseOfEachByItself) {
  const Image image = counting_image({3, 11, 7}, 0.37f);
  for (const auto& [height, width] : {std::pair<int, int>{4, 3}, {23, 16}, {4, 16}, {23, 3}, {1, 1}}) {
    const auto list = [](int h, int w) { return fmt::format("[{{ type = 'resize', size = [{}, {}] }}]", h, w); };
    EXPECT_EQ(transformed(list(height, width), image).values,
              transformed(list(height, width), transformed(list(11, width), image)).values);
  }
}

TEST(ResizeTest, MistakesAreNamed) {
  EXPECT_THAT(list_error("[{ type = 'resize' }]", {1, 4, 4}), HasSubstr("size"));
  EXPECT_THAT(list_error("[{ type = 'resize', size = 0 }]", {1, 4, 4}), HasSubstr("size"));
  EXPECT_THAT(list_error("[{ type = 'resize', size = [4, 4, 4] }]", {1, 4, 4}), HasSubstr("size"));
}

// A sliver must not become an image of hundreds of thousands of columns.
TEST(ResizeTest, AnImageThatWouldBeHugeIsRefused) {
  Image sliver = make_image({1, 1, 30000});
  const ReadList read = read_list("[{ type = 'resize', size = 256 }]", {1, 0, 0});
  ASSERT_TRUE(read.status);
  const Status done = read.list.apply(sliver, {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("too large"));
}

}  // namespace
}  // namespace dtrain::data
