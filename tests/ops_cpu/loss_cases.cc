#include "ops/loss.h"

#include <limits>
#include <tuple>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape z;
  int axis = -1;
  float smoothing = 0;
  int64_t top_k = 0;
};

std::vector<Row> rows() {
  return {
      {"classes_10", {16, 10}, -1, 0, 5},
      {"classes_1", {3, 1}, -1, 0, 1},
      {"classes_2_smoothed", {5, 2}, -1, 0.1f},
      {"classes_1000", {4, 1000}},
      {"classes_1001_smoothed", {40, 1001}, 1, 0.2f, 500},
      {"one_sample", {1, 17}},
      {"sequence", {3, 5, 33}, -1, 0, 2},
      {"sequence_smoothed", {2, 7, 16}, -1, 0.3f},
      {"pixels", {2, 21, 9, 13}, 1, 0, 5},
      {"pixels_smoothed", {3, 4, 5, 5}, 1, 0.1f, 3},
      {"pixels_large", {1, 5, 90, 100}, 1},
      {"middle_axis", {2, 3, 6, 5}, 2, 0, 1},
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
    const SoftmaxCrossEntropy a{r.axis, r.smoothing, r.top_k};
    const std::vector<Value> in = {uniform(r.z, 1, -6.0f, 6.0f), labels(Shape(places), 2, classes)};
    RunContext all{.seed = 1, .step = 0, .first_sample = 0, .valid = r.z[0]}, some = all;
    some.valid = r.z[0] / 2;
    cases.push_back({.name = r.name,
                     .op = "softmax_cross_entropy",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f64({4}), f32(r.z)},
                     .forward = {},
                     .context = all,
                     .tolerance = 2e-6,
                     .nan_at = classes > 1 ? r.z.elements() / 2 : -1});
    cases.push_back({.name = r.name + "_value_only",
                     .op = "softmax_cross_entropy",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f64({4})},
                     .forward = {},
                     .context = some,
                     .tolerance = 2e-6});
    // A target of sigmoid_cross_entropy is a part of one.
    const Value targets = normal(r.z, 2), parts = uniform(r.z, 2, 0.0f, 1.0f);
    const std::vector<std::tuple<std::string, std::any, Value>> others = {
        {"mse", Mse{}, targets},
        {"huber", Huber{0.7f}, targets},
        {"sigmoid_cross_entropy", SigmoidCrossEntropy{}, parts},
        {"cosine", Cosine{}, targets},
    };
    for (const auto& [op, attributes, target] : others) {
      if (op == "cosine" && r.z.at(-1) == 1) continue;  // its gradient is rounding alone
      cases.push_back({.name = r.name,
                       .op = op,
                       .attributes = attributes,
                       .inputs = {normal(r.z, 1), target},
                       .outputs = {f64({4}), f32(r.z)},
                       .forward = {},
                       .context = all,
                       .tolerance = 1e-6,
                       .nan_at = r.z.elements() / 2});
      cases.push_back({.name = r.name + "_value_only",
                       .op = op,
                       .attributes = attributes,
                       .inputs = {normal(r.z, 1), target},
                       .outputs = {f64({4})},
                       .forward = {},
                       .context = some,
                       .tolerance = 1e-6});
    }
  }
  const RunContext three{.seed = 1, .step = 0, .first_sample = 0, .valid = 3};
  cases.push_back({.name = "far_from_zero",
                   .op = "sigmoid_cross_entropy",
                   .attributes = SigmoidCrossEntropy{},
                   .inputs = {floats({3, 3}, {1000, -1000, 0, 90, -90, 30, -1e-3f, 17, -120}),
                              floats({3, 3}, {1, 0, 0.5f, 0, 1, 1, 0, 0.25f, 0})},
                   .outputs = {f64({4}), f32({3, 3})},
                   .forward = {},
                   .context = three,
                   .tolerance = 1e-6});
  cases.push_back(
      {.name = "on_the_bend",
       .op = "huber",
       .attributes = Huber{0.5f},
       .inputs = {floats({3, 2}, {1, -1, 0.5f, 0, 3e38f, -1e-30f}), floats({3, 2}, {0.5f, -0.5f, 0, 0, -1, 0})},
       .outputs = {f64({4}), f32({3, 2})},
       .forward = {},
       .context = three,
       .tolerance = 1e-6});
  cases.push_back({.name = "zero_vectors",
                   .op = "cosine",
                   .attributes = Cosine{},
                   .inputs = {floats({3, 2}, {0, 0, 1, 2, 1e-9f, 0}), floats({3, 2}, {1, 1, 0, 0, 0, 1e-9f})},
                   .outputs = {f64({4}), f32({3, 2})},
                   .forward = {},
                   .context = three,
                   .tolerance = 1e-6});
  const float huge = 3e38f, low = -std::numeric_limits<float>::infinity();
  cases.push_back({.name = "far_apart",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{},
                   .inputs = {floats({3, 3}, {1000, -1000, 0, 200, 100, low, huge, 0, 1}), ints({3}, {1, 0, 0})},
                   .outputs = {f64({4}), f32({3, 3})},
                   .forward = {},
                   .context = three});
  cases.push_back({.name = "equal_logits",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{},
                   .inputs = {floats({3, 2}, {1, 1, 1, 1, 2, 2}), ints({3}, {0, 1, 1})},
                   .outputs = {f64({4}), f32({3, 2})},
                   .forward = {},
                   .context = three});
  // Of equal logits the lower class comes first: the labels stand at places 3, 2, 3 and 1.
  for (int64_t k : {1, 2, 3, 4})
    for (bool pixels : {false, true})
      cases.push_back({.name = fmt::format("equal_logits_top_{}{}", k, pixels ? "_of_pixels" : ""),
                       .op = "softmax_cross_entropy",
                       .attributes = SoftmaxCrossEntropy{1, 0, k},
                       .inputs = {pixels ? floats({1, 4, 4}, {1, 2, 0, 3, 1, 2, 0, 0, 1, 1, 5, 0, 1, 1, 0, 0})
                                         : floats({4, 4}, {1, 1, 1, 1, 2, 2, 1, 1, 0, 0, 5, 0, 3, 0, 0, 0}),
                                  ints(pixels ? Shape{1, 4} : Shape{4}, {2, 1, 1, 0})},
                       .outputs = {f64({4})},
                       .forward = {},
                       .context = {.seed = 1, .step = 0, .first_sample = 0, .valid = pixels ? 1 : 4}});
  cases.push_back({.name = "unknown_label",
                   .op = "softmax_cross_entropy",
                   .attributes = SoftmaxCrossEntropy{-1, 0, 2},
                   .inputs = {normal({3, 4}, 1), ints({3}, {0, 4, -1})},
                   .outputs = {f64({4}), f32({3, 4})},
                   .forward = {},
                   .context = three});
  return cases;
}

}  // namespace dtrain::ops::test
