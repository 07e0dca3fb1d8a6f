// Every backward of the reference against finite differences of its forward.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/elementwise.h"
#include "ops/group_norm.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/loss.h"
#include "ops/lrn.h"
#include "ops/pool2d.h"
#include "ops/recurrent.h"
#include "ops/softmax.h"
#include "tests/ops_reference/value.h"

namespace dtrain::ops::test {
namespace {

// One of the forward's inputs, and what the backward says is its gradient.
struct Claim {
  size_t input;
  Value gradient;
};

// f(inputs) in fp64 for one forward: Σ weights·output for a layer, the loss for a loss.
using Scalar = std::function<double(const std::vector<Value>&)>;

double dot(const Value& a, const Value& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a.data()[i]) * b.data()[i];
  return sum;
}

// Central differences with a step of 2⁻⁷: outputs are rounded to fp32 (6e-8), the step's error is its square (6e-5).
void expect_gradient(const Scalar& f, std::vector<Value> inputs, const std::vector<Claim>& claims) {
  constexpr float kStep = 0x1.0p-7f;
  for (const Claim& claim : claims) {
    Value& x = inputs[claim.input];
    ASSERT_EQ(claim.gradient.size(), x.size());
    double scale = 0;
    for (int64_t i = 0; i < x.size(); ++i) scale = std::max<double>(scale, std::fabs(claim.gradient.data()[i]));
    EXPECT_GT(scale, 1e-4) << "a gradient that says nothing";
    for (int64_t i = 0; i < x.size(); ++i) {
      const float before = x.data()[i];
      x.data()[i] = before + kStep;
      const float high = x.data()[i];
      const double above = f(inputs);
      x.data()[i] = before - kStep;
      const double slope = (above - f(inputs)) / (static_cast<double>(high) - x.data()[i]);
      x.data()[i] = before;
      EXPECT_NEAR(claim.gradient.data()[i], slope, 2e-3 * scale + 1e-5) << "input " << claim.input << ", element " << i;
    }
  }
}

// Σ weights·first output of a forward op.
Scalar weighted(std::string op, std::any attributes, std::vector<TensorDesc> outputs, Value weights,
                RunContext context = {}) {
  return [=](const std::vector<Value>& inputs) {
    return dot(run_reference(op, attributes, inputs, outputs, context)[0], weights);
  };
}

TEST(ReferenceGradient, Conv2d) {
  for (const Conv2d& a : {Conv2d{.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1}},
                          Conv2d{.kernel = {2, 3}, .pad = {2, 0}, .dilation = {2, 1}, .groups = 2}}) {
    const Shape x{2, 4, 5, 4}, w{6, 4 / a.groups, a.kernel[0], a.kernel[1]};
    const auto extent = [&](size_t i, int64_t in) {
      return (in + 2 * a.pad[i] - a.dilation[i] * (a.kernel[i] - 1) - 1) / a.stride[i] + 1;
    };
    const Shape y{2, 6, extent(0, 5), extent(1, 4)};
    const std::vector<Value> in = {normal(x, 1), normal(w, 2), normal({6}, 3)};
    const Value dy = normal(y, 4);
    const auto dx = run_reference("conv2d.backward_data", a, {dy, in[1]}, {f32(x)});
    const auto dw = run_reference("conv2d.backward_weights", a, {in[0], dy}, {f32(w), f32({6})});
    expect_gradient(weighted("conv2d", a, {f32(y)}, dy), in, {{0, dx[0]}, {1, dw[0]}, {2, dw[1]}});
  }
}

TEST(ReferenceGradient, Recurrent) {
  const Shape x{2, 3, 4};
  for (const std::string op : {"lstm", "gru"})
    for (const Shape& y : {Shape{2, 3, 5}, Shape{2, 5}})
      for (const bool reverse : {false, true}) {
        const Recurrent a{reverse};
        const int64_t gates = op == "lstm" ? 20 : 15;
        const std::vector<Value> in = {normal(x, 1), uniform({gates, 4}, 2, -1, 1), uniform({gates, 5}, 3, -1, 1),
                                       uniform({gates}, 4, -1, 1), uniform({gates}, 5, -1, 1)};
        const std::vector<TensorDesc> out = {f32(y), opaque()};
        const Value dy = normal(y, 6), workspace = run_reference(op, a, in, out)[1];
        const auto d = run_reference(op + ".backward", a, {in[0], in[1], in[2], dy, workspace},
                                     {in[1].desc, in[2].desc, in[3].desc, in[4].desc, in[0].desc});
        expect_gradient(weighted(op, a, out, dy), in, {{1, d[0]}, {2, d[1]}, {3, d[2]}, {4, d[3]}, {0, d[4]}});
      }
}

TEST(ReferenceGradient, Linear) {
  const std::vector<Value> in = {normal({2, 3, 5}, 1), normal({4, 5}, 2), normal({4}, 3)};
  const Value dy = normal({2, 3, 4}, 4);
  const auto dx = run_reference("linear.backward_data", Linear{}, {dy, in[1]}, {f32({2, 3, 5})});
  const auto dw = run_reference("linear.backward_weights", Linear{}, {in[0], dy}, {f32({4, 5}), f32({4})});
  expect_gradient(weighted("linear", Linear{}, {dy.desc}, dy), in, {{0, dx[0]}, {1, dw[0]}, {2, dw[1]}});
}

TEST(ReferenceGradient, Pool2d) {
  using Kind = Pool2d::Kind;
  for (const Pool2d& a :
       {Pool2d{.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 1}},
        Pool2d{.kind = Kind::kAverage, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .ceil = true},
        Pool2d{.kind = Kind::kAverage, .kernel = {2, 3}, .pad = {1, 1}, .ceil = true, .count_include_pad = false}}) {
    const Shape x{2, 2, 6, 5}, y{2, 2, pool_extent(6, a.kernel[0], a.stride[0], a.pad[0], a.ceil),
                                 pool_extent(5, a.kernel[1], a.stride[1], a.pad[1], a.ceil)};
    const std::vector<Value> in = {spread(x, 1, 0.05f)};
    const Value dy = normal(y, 2);
    const auto forward = run_reference("pool2d", a, in, {f32(y), opaque()});
    const auto dx = run_reference("pool2d.backward", a, {dy, forward[1]}, {f32(x)});
    expect_gradient(weighted("pool2d", a, {f32(y)}, dy), in, {{0, dx[0]}});
  }
}

TEST(ReferenceGradient, GlobalAveragePool) {
  const std::vector<Value> in = {normal({2, 3, 3, 4}, 1)};
  const Value dy = normal({2, 3}, 2);
  const auto dx = run_reference("global_avg_pool.backward", {}, {dy}, {in[0].desc});
  expect_gradient(weighted("global_avg_pool", {}, {dy.desc}, dy), in, {{0, dx[0]}});
}

TEST(ReferenceGradient, BatchNorm) {
  for (const Shape& x : {Shape{3, 2, 2, 3}, Shape{7, 3}})
    for (ActivationKind kind : {ActivationKind::kNone, ActivationKind::kRelu}) {
      const bool relu = kind == ActivationKind::kRelu;
      BatchNorm a{.epsilon = 1e-2f, .momentum = 0.1f, .residual = true, .activation = {kind, 0}};
      const TensorDesc c = f32({x[1]});
      const Value values = spread(x, 1, 0.2f);
      std::vector<Value> in = {values,
                               normal(c.shape, 2),
                               uniform(c.shape, 3, 1, 2),
                               uniform(c.shape, 4, 1, 2),
                               uniform(c.shape, 5, -0.04f, 0.04f),
                               uniform(x, 7, -0.01f, 0.01f)};
      const std::vector<TensorDesc> out = {f32(x), c, c, c, c};
      const Value dy = normal(x, 6);
      auto y = run_reference("batch_norm", a, in, out);
      std::vector<Value> back = {values, y[1], y[2], in[3]};
      if (relu) back.push_back(y[0]);
      back.push_back(dy);
      const auto d = run_reference("batch_norm.backward", a, back, {f32(x), c, c, f32(x)});
      expect_gradient(weighted("batch_norm", a, out, dy), in, {{0, d[0]}, {3, d[1]}, {4, d[2]}, {5, d[3]}});

      if (relu) continue;
      a.affine = a.residual = false;
      in.resize(3);
      y = run_reference("batch_norm", a, in, out);
      const auto dx = run_reference("batch_norm.backward", a, {values, y[1], y[2], dy}, {f32(x)});
      expect_gradient(weighted("batch_norm", a, out, dy), in, {{0, dx[0]}});
    }
}

TEST(ReferenceGradient, LayerNorm) {
  const LayerNorm a{.epsilon = 1e-2f};
  const TensorDesc d = f32({5}), rows = f32({6});
  const std::vector<Value> in = {normal({2, 3, 5}, 1), uniform(d.shape, 2, 1, 2), normal(d.shape, 3)};
  const Value dy = normal({2, 3, 5}, 4);
  const std::vector<TensorDesc> out = {dy.desc, rows, rows};
  const auto y = run_reference("layer_norm", a, in, out);
  const auto d_all = run_reference("layer_norm.backward", a, {in[0], dy, y[1], y[2], in[1]}, {dy.desc, d, d});
  expect_gradient(weighted("layer_norm", a, out, dy), in, {{0, d_all[0]}, {1, d_all[1]}, {2, d_all[2]}});
  const auto dx = run_reference("layer_norm.backward", a, {in[0], dy, y[1], y[2]}, {dy.desc});
  expect_gradient(weighted("layer_norm", a, out, dy), {in[0]}, {{0, dx[0]}});
}

TEST(ReferenceGradient, GroupNorm) {
  const GroupNorm a{.groups = 2, .epsilon = 1e-2f};
  const TensorDesc c = f32({6}), groups = f32({2, 2});
  const std::vector<Value> in = {normal({2, 6, 2, 3}, 1), uniform(c.shape, 2, 1, 2), normal(c.shape, 3)};
  const Value dy = normal({2, 6, 2, 3}, 4);
  const std::vector<TensorDesc> out = {dy.desc, groups, groups};
  const auto y = run_reference("group_norm", a, in, out);
  const auto d = run_reference("group_norm.backward", a, {in[0], dy, y[1], y[2], in[1]}, {dy.desc, c, c});
  expect_gradient(weighted("group_norm", a, out, dy), in, {{0, d[0]}, {1, d[1]}, {2, d[2]}});
  const auto dx = run_reference("group_norm.backward", a, {in[0], dy, y[1], y[2]}, {dy.desc});
  expect_gradient(weighted("group_norm", a, out, dy), {in[0]}, {{0, dx[0]}});
}

TEST(ReferenceGradient, Lrn) {
  for (const Lrn& a : {Lrn{3, 2.0f, 0.75f, 1.0f}, Lrn{4, 1.0f, 1.2f, 1.5f}, Lrn{20, 1.0f, 0.5f, 1.0f}}) {
    const std::vector<Value> in = {normal({2, 6, 2, 2}, 1)};
    const Value dy = normal({2, 6, 2, 2}, 2);
    const auto dx = run_reference("lrn.backward", a, {in[0], dy}, {dy.desc});
    expect_gradient(weighted("lrn", a, {dy.desc}, dy), in, {{0, dx[0]}});
  }
}

TEST(ReferenceGradient, Softmax) {
  for (const std::string op : {"softmax", "log_softmax"})
    for (int axis : {1, 2}) {
      const Softmax a{axis};
      const std::vector<Value> in = {normal({2, 4, 3}, 1)};
      const Value dy = normal({2, 4, 3}, 2), y = run_reference(op, a, in, {dy.desc})[0];
      const auto dx = run_reference(op + ".backward", a, {dy, y}, {dy.desc});
      expect_gradient(weighted(op, a, {dy.desc}, dy), in, {{0, dx[0]}});
    }
}

TEST(ReferenceGradient, Activations) {
  for (const std::string& name : activation_names()) {
    SCOPED_TRACE(name);
    Activation a{*activation_by_name(name), 0};
    if (a.kind == ActivationKind::kElu) a.alpha = 1.3f;
    if (a.kind == ActivationKind::kLeakyRelu) a.alpha = 0.2f;
    const std::vector<Value> in = {spread({5, 8}, 1, 0.15f)};  // no kink within a step
    const Value dy = normal({5, 8}, 2);
    const Value y = run_reference("activation", a, in, {dy.desc})[0];
    const auto dx = run_reference("activation.backward", a, {dy, backward_uses_output(a.kind) ? y : in[0]}, {dy.desc});
    expect_gradient(weighted("activation", a, {dy.desc}, dy), in, {{0, dx[0]}});
  }
}

TEST(ReferenceGradient, Dropout) {
  const Dropout a{0.4f, stream_id("dropout/fc1")};
  const RunContext context{.seed = 9, .step = 2, .first_sample = 4, .valid = 3};
  const std::vector<Value> in = {normal({3, 11}, 1)};
  const Value dy = normal({3, 11}, 2);
  const auto dx = run_reference("dropout.backward", a, {dy}, {dy.desc}, context);
  expect_gradient(weighted("dropout", a, {dy.desc}, dy, context), in, {{0, dx[0]}});
}

// The mean of the samples' losses.
Scalar mean_loss(std::string op, std::any attributes, int64_t samples) {
  return [=](const std::vector<Value>& inputs) {
    const RunContext context{.seed = 1, .step = 0, .first_sample = 0, .valid = samples};
    return run_reference(op, attributes, inputs, {f64({4})}, context)[0].data<double>()[0] /
           static_cast<double>(samples);
  };
}

TEST(ReferenceGradient, SoftmaxCrossEntropy) {
  struct Row {
    Shape z, labels;
    SoftmaxCrossEntropy a;
  };
  for (const Row& r :
       {Row{{4, 5}, {4}, {}}, Row{{2, 3, 4}, {2, 3}, {-1, 0.2f}}, Row{{2, 4, 2, 3}, {2, 2, 3}, {1, 0.1f}}}) {
    const std::vector<Value> in = {normal(r.z, 1), labels(r.labels, 2, 4)};
    const RunContext context{.seed = 1, .step = 0, .first_sample = 0, .valid = r.z[0]};
    const auto out = run_reference("softmax_cross_entropy", r.a, in, {f64({4}), f32(r.z)}, context);
    expect_gradient(mean_loss("softmax_cross_entropy", r.a, r.z[0]), in, {{0, out[1]}});
  }
}

TEST(ReferenceGradient, Mse) {
  const std::vector<Value> in = {normal({3, 4}, 1), normal({3, 4}, 2)};
  const RunContext context{.seed = 1, .step = 0, .first_sample = 0, .valid = 3};
  const auto out = run_reference("mse", Mse{}, in, {f64({4}), f32({3, 4})}, context);
  expect_gradient(mean_loss("mse", Mse{}, 3), in, {{0, out[1]}});
}

}  // namespace
}  // namespace dtrain::ops::test
