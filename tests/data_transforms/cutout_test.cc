#include <set>

#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CutoutTest, ASquareAroundAnyPixelIsCutAtTheBorders) {
  std::set<std::vector<float>> seen;
  for (int64_t n = 0; n < 200; ++n)
    seen.insert(transformed("[{ type = 'cutout', size = [1, 2] }]", {{1, 1, 3}, {1, 2, 3}}, n).values);
  // Around column x: x − 1 and x.
  EXPECT_THAT(seen, ElementsAre(std::vector<float>{0, 0, 3}, std::vector<float>{0, 2, 3}, std::vector<float>{1, 0, 0}));
}

TEST(CutoutTest, AllChannelsLoseTheSameSquare) {
  for (int64_t n = 0; n < 50; ++n) {
    const Image out = transformed("[{ type = 'cutout', size = 3 }]", {{2, 8, 9}, std::vector<float>(144, 1)}, n);
    int zeros = 0;
    for (size_t i = 0; i < 72; ++i) {
      EXPECT_EQ(out.values[i], out.values[72 + i]);
      zeros += out.values[i] == 0;
    }
    EXPECT_THAT(zeros, ::testing::AnyOf(4, 6, 9));
  }
}

TEST(CutoutTest, MistakesAreNamed) {
  EXPECT_THAT(list_error("[{ type = 'cutout' }]", {1, 4, 4}), HasSubstr("size"));
  EXPECT_THAT(list_error("[{ type = 'cutout', size = 1 }]", {1, 4, 4}, false), HasSubstr("is random"));
}

}  // namespace
}  // namespace dtrain::data
