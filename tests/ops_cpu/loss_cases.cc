#include "ops/loss.h"

#include <limits>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape z;
  int axis = -1;
  float smoothing = 0;
};

std::vector<Row> rows() {
  return {
      {"classes_10", {16, 10}},
      {"classes_1", {3, 1}},
      {"classes_2_smoothed", {5, 2}, -1, 0.1f},
      {"classes_1000", {4, 1000}},
      {"classes_1001_smoothed", {40, 1001}, 1, 0.2f},
      {"one_sample", {1, 17}},
      {"sequence", {3, 5, 33}},
      {"sequence_smoothed", {2, 7, 16}, -1, 0.3f},
      {"pixels", {2, 21, 9, 13}, 1},
      {"pixels_smoothed", {3, 4, 5, 5}, 1, 0.1f},
      {"pixels_large", {1, 5, 90, 100}, 1},
      {"middle_axis", {2, 3, 6, 5}, 2},
      {"many", {400, 100}},
  };
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const int axis = r.axis < 0 ? r.axis + r.z.rank() : r.axis;
    std::vector<int64_t> places;
    for (int i = 0; i < r.z.rank(); ++i)
      if (i != axis) places.push_back(r.z[i]);
    const int64_t classes = r.z[axis];
    const SoftmaxCrossEntropy a{r.axis, r.smoothing};
    const std::vector<Value> in = {uniform(r.z, 1, -6.0f, 6.0f), labels(Shape(places), 2, classes)};
    RunContext all{.seed = 1, .step = 0, .first_sample = 0, .valid = r.z[0]}, some = all;
    some.valid = r.z[0] / 2;
    cases.push_back({.name = r.name,
                     .op = "softmax_cross_entropy",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f64({3}), f32(r.z)},
                     .forward = {},
                     .context = all,
                     .tolerance = 2e-6,
                     .nan_at = classes > 1 ? r.z.elements() / 2 : -1});
    cases.push_back({.name = r.name + "_value_only",
                     .op = "softmax_cross_entropy",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f64({3})},
                     .forward = {},
                     .context = some,
                     .tolerance = 2e-6});
    cases.push_back({.name = r.name,
                     .op = "mse",
                     .attributes = Mse{},
                     .inputs = {normal(r.z, 1), normal(r.z, 2)},
                     .outputs = {f64({3}), f32(r.z)},
                     .forward = {},
                     .context = all,
                     .tolerance = 1e-6,
                     .nan_at = r.z.elements() / 2});
    cases.push_back({.name = r.name + "_value_only",
                     .op = "mse",
                     .attributes = Mse{},
                     .inputs = {normal(r.z, 1), normal(r.z, 2)},
                     .outputs = {f64({3})},
                     .forward = {},
                     .context = some,
                     .tolerance = 1e-6});
  }
  const RunContext three{.seed = 1, .step = 0, .first_sample = 0, .valid = 3};
  const float huge = 3e38f, low = -std::numeric_limits<float>::infinity();
  cases.push_back({.name = "far_apart",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{},
                   .inputs = {floats({3, 3}, {1000, -1000, 0, 200, 100, low, huge, 0, 1}), ints({3}, {1, 0, 0})},
                   .outputs = {f64({3}), f32({3, 3})},
                   .forward = {},
                   .context = three});
  cases.push_back({.name = "equal_logits",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{},
                   .inputs = {floats({3, 2}, {1, 1, 1, 1, 2, 2}), ints({3}, {0, 1, 1})},
                   .outputs = {f64({3}), f32({3, 2})},
                   .forward = {},
                   .context = three});
  cases.push_back({.name = "unknown_label",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{},
                   .inputs = {normal({3, 4}, 1), ints({3}, {0, 4, -1})},
                   .outputs = {f64({3}), f32({3, 4})},
                   .forward = {},
                   .context = three});
  return cases;
}

}  // namespace dtrain::ops::test
