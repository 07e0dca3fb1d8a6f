// Values by hand of the ops that move elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/channel_bias.h"
#include "ops/elementwise.h"
#include "ops/transpose.h"
#include "ops/upsample.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

TEST(ReferenceShapes, Transpose) {
  EXPECT_THAT(
      run_reference("transpose", Transpose{{1, 0}}, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {f32({3, 2})})[0].list(),
      ElementsAre(1, 4, 2, 5, 3, 6));
  // y[i, j, k] = x[j, k, i].
  EXPECT_THAT(run_reference("transpose", Transpose{{2, 0, 1}},
                            {floats({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}, {f32({3, 2, 2})})[0]
                  .list(),
              ElementsAre(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11));
}

TEST(ReferenceShapes, SliceBackward) {
  EXPECT_THAT(run_reference("slice.backward", Slice{1, 1}, {floats({2, 2}, {1, 2, 3, 4})}, {f32({2, 4})})[0].list(),
              ElementsAre(0, 1, 2, 0, 0, 3, 4, 0));
}

TEST(ReferenceShapes, Upsample) {
  const Value x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const Upsample nearest{Upsample::Mode::kNearest, {1, 2}};
  EXPECT_THAT(run_reference("upsample", nearest, {x}, {f32({1, 1, 2, 4})})[0].list(),
              ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_THAT(
      run_reference("upsample.backward", nearest, {floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}, {x.desc})[0].list(),
      ElementsAre(3, 7, 11, 15));
  // torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False).
  const Upsample bilinear{Upsample::Mode::kBilinear, {2, 2}};
  EXPECT_THAT(run_reference("upsample", bilinear, {x}, {f32({1, 1, 4, 4})})[0].list(),
              Pointwise(FloatNear(1e-6f), {1.0f, 1.25f, 1.75f, 2.0f, 1.5f, 1.75f, 2.25f, 2.5f,  //
                                           2.5f, 2.75f, 3.25f, 3.5f, 3.0f, 3.25f, 3.75f, 4.0f}));
}

TEST(ReferenceShapes, ChannelBias) {
  const Value x = floats({1, 2, 1, 2}, {1, -2, 3, 4}), b = floats({2}, {0.5f, -3.5f});
  EXPECT_THAT(run_reference("channel_bias", ChannelBias{}, {x, b}, {x.desc})[0].list(),
              ElementsAre(1.5f, -1.5f, -0.5f, 0.5f));
  EXPECT_THAT(run_reference("channel_bias", ChannelBias{{ActivationKind::kRelu, 0}}, {x, b}, {x.desc})[0].list(),
              ElementsAre(1.5f, 0, 0, 0.5f));
  EXPECT_THAT(run_reference("channel_bias.backward", {}, {x}, {b.desc})[0].list(), ElementsAre(-1, 7));
}

}  // namespace
}  // namespace dtrain::ops::test
