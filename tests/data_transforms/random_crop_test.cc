#include <set>

#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RandomCropTest, TakesEveryPlaceAndNoOther) {
  std::set<float> first;
  for (int64_t n = 0; n < 300; ++n) {
    const Image out = transformed("[{ type = 'random_crop', size = [2, 3] }]", counting_image({1, 4, 5}), n);
    const float at = out.values[0];
    EXPECT_THAT(out.values, ElementsAre(at, at + 1, at + 2, at + 5, at + 6, at + 7));
    first.insert(at);
  }
  EXPECT_THAT(first, ElementsAre(0, 1, 2, 5, 6, 7, 10, 11, 12));
}

TEST(RandomCropTest, AroundTheImageThereAreZeros) {
  std::set<std::vector<float>> seen;
  const Image image{{1, 1, 2}, {7, 8}};
  for (int64_t n = 0; n < 300; ++n)
    seen.insert(transformed("[{ type = 'random_crop', size = [1, 2], pad = 1 }]", image, n).values);
  EXPECT_THAT(seen, ElementsAre(std::vector<float>{0, 0}, std::vector<float>{0, 7}, std::vector<float>{7, 8},
                                std::vector<float>{8, 0}));
}

// What is drawn is part of what a run is.
TEST(RandomCropTest, ThePlaceFollowsFromSeedNumberAndPlaceInTheList) {
  const Image image = counting_image({1, 64, 64});
  const auto place = [&](int64_t number, uint64_t seed) {
    return transformed("[{ type = 'random_crop', size = 8 }]", image, number, seed).values[0];
  };
  const int64_t number = (int64_t{5} << 32) + 3;
  const Philox stream(9, stream_id("transform/1/random_crop"), 3, 5);
  const int64_t top = stream.at(0) * uint64_t{57} >> 32, left = stream.at(1) * uint64_t{57} >> 32;
  EXPECT_EQ(place(number, 9), static_cast<float>(64 * top + left));
  EXPECT_EQ(place(number, 9), place(number, 9));
  EXPECT_NE(place(number, 9), place(number, 10));
  EXPECT_NE(place(number, 9), place(3, 9));
  const Image twice =
      transformed("[{ type = 'random_crop', size = 8 }, { type = 'random_crop', size = 4 }]", image, number, 9);
  const Philox second(9, stream_id("transform/2/random_crop"), 3, 5);
  const int64_t down = second.at(0) * uint64_t{5} >> 32, right = second.at(1) * uint64_t{5} >> 32;
  EXPECT_EQ(twice.values[0], static_cast<float>(64 * (top + down) + left + right));
}

TEST(RandomCropTest, MistakesAreNamed) {
  EXPECT_EQ(list_error("[{ type = 'random_crop', size = 6, pad = 1 }]", {1, 4, 4}), "");
  EXPECT_THAT(list_error("[{ type = 'random_crop', size = 7, pad = 1 }]", {1, 4, 4}), HasSubstr("out of 6 x 6"));
  EXPECT_THAT(list_error("[{ type = 'random_crop', size = 2, pad = -1 }]", {1, 4, 4}), HasSubstr("pad"));
  EXPECT_THAT(list_error("[{ type = 'random_crop', size = 2 }]", {1, 4, 4}, false),
              HasSubstr("random_crop is random; test data must be the same each time"));
}

}  // namespace
}  // namespace dtrain::data
