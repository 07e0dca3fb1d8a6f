#include "ops/linear.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  std::vector<int64_t> leading;
  int64_t in, out;
  bool bias;
  Activation activation = {};
  bool refusable = false;
};

std::vector<Row> rows() {
  return {
      {"square", {8}, 16, 16, true},
      {"odd", {5}, 37, 11, true},
      {"no_bias", {3}, 20, 7, false},
      {"one_sample", {1}, 50, 10, true},
      {"one_unit", {6}, 9, 1, true},
      {"one_input", {6}, 1, 9, true},
      {"sequence", {3, 5}, 12, 18, true},
      {"sequence_no_bias", {2, 3, 4}, 7, 5, false},
      {"larger", {33}, 259, 130, true},
      {"many_rows", {645}, 20, 50, true},
      {"many_rows_no_bias", {4, 150}, 24, 17, false},
      {"many_rows_many_sums", {520}, 513, 512, true},
      {"relu", {4}, 24, 13, true, {ActivationKind::kRelu, 0}},
      {"gelu", {4}, 24, 13, true, {ActivationKind::kGelu, 0}, true},
  };
}

Shape with(std::vector<int64_t> leading, int64_t last) {
  leading.push_back(last);
  return Shape(std::move(leading));
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const Shape x = with(r.leading, r.in), y = with(r.leading, r.out), w{r.out, r.in}, b{r.out};
    const Linear a{r.activation};
    OpCase forward{.name = r.name,
                   .op = "linear",
                   .attributes = a,
                   .inputs = {normal(x, 1), normal(w, 2)},
                   .outputs = {f32(y)},
                   .forward = {},
                   .nan_at = keeps_nan(a.activation) ? x.elements() / 2 : -1,
                   .refusable = r.refusable};
    if (r.bias) forward.inputs.push_back(normal(b, 3));
    cases.push_back(forward);
    if (a.activation.kind != ActivationKind::kNone) continue;

    cases.push_back({.name = r.name,
                     .op = "linear.backward_data",
                     .attributes = a,
                     .inputs = {normal(y, 4), normal(w, 2)},
                     .outputs = {f32(x)},
                     .forward = {},
                     .nan_at = y.elements() / 2});
    OpCase weights{.name = r.name,
                   .op = "linear.backward_weights",
                   .attributes = a,
                   .inputs = {normal(x, 1), normal(y, 4)},
                   .outputs = {f32(w)},
                   .forward = {},
                   .nan_at = x.elements() / 2};
    if (r.bias) weights.outputs.push_back(f32(b));
    cases.push_back(weights);
    cases.push_back({.name = r.name,
                     .op = "linear.backward_rows",
                     .attributes = LinearRows{r.out / 3},
                     .inputs = {normal(x, 1), normal(y, 4)},
                     .outputs = {f32({r.out - r.out / 3 - r.out / 4, r.in})},
                     .forward = {},
                     .nan_at = x.elements() / 2});
    cases.push_back({.name = r.name,
                     .op = "linear.backward_bias",
                     .attributes = {},
                     .inputs = {normal(y, 4)},
                     .outputs = {f32(b)},
                     .forward = {},
                     .nan_at = y.elements() / 2});
  }
  return cases;
}

}  // namespace dtrain::ops::test
