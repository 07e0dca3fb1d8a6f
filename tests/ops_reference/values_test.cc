// The reference against values computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/pool2d.h"
#include "ops/recurrent.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

const Activation kRelu{ActivationKind::kRelu, 0};

TEST(ReferenceValues, Conv2d) {
  const Value x = floats({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), w = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const Conv2d a{.kernel = {2, 2}};
  EXPECT_THAT(run_reference("conv2d", a, {x, w}, {f32({1, 1, 2, 2})})[0].list(), ElementsAre(37, 47, 67, 77));
  EXPECT_THAT(run_reference("conv2d", a, {x, w, floats({1}, {-60})}, {f32({1, 1, 2, 2})})[0].list(),
              ElementsAre(-23, -13, 7, 17));
  const Conv2d fused{.kernel = {2, 2}, .activation = kRelu};
  EXPECT_THAT(run_reference("conv2d", fused, {x, w, floats({1}, {-60})}, {f32({1, 1, 2, 2})})[0].list(),
              ElementsAre(0, 0, 7, 17));
  const Conv2d padded{.kernel = {2, 2}, .stride = {2, 2}, .pad = {1, 1}};
  EXPECT_THAT(run_reference("conv2d", padded, {x, w}, {f32({1, 1, 2, 2})})[0].list(), ElementsAre(4, 18, 36, 77));
  const Conv2d dilated{.kernel = {2, 2}, .dilation = {2, 2}};
  EXPECT_THAT(run_reference("conv2d", dilated, {x, w}, {f32({1, 1, 1, 1})})[0].list(), ElementsAre(1 + 6 + 21 + 36));
}

TEST(ReferenceValues, GroupedConv2dReadsItsOwnChannels) {
  const Value x = floats({1, 4, 1, 1}, {1, 10, 100, 1000}), w = floats({2, 2, 1, 1}, {1, 2, 3, 4});
  EXPECT_THAT(run_reference("conv2d", Conv2d{.groups = 2}, {x, w}, {f32({1, 2, 1, 1})})[0].list(),
              ElementsAre(21, 4300));
}

TEST(ReferenceValues, Linear) {
  const Value x = floats({2, 3}, {1, 2, 3, 4, 5, 6}), w = floats({2, 3}, {1, 0, -1, 2, 2, 2}),
              b = floats({2}, {10, 20});
  EXPECT_THAT(run_reference("linear", Linear{}, {x, w, b}, {f32({2, 2})})[0].list(), ElementsAre(8, 32, 8, 50));
}

// Without weights every gate is a half, and what tanh makes of the third bias a half too.
TEST(ReferenceValues, Lstm) {
  const float half = std::atanh(0.5f);
  const Value x = floats({1, 2, 1}, {7, 8}), w = floats({4, 1}, {0, 0, 0, 0});
  const Value b = floats({4}, {0, 0, half, 0}), zero = floats({4}, {0, 0, 0, 0});
  const float c1 = 0.25f, c2 = 0.375f;
  const std::vector<float> states = {0.5f * std::tanh(c1), 0.5f * std::tanh(c2)};
  for (const auto& biases : {std::pair{b, zero}, std::pair{zero, b}}) {
    const std::vector<Value> in = {x, w, w, biases.first, biases.second};
    EXPECT_THAT(run_reference("lstm", Recurrent{}, in, {f32({1, 2, 1})})[0].list(),
                Pointwise(FloatNear(1e-6f), states));
    EXPECT_THAT(run_reference("lstm", Recurrent{true}, in, {f32({1, 2, 1})})[0].list(),
                Pointwise(FloatNear(1e-6f), {states[1], states[0]}));
    EXPECT_THAT(run_reference("lstm", Recurrent{}, in, {f32({1, 1})})[0].list(),
                Pointwise(FloatNear(1e-6f), {states[1]}));
  }
}

TEST(ReferenceValues, Gru) {
  const float half = std::atanh(0.5f);
  const Value x = floats({1, 2, 1}, {7, 8}), w = floats({3, 1}, {0, 0, 0});
  // The reset gate halves what comes from the state, its bias included.
  const Value zero = floats({3}, {0, 0, 0});
  for (const auto& biases :
       {std::pair{floats({3}, {0, 0, half}), zero}, std::pair{zero, floats({3}, {0, 0, 2 * half})}})
    EXPECT_THAT(run_reference("gru", Recurrent{}, {x, w, w, biases.first, biases.second}, {f32({1, 2, 1})})[0].list(),
                Pointwise(FloatNear(1e-6f), {0.25f, 0.375f}));
}

TEST(ReferenceValues, MaxPool) {
  const Value x = floats({1, 1, 3, 3}, {1, 5, 5, 4, 2, 3, -1, -2, -3});
  const Pool2d a{.kernel = {2, 2}};
  const auto out = run_reference("pool2d", a, {x}, {f32({1, 1, 2, 2}), opaque()});
  EXPECT_THAT(out[0].list(), ElementsAre(5, 5, 4, 3));
  const Value dy = floats({1, 1, 2, 2}, {1, 2, 4, 8});
  // Both upper windows take the 5 that comes first among theirs.
  EXPECT_THAT(run_reference("pool2d.backward", a, {dy, out[1]}, {x.desc})[0].list(),
              ElementsAre(0, 3, 0, 4, 0, 8, 0, 0, 0));
  const Pool2d padded{.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
  EXPECT_THAT(run_reference("pool2d", padded, {floats({1, 1, 2, 2}, {-4, -3, -2, -1})}, {f32({1, 1, 1, 1})})[0].list(),
              ElementsAre(-1));
}

// torch.nn.functional.avg_pool2d(arange(1, 6), kernel (1, 2), stride 2, pad (0, 1), ceil_mode) and its variants.
TEST(ReferenceValues, AveragePoolDividesAsPyTorch) {
  const Value x = floats({1, 1, 1, 5}, {1, 2, 3, 4, 5});
  Pool2d a{.kind = Pool2d::Kind::kAverage, .kernel = {1, 2}, .stride = {1, 2}, .pad = {0, 1}, .ceil = true};
  EXPECT_THAT(run_reference("pool2d", a, {x}, {f32({1, 1, 1, 3})})[0].list(), ElementsAre(0.5f, 2.5f, 4.5f));
  a.count_include_pad = false;
  EXPECT_THAT(run_reference("pool2d", a, {x}, {f32({1, 1, 1, 3})})[0].list(), ElementsAre(1, 2.5f, 4.5f));
  // The last window reaches beyond the padded input: what is beyond does not count.
  a = {.kind = Pool2d::Kind::kAverage, .kernel = {1, 3}, .stride = {1, 3}, .pad = {0, 1}, .ceil = true};
  EXPECT_THAT(run_reference("pool2d", a, {floats({1, 1, 1, 6}, {1, 2, 3, 4, 5, 6})}, {f32({1, 1, 1, 3})})[0].list(),
              ElementsAre(1, 4, 3));
}

TEST(ReferenceValues, GlobalAveragePool) {
  EXPECT_THAT(run_reference("global_avg_pool", {}, {floats({1, 2, 1, 2}, {1, 3, 5, 9})}, {f32({1, 2})})[0].list(),
              ElementsAre(2, 7));
  EXPECT_THAT(run_reference("global_avg_pool.backward", {}, {floats({1, 2}, {2, 8})}, {f32({1, 2, 1, 2})})[0].list(),
              ElementsAre(1, 1, 4, 4));
}

TEST(ReferenceValues, BatchNorm) {
  const BatchNorm a{.epsilon = 0, .momentum = 0.25f, .activation = {}};
  const TensorDesc c = f32({1});
  const auto out = run_reference(
      "batch_norm", a,
      {floats({4, 1}, {1, 1, 3, 3}), floats({1}, {4}), floats({1}, {8}), floats({1}, {2}), floats({1}, {1})},
      {f32({4, 1}), c, c, c, c});
  EXPECT_THAT(out[0].list(), ElementsAre(-1, -1, 3, 3));
  EXPECT_THAT(out[1].list(), ElementsAre(2));
  EXPECT_THAT(out[2].list(), ElementsAre(1)) << "biased";
  EXPECT_THAT(out[3].list(), ElementsAre(3.5f));
  EXPECT_THAT(out[4].list(), ElementsAre(FloatNear(6 + 0.25f * 4 / 3, 1e-6f))) << "unbiased";
  BatchNorm plain = a;
  plain.affine = false;
  EXPECT_THAT(run_reference("batch_norm.inference", plain, {floats({2, 1}, {2, 8}), floats({1}, {4}), floats({1}, {4})},
                            {f32({2, 1})})[0]
                  .list(),
              ElementsAre(-1, 2));
}

TEST(ReferenceValues, BatchNormOfOneValueIsRefused) {
  OpRequest request{"batch_norm", BatchNorm{.affine = false, .activation = {}}, {f32({1, 2}), f32({2}), f32({2})}, {}};
  const auto kernel = OpRegistry::instance().plan("reference", request);
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, testing::HasSubstr("one value per channel"));
}

TEST(ReferenceValues, Activations) {
  const auto at = [](ActivationKind kind, float alpha, std::vector<float> x) {
    const Shape shape{static_cast<int64_t>(x.size())};
    return run_reference("activation", Activation{kind, alpha}, {floats(shape, x)}, {f32(shape)})[0].list();
  };
  const auto near = [](std::vector<float> want) { return Pointwise(FloatNear(1e-6f), want); };
  EXPECT_THAT(at(ActivationKind::kRelu, 0, {-1, 0, 2}), ElementsAre(0, 0, 2));
  EXPECT_THAT(at(ActivationKind::kSigmoid, 0, {0, 1}), near({0.5f, 0.7310586f}));
  EXPECT_THAT(at(ActivationKind::kTanh, 0, {1}), near({0.7615942f}));
  EXPECT_THAT(at(ActivationKind::kGelu, 0, {-1, 1}), near({-0.1586553f, 0.8413447f}));
  EXPECT_THAT(at(ActivationKind::kGeluTanh, 0, {1}), near({0.8411920f}));
  EXPECT_THAT(at(ActivationKind::kSilu, 0, {1}), near({0.7310586f}));
  EXPECT_THAT(at(ActivationKind::kSoftplus, 0, {0, 1000, -1000}), near({0.6931472f, 1000, 0}));
  EXPECT_THAT(at(ActivationKind::kElu, 2, {-1, 3}), near({-1.2642411f, 3}));
  EXPECT_THAT(at(ActivationKind::kLeakyRelu, 0.1f, {-2, 3}), near({-0.2f, 3}));
  EXPECT_THAT(at(ActivationKind::kRelu6, 0, {-2, 3, 6, 7}), ElementsAre(0, 3, 6, 6));
}

TEST(ReferenceValues, AddMulConcatSlice) {
  const Value a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {-5, 5, -5, 5}), c = floats({2, 1}, {7, 8});
  EXPECT_THAT(run_reference("add", Add{kRelu}, {a, b}, {a.desc})[0].list(), ElementsAre(0, 7, 0, 9));
  EXPECT_THAT(run_reference("mul", {}, {a, b, b}, {a.desc})[0].list(), ElementsAre(25, 50, 75, 100));
  const Value joined = run_reference("concat", Axis{1}, {a, c}, {f32({2, 3})})[0];
  EXPECT_THAT(joined.list(), ElementsAre(1, 2, 7, 3, 4, 8));
  EXPECT_THAT(run_reference("concat", Axis{0}, {a, b}, {f32({4, 2})})[0].list(), ElementsAre(1, 2, 3, 4, -5, 5, -5, 5));
  EXPECT_THAT(run_reference("slice", Slice{1, 1}, {joined}, {f32({2, 2})})[0].list(), ElementsAre(2, 7, 4, 8));
  EXPECT_THAT(run_reference("reorder", {}, {a}, {a.desc})[0].list(), ElementsAre(1, 2, 3, 4));
}

TEST(ReferenceValues, DropoutDrawsByPlaceInTheBatch) {
  const Dropout a{0.25f, stream_id("dropout/fc1")};
  const Value ones = uniform({4, 500}, 1, 1, 1);
  const RunContext context{.seed = 3, .step = 5, .first_sample = 8, .valid = 4};
  const auto y = run_reference("dropout", a, {ones}, {ones.desc}, context)[0].list();
  const Philox third(3, a.stream, 5, 10);
  for (size_t e = 0; e < 500; ++e)
    EXPECT_EQ(y[1000 + e], uniform01(third.at(e)) >= 0.25f ? static_cast<float>(1 / 0.75) : 0.0f);
  EXPECT_NEAR(static_cast<double>(std::count(y.begin(), y.end(), 0.0f)) / 2000, 0.25, 0.04);

  // Samples 2 and 3 as a micro-batch of their own get the same mask.
  const RunContext later{.seed = 3, .step = 5, .first_sample = 10, .valid = 2};
  const Value two = uniform({2, 500}, 1, 1, 1);
  EXPECT_EQ(run_reference("dropout", a, {two}, {two.desc}, later)[0].list(),
            std::vector<float>(y.begin() + 1000, y.end()));
}

TEST(ReferenceValues, SoftmaxCrossEntropy) {
  const float ln2 = std::log(2.0f), ln3 = std::log(3.0f);
  const Value z = floats({2, 2}, {0, ln3, 0, ln2});
  const RunContext both{.seed = 0, .step = 0, .first_sample = 0, .valid = 2};
  const auto out = run_reference("softmax_cross_entropy", SoftmaxCrossEntropy{}, {z, ints({2}, {1, 0})},
                                 {f64({4}), f32({2, 2})}, both);
  EXPECT_NEAR(out[0].data<double>()[0], std::log(4.0 / 3) + std::log(3.0), 1e-6);
  EXPECT_EQ(out[0].data<double>()[1], 2);
  EXPECT_EQ(out[0].data<double>()[2], 1);
  EXPECT_THAT(out[1].list(), Pointwise(FloatNear(1e-6f), {0.125f, -0.125f, -1.0f / 3, 1.0f / 3}));

  RunContext first = both;
  first.valid = 1;
  const auto one =
      run_reference("softmax_cross_entropy", SoftmaxCrossEntropy{}, {z, ints({2}, {1, 0})}, {f64({4})}, first);
  EXPECT_NEAR(one[0].data<double>()[0], std::log(4.0 / 3), 1e-6);

  // With smoothing 0.2 over two classes: q = (0.1, 0.9).
  const auto smooth =
      run_reference("softmax_cross_entropy", SoftmaxCrossEntropy{1, 0.2f}, {z, ints({2}, {1, 0})}, {f64({4})}, first);
  EXPECT_NEAR(smooth[0].data<double>()[0], -0.9 * std::log(0.75) - 0.1 * std::log(0.25), 1e-6);
}

TEST(ReferenceValues, LabelsBeyondTheClassesAreNotFinite) {
  const RunContext two{.seed = 0, .step = 0, .first_sample = 0, .valid = 2};
  const auto out = run_reference("softmax_cross_entropy", SoftmaxCrossEntropy{}, {normal({2, 3}, 1), ints({2}, {0, 3})},
                                 {f64({4}), f32({2, 3})}, two);
  EXPECT_TRUE(std::isnan(out[0].data<double>()[0]));
  EXPECT_TRUE(std::isnan(out[1].data()[3]));
  EXPECT_FALSE(std::isnan(out[1].data()[0]));
}

TEST(ReferenceValues, Mse) {
  const RunContext two{.seed = 0, .step = 0, .first_sample = 0, .valid = 2};
  const auto out = run_reference("mse", Mse{}, {floats({2, 2}, {1, 2, 3, 4}), floats({2, 2}, {1, 0, 0, 4})},
                                 {f64({4}), f32({2, 2})}, two);
  EXPECT_THAT(out[0].list<double>(), ElementsAre(2 + 4.5, 2, 0, 0));
  EXPECT_THAT(out[1].list(), ElementsAre(0, 1, 1.5f, 0));
}

TEST(ReferenceValues, LabelsAmongTheLargestLogits) {
  // Of equal logits the lower class comes first: the labels stand at places 3, 2, 3 and 1.
  const std::vector<Value> in = {floats({4, 4}, {1, 1, 1, 1, 2, 2, 1, 1, 0, 0, 5, 0, 3, 0, 0, 0}),
                                 ints({4}, {2, 1, 1, 0})};
  const RunContext all{.seed = 0, .step = 0, .first_sample = 0, .valid = 4};
  const double wanted[] = {0, 1, 2, 4, 4};
  for (int64_t k = 0; k < 5; ++k) {
    const auto out = run_reference("softmax_cross_entropy", SoftmaxCrossEntropy{-1, 0, k}, in, {f64({4})}, all);
    EXPECT_EQ(out[0].data<double>()[2], 1);
    EXPECT_EQ(out[0].data<double>()[3], wanted[k]) << k;
  }
}

}  // namespace
}  // namespace dtrain::ops::test
