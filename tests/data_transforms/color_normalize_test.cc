#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ColorNormalizeTest, ByChannelOrForAll) {
  EXPECT_THAT(
      transformed("[{ type = 'color_normalize', mean = [1, 2], std = [0.5, 2] }]", counting_image({2, 1, 2})).values,
      ElementsAre(-2, 0, 0, 0.5));
  EXPECT_THAT(transformed("[{ type = 'color_normalize', mean = [1] }]", counting_image({2, 1, 2})).values,
              ElementsAre(-1, 0, 1, 2));
}

TEST(ColorNormalizeTest, MistakesAreNamed) {
  EXPECT_THAT(list_error("[{ type = 'color_normalize', mean = [1, 2] }]", {3, 4, 4}),
              HasSubstr("mean has 2 numbers, the images have 3 channels"));
  EXPECT_THAT(list_error("[{ type = 'color_normalize', std = [0] }]", {3, 4, 4}), HasSubstr("std must be above 0"));
}

}  // namespace
}  // namespace dtrain::data
