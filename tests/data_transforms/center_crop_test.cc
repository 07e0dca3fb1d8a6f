#include "tests/data_transforms/transformed.h"

namespace dtrain::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CenterCropTest, TakesTheMiddle) {
  EXPECT_THAT(transformed("[{ type = 'center_crop', size = [1, 2] }]", counting_image({2, 3, 4})).values,
              ElementsAre(5, 6, 17, 18));
  // What is left over is odd: one row above, two below; one column to the left, none to the right.
  EXPECT_THAT(transformed("[{ type = 'center_crop', size = 1 }]", counting_image({1, 4, 2})).values, ElementsAre(2));
}

TEST(CenterCropTest, SmallerImagesAreRefused) {
  EXPECT_THAT(list_error("[{ type = 'center_crop', size = 3 }]", {1, 4, 2}),
              HasSubstr("3 x 3 pixels (height, width) cannot be cut out of 4 x 2"));
  const ReadList read = read_list("[{ type = 'center_crop', size = 3 }]", {1, 0, 0});
  Image small = make_image({1, 2, 5});
  EXPECT_THAT(read.list.apply(small, {}).error().message, HasSubstr("center_crop: 3 x 3 pixels"));
}

}  // namespace
}  // namespace dtrain::data
