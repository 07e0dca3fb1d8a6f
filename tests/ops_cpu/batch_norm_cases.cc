#include "ops/batch_norm.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  bool affine;
  ActivationKind activation = ActivationKind::kNone;
  bool residual = false;
  int gradients = 1;
};

std::vector<Row> rows() {
  constexpr auto kRelu = ActivationKind::kRelu;
  constexpr auto kNone = ActivationKind::kNone;
  return {
      {"images", {4, 16, 5, 5}, true},
      {"images_odd", {3, 7, 3, 6}, true},
      {"one_channel", {4, 1, 6, 6}, true},
      {"one_sample", {1, 5, 7, 7}, true},
      {"not_affine", {2, 17, 4, 4}, false},
      {"vectors", {9, 13}, true},
      {"vectors_not_affine", {8, 16}, false},
      {"relu", {3, 16, 5, 5}, true, kRelu},
      {"relu_odd", {3, 7, 3, 6}, true, kRelu},
      {"relu_not_affine", {2, 5, 4, 4}, false, kRelu},
      {"relu_vectors", {9, 13}, true, kRelu},
      {"one_pixel", {8, 20, 1, 1}, true},
      {"several_groups", {2, 31, 27, 29}, true, kRelu},
      {"residual", {3, 16, 5, 5}, true, kRelu, true},
      {"residual_odd", {3, 29, 3, 6}, true, kNone, true},
      {"residual_not_affine", {2, 24, 4, 4}, false, kRelu, true},
      {"residual_vectors", {9, 13}, true, kRelu, true},
      {"two_gradients", {3, 32, 5, 5}, true, kRelu, true, 2},
      {"three_gradients", {3, 20, 5, 5}, false, kNone, false, 3},
      {"most_gradients", {2, 18, 3, 5}, true, kRelu, true, BatchNorm::kMostGradients},
      {"most_gradients_not_affine", {2, 18, 3, 5}, false, kNone, false, BatchNorm::kMostGradients},
  };
}

}  // namespace

std::vector<OpCase> batch_norm_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const BatchNorm a{.epsilon = 1e-3f,
                      .momentum = 0.3f,
                      .affine = r.affine,
                      .residual = r.residual,
                      .activation = {r.activation, 0}};
    const bool relu = r.activation == ActivationKind::kRelu;
    const Shape c{r.x[1]};
    const Value x = normal(r.x, 1);
    std::vector<Value> in = {x, normal(c, 4), uniform(c, 5, 0.5f, 2.0f)};
    if (r.affine) in.insert(in.end(), {uniform(c, 2, 0.5f, 2.0f), normal(c, 3)});
    if (r.residual) in.push_back(normal(r.x, 7));
    const std::vector<TensorDesc> out = {f32(r.x), f32(c), f32(c), f32(c), f32(c)};

    cases.push_back({.name = r.name,
                     .op = "batch_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = out,
                     .forward = {},
                     .tolerance = 5e-5,
                     .nan_at = 0});
    cases.push_back({.name = r.name,
                     .op = "batch_norm.inference",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 5e-5,
                     .nan_at = 0});

    const auto made = run_reference("batch_norm", a, in, out);
    OpCase backward{.name = r.name,
                    .op = "batch_norm.backward",
                    .attributes = a,
                    .inputs = {x, made[1], made[2]},
                    .outputs = {f32(r.x)},
                    .forward = {},
                    .tolerance = 1e-4,
                    .nan_at = 0};
    if (r.affine) {
      backward.inputs.push_back(in[3]);
      backward.outputs.insert(backward.outputs.end(), {f32(c), f32(c)});
    }
    if (relu) backward.inputs.push_back(made[0]);
    for (int k = 0; k < r.gradients; ++k) backward.inputs.push_back(normal(r.x, 8 + static_cast<uint32_t>(k)));
    cases.push_back(backward);
    if (!r.residual) continue;
    backward.name += "_and_its_gradient";
    backward.outputs.push_back(f32(r.x));
    cases.push_back(backward);
  }
  return cases;
}

}  // namespace dtrain::ops::test
