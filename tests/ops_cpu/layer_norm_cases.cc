#include "ops/layer_norm.h"

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  bool affine = true;
};

std::vector<Row> rows() {
  return {
      {"features", {9, 13}},
      {"one_row", {1, 16}},
      {"one_column", {5, 1}},
      {"sequence", {3, 5, 64}},
      {"sequence_not_affine", {3, 5, 33}, false},
      {"images", {2, 3, 5, 7}},
      {"images_not_affine", {2, 16, 4, 4}, false},
      {"rows_1031", {1031, 67}},
      {"rows_1031_not_affine", {1031, 67}, false},
      {"groups_of_rows", {40, 2000}},
      {"long_row", {2, 40001}},
  };
}

}  // namespace

std::vector<OpCase> layer_norm_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const LayerNorm a{.epsilon = 1e-3f};
    const Shape d{r.x.at(-1)}, statistics{r.x.elements() / r.x.at(-1)};
    const Value x = normal(r.x, 1), gamma = uniform(d, 2, 0.5f, 2.0f);
    std::vector<Value> in = {x};
    if (r.affine) in.insert(in.end(), {gamma, normal(d, 3)});
    const std::vector<TensorDesc> out = {f32(r.x), f32(statistics), f32(statistics)};
    cases.push_back({.name = r.name,
                     .op = "layer_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = out,
                     .forward = {},
                     .tolerance = 1e-5,
                     .nan_at = r.x.elements() / 2});
    cases.push_back({.name = r.name + "_inference",
                     .op = "layer_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 1e-5});

    const auto made = run_reference("layer_norm", a, in, out);
    OpCase backward{.name = r.name,
                    .op = "layer_norm.backward",
                    .attributes = a,
                    .inputs = {x, normal(r.x, 4), made[1], made[2]},
                    .outputs = {f32(r.x)},
                    .forward = {},
                    .tolerance = 2e-5,
                    .nan_at = r.x.elements() / 2};
    if (r.affine) {
      backward.inputs.push_back(gamma);
      backward.outputs.insert(backward.outputs.end(), {f32(d), f32(d)});
    }
    cases.push_back(backward);
  }
  // Far from zero, where a variance from sums of squares would be lost.
  cases.push_back({.name = "far_from_zero",
                   .op = "layer_norm",
                   .attributes = LayerNorm{},
                   .inputs = {uniform({4, 100}, 1, 1000.0f, 1001.0f)},
                   .outputs = {f32({4, 100}), f32({4}), f32({4})},
                   .forward = {},
                   .tolerance = 1e-3});
  return cases;
}

}  // namespace dtrain::ops::test
