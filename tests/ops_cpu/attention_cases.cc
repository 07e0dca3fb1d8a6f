#include "ops/attention.h"

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  int64_t samples, length, dim;
  int heads;
};

}  // namespace

std::vector<OpCase> attention_cases() {
  const std::vector<Row> rows = {
      {2, 5, 12, 3}, {1, 1, 8, 2}, {3, 64, 32, 1}, {2, 65, 24, 4}, {1, 130, 20, 2}, {2, 128, 64, 2}, {1, 200, 7, 1},
  };
  std::vector<OpCase> cases;
  for (const Row& r : rows)
    for (bool causal : {false, true}) {
      const Attention a{r.heads, causal};
      const Shape wide{r.samples, r.length, 3 * r.dim}, y{r.samples, r.length, r.dim},
          softmax{r.samples, r.heads, 2 * r.length};
      const Value qkv = normal(wide, 1);
      OpCase forward{
          .name = fmt::format("{}x{}x{}_heads_{}{}", r.samples, r.length, r.dim, r.heads, causal ? "_causal" : ""),
          .op = "attention",
          .attributes = a,
          .inputs = {qkv},
          .outputs = {f32(y), f32(softmax)},
          .forward = {},
          .nan_at = r.dim};  // in the first key, which every query sees
      cases.push_back(forward);
      const std::vector<Value> made = run_reference("attention", a, {qkv}, forward.outputs);
      cases.push_back({.name = forward.name,
                       .op = "attention.backward",
                       .attributes = a,
                       .inputs = {qkv, made[0], normal(y, 2), made[1]},
                       .outputs = {f32(wide)},
                       .forward = {}});
      forward.name += "_value_only";
      forward.outputs.pop_back();
      cases.push_back(forward);
    }
  // Scores far from each other and far from 0.
  Value steep = uniform({2, 70, 24}, 3, -30.0f, 30.0f);
  cases.push_back({.name = "steep",
                   .op = "attention",
                   .attributes = Attention{2, true},
                   .inputs = {steep},
                   .outputs = {f32({2, 70, 8}), f32({2, 2, 140})},
                   .forward = {},
                   .tolerance = 2e-4});
  return cases;
}

}  // namespace dtrain::ops::test
