#include "ops/batch_norm.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  bool affine;
  ActivationKind activation = ActivationKind::kNone;
};

std::vector<Row> rows() {
  constexpr auto kRelu = ActivationKind::kRelu;
  return {
      {"images", {4, 16, 5, 5}, true},         {"images_odd", {3, 7, 3, 6}, true},
      {"one_channel", {4, 1, 6, 6}, true},     {"one_sample", {1, 5, 7, 7}, true},
      {"not_affine", {2, 17, 4, 4}, false},    {"vectors", {9, 13}, true},
      {"vectors_not_affine", {8, 16}, false},  {"relu", {3, 16, 5, 5}, true, kRelu},
      {"relu_odd", {3, 7, 3, 6}, true, kRelu}, {"relu_not_affine", {2, 5, 4, 4}, false, kRelu},
      {"relu_vectors", {9, 13}, true, kRelu},  {"one_pixel", {8, 20, 1, 1}, true},
  };
}

}  // namespace

std::vector<OpCase> batch_norm_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const BatchNorm a{.epsilon = 1e-3f, .momentum = 0.3f, .activation = {r.activation, 0}};
    const Shape c{r.x[1]};
    const Value x = normal(r.x, 1);
    const std::vector<Value> affine =
        r.affine ? std::vector<Value>{uniform(c, 2, 0.5f, 2.0f), normal(c, 3)} : std::vector<Value>{};
    const auto joined = [&](std::vector<Value> list) {
      list.insert(list.end(), affine.begin(), affine.end());
      return list;
    };
    const std::vector<Value> in = joined({x, normal(c, 4), uniform(c, 5, 0.5f, 2.0f)});
    const std::vector<TensorDesc> out = {f32(r.x), f32(c), f32(c), f32(c), f32(c), opaque()};

    cases.push_back({.name = r.name,
                     .op = "batch_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = out,
                     .forward = {},
                     .tolerance = 5e-5,
                     .nan_at = r.activation == ActivationKind::kNone ? 0 : -1});
    cases.push_back({.name = r.name,
                     .op = "batch_norm.inference",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 5e-5,
                     .nan_at = r.activation == ActivationKind::kNone ? 0 : -1});

    const auto statistics = run_reference("batch_norm", a, in, out);
    OpCase backward{.name = r.name,
                    .op = "batch_norm.backward",
                    .attributes = a,
                    .inputs = joined({x, normal(r.x, 6), statistics[1], statistics[2], empty_value({0}, DType::kU8)}),
                    .outputs = {f32(r.x)},
                    .forward = Forward{"batch_norm", in, out, 5, 4},
                    .tolerance = 1e-4,
                    .nan_at = r.activation == ActivationKind::kNone ? 0 : -1};
    if (r.affine) {
      backward.outputs.push_back(f32(c));
      backward.outputs.push_back(f32(c));
    }
    cases.push_back(backward);
  }
  return cases;
}

}  // namespace dtrain::ops::test
