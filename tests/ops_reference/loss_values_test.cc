// Values by hand of the losses that compare numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/loss.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

const RunContext kTwo{.seed = 0, .step = 0, .first_sample = 0, .valid = 2};

TEST(ReferenceLosses, SigmoidCrossEntropy) {
  const float ln3 = std::log(3.0f);  // σ = ¾
  const auto out = run_reference("sigmoid_cross_entropy", SigmoidCrossEntropy{},
                                 {floats({2, 2}, {ln3, ln3, 1e4f, -1e4f}), floats({2, 2}, {1, 0.25f, 1, 1})},
                                 {f64({4}), f32({2, 2})}, kTwo);
  const double first = (-std::log(0.75) - 0.25 * std::log(0.75) - 0.75 * std::log(0.25)) / 2;
  EXPECT_NEAR(out[0].data<double>()[0], first + 5000, 1e-5);
  EXPECT_EQ(out[0].data<double>()[1], 2);
  EXPECT_EQ(out[0].data<double>()[2], 0);
  EXPECT_THAT(out[1].list(), Pointwise(FloatNear(1e-6f), {-0.0625f, 0.125f, 0.0f, -0.25f}));
}

TEST(ReferenceLosses, Huber) {
  const auto out = run_reference("huber", Huber{2}, {floats({2, 2}, {1, 5, 0, -3}), floats({2, 2}, {0, 0, 2, 0})},
                                 {f64({4}), f32({2, 2})}, kTwo);
  EXPECT_THAT(out[0].list<double>(), ElementsAre((0.5 + 8) / 2 + (2.0 + 4) / 2, 2, 0, 0));
  EXPECT_THAT(out[1].list(), ElementsAre(0.25f, 0.5f, -0.5f, -0.5f));
}

TEST(ReferenceLosses, Cosine) {
  const auto out = run_reference("cosine", Cosine{}, {floats({2, 2}, {3, 4, 0, 0}), floats({2, 2}, {0, 2, 1, 1})},
                                 {f64({4}), f32({2, 2})}, kTwo);
  EXPECT_NEAR(out[0].data<double>()[0], 0.2 + 1, 1e-12);
  // Half of (0.8·z/|z| − t/|t|)/|z|.
  EXPECT_NEAR(out[1].data()[0], 0.048, 1e-7);
  EXPECT_NEAR(out[1].data()[1], -0.036, 1e-7);
  EXPECT_NEAR(out[1].data()[2], -0.5 / std::sqrt(2.0) / kCosineEpsilon, 10);
}

}  // namespace
}  // namespace dtrain::ops::test
