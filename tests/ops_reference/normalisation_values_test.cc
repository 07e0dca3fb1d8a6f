// layer_norm, group_norm and lrn of the reference against values computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/group_norm.h"
#include "ops/layer_norm.h"
#include "ops/lrn.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

auto near(std::vector<float> want, float error = 1e-6f) { return Pointwise(FloatNear(error), want); }

TEST(ReferenceValues, LayerNorm) {
  const LayerNorm a{.epsilon = 5.0f};
  const Value x = floats({2, 2}, {1, 5, 10, 10});  // means 3 and 10, variances 4 and 0
  const auto out = run_reference("layer_norm", a, {x, floats({2}, {3, 6}), floats({2}, {0.5f, -0.5f})},
                                 {f32({2, 2}), f32({2}), f32({2})});
  EXPECT_THAT(out[0].list(), near({-1.5f, 3.5f, 0.5f, -0.5f}));
  EXPECT_THAT(out[1].list(), ElementsAre(3, 10));
  EXPECT_THAT(out[2].list(), near({1 / 3.0f, 1 / std::sqrt(5.0f)}));
  EXPECT_THAT(run_reference("layer_norm", a, {x}, {f32({2, 2})})[0].list(), near({-2 / 3.0f, 2 / 3.0f, 0.0f, 0.0f}));
}

TEST(ReferenceValues, GroupNorm) {
  const GroupNorm a{.groups = 2, .epsilon = 5.0f};
  // Channels 0 and 1: mean 3, variance 4. Channels 2 and 3: mean 0, variance 4.
  const Value x = floats({1, 4, 2}, {1, 5, 5, 1, 2, -2, 2, -2});
  const auto out = run_reference("group_norm", a, {x, floats({4}, {3, 6, 3, 3}), floats({4}, {0, 0, 1, 2})},
                                 {f32({1, 4, 2}), f32({1, 2}), f32({1, 2})});
  EXPECT_THAT(out[0].list(), near({-2, 2, 4, -4, 3, -1, 4, 0}));
  EXPECT_THAT(out[1].list(), ElementsAre(3, 0));
  EXPECT_THAT(out[2].list(), near({1 / 3.0f, 1 / 3.0f}));
}

// With one group, and without parameters, a sample is one row.
TEST(ReferenceValues, GroupNormOfOneGroupIsLayerNorm) {
  const std::vector<Value> image = {normal({3, 4, 2, 5}, 1)}, row = {floats({3, 40}, image[0].list())};
  const Value dy = normal({3, 4, 2, 5}, 2);
  const auto forward = [](const char* op, const std::any& a, const std::vector<Value>& in, const Shape& groups) {
    return run_reference(op, a, in, {in[0].desc, f32(groups), f32(groups)});
  };
  const auto of_groups = forward("group_norm", GroupNorm{}, image, {3, 1});
  const auto of_rows = forward("layer_norm", LayerNorm{}, row, {3});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(of_groups[i].list(), of_rows[i].list());
  EXPECT_EQ(run_reference("group_norm.backward", GroupNorm{}, {image[0], dy, of_groups[1], of_groups[2]}, {dy.desc})[0]
                .list(),
            run_reference("layer_norm.backward", LayerNorm{},
                          {row[0], floats({3, 40}, dy.list()), of_rows[1], of_rows[2]}, {row[0].desc})[0]
                .list());
}

// torch.nn.functional.local_response_norm: an even window reaches one channel further down than up.
TEST(ReferenceValues, LocalResponseNormalisation) {
  const Value x = floats({1, 4, 1}, {1, 2, 3, 4});
  const auto of_size = [&](int64_t size) {
    const Lrn a{.size = size, .alpha = static_cast<float>(size), .beta = 1.0f, .k = 2.0f};
    return run_reference("lrn", a, {x}, {x.desc})[0].list();
  };
  EXPECT_THAT(of_size(1), near({1 / 3.0f, 2 / 6.0f, 3 / 11.0f, 4 / 18.0f}));
  EXPECT_THAT(of_size(2), near({1 / 3.0f, 2 / 7.0f, 3 / 15.0f, 4 / 27.0f}));
  EXPECT_THAT(of_size(3), near({1 / 7.0f, 2 / 16.0f, 3 / 31.0f, 4 / 27.0f}));
  EXPECT_THAT(of_size(100), near({1 / 32.0f, 2 / 32.0f, 3 / 32.0f, 4 / 32.0f}));
  const Lrn root{.size = 1, .alpha = 1.0f, .beta = 0.5f, .k = 7.0f};
  EXPECT_THAT(run_reference("lrn", root, {floats({1, 1, 1}, {3})}, {f32({1, 1, 1})})[0].list(), near({0.75f}));
}

}  // namespace
}  // namespace dtrain::ops::test
