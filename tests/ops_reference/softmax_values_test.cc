// softmax and log_softmax of the reference against values computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/softmax.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

auto near(std::vector<float> want, float error = 1e-6f) { return Pointwise(FloatNear(error), want); }

TEST(ReferenceValues, Softmax) {
  const float two = std::log(2.0f), three = std::log(3.0f);
  const Value x = floats({2, 2, 2}, {0, 1000, three, 1000 + two, 0, 0, two, -1000});
  EXPECT_THAT(run_reference("softmax", Softmax{1}, {x}, {x.desc})[0].list(),
              near({0.25f, 1 / 3.0f, 0.75f, 2 / 3.0f, 1 / 3.0f, 1, 2 / 3.0f, 0}, 1e-5f));
  const Value rows = floats({2, 2}, {0, three, two, 0});
  EXPECT_THAT(run_reference("softmax", Softmax{1}, {rows}, {rows.desc})[0].list(),
              near({0.25f, 0.75f, 2 / 3.0f, 1 / 3.0f}));
  EXPECT_THAT(run_reference("log_softmax", Softmax{1}, {rows}, {rows.desc})[0].list(),
              near({-2 * two, three - 2 * two, two - three, -three}));
}

TEST(ReferenceValues, LogSoftmaxStaysFiniteWhereSoftmaxIsZero) {
  const Value x = floats({1, 2}, {-1000, 0});
  EXPECT_THAT(run_reference("softmax", Softmax{1}, {x}, {x.desc})[0].list(), ElementsAre(0, 1));
  EXPECT_THAT(run_reference("log_softmax", Softmax{1}, {x}, {x.desc})[0].list(), ElementsAre(-1000, 0));
}

TEST(ReferenceValues, SoftmaxOfNothingIsNotANumber) {
  const float none = -std::numeric_limits<float>::infinity();
  for (const char* op : {"softmax", "log_softmax"})
    for (float y : run_reference(op, Softmax{1}, {floats({1, 2}, {none, none})}, {f32({1, 2})})[0].list())
      EXPECT_TRUE(std::isnan(y)) << op;
}

}  // namespace
}  // namespace dtrain::ops::test
