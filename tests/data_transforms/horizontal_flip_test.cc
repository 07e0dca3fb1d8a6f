#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HorizontalFlipTest, ExchangesLeftAndRight) {
  EXPECT_THAT(transformed("[{ type = 'horizontal_flip', probability = 1 }]", counting_image({2, 2, 3})).values,
              ElementsAre(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9));
  EXPECT_THAT(transformed("[{ type = 'horizontal_flip', probability = 0 }]", counting_image({1, 1, 3})).values,
              ElementsAre(0, 1, 2));
}

TEST(HorizontalFlipTest, HalfOfTheImages) {
  int flipped = 0;
  for (int64_t n = 0; n < 1000; ++n)
    flipped += transformed("[{ type = 'horizontal_flip' }]", counting_image({1, 1, 2}), n).values[0] == 1;
  EXPECT_NEAR(flipped, 500, 60);
}

TEST(HorizontalFlipTest, MistakesAreNamed) {
  EXPECT_THAT(list_error("[{ type = 'horizontal_flip', probability = 1.5 }]", {1, 4, 4}), HasSubstr("probability"));
  EXPECT_THAT(list_error("[{ type = 'horizontal_flip' }]", {1, 4, 4}, false), HasSubstr("is random"));
}

}  // namespace
}  // namespace dtrain::data
