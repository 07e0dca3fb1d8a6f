#include "ops/recurrent.h"

#include <cmath>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  int64_t samples, steps, inputs, units;
  bool reverse = false;
  bool last = false;
  bool dx = true;
};

std::vector<Row> rows() {
  return {
      {"small", 3, 4, 5, 6},
      {"one_step", 4, 1, 7, 16},
      {"one_sample", 1, 6, 8, 16},
      {"one_of_each", 1, 1, 1, 1},
      {"odd", 5, 3, 13, 19, false, false, false},
      {"reverse", 3, 5, 6, 17, true},
      {"last", 4, 5, 6, 8, false, true},
      {"last_reverse", 2, 3, 4, 33, true, true},
      {"larger", 9, 7, 37, 128},
      {"pages", 3, 3, 16, 256},
  };
}

}  // namespace

std::vector<OpCase> recurrent_cases() {
  std::vector<OpCase> cases;
  for (const std::string op : {"lstm", "gru"})
    for (const Row& r : rows()) {
      const Recurrent a{.reverse = r.reverse};
      const int64_t gates = (op == "lstm" ? 4 : 3) * r.units;
      const Shape x{r.samples, r.steps, r.inputs}, w_ih{gates, r.inputs}, w_hh{gates, r.units}, b{gates};
      const Shape y = r.last ? Shape{r.samples, r.units} : Shape{r.samples, r.steps, r.units};
      // Weights as large as such layers have them; larger ones make every difference in rounding grow with the steps.
      const float bound = 1.5f / std::sqrt(static_cast<float>(r.units));
      const std::vector<Value> in = {normal(x, 1), uniform(w_ih, 2, -bound, bound), uniform(w_hh, 3, -bound, bound),
                                     uniform(b, 4, -bound, bound), uniform(b, 5, -bound, bound)};
      const OpCase forward{.name = r.name,
                           .op = op,
                           .attributes = a,
                           .inputs = in,
                           .outputs = {f32(y), opaque()},
                           .forward = {},
                           .nan_at = x.elements() / 2};
      cases.push_back(forward);
      OpCase inference = forward;
      inference.name += "_inference";
      inference.outputs.pop_back();
      cases.push_back(inference);

      OpCase backward{.name = r.name,
                      .op = op + ".backward",
                      .attributes = a,
                      .inputs = {in[0], in[1], in[2], normal(y, 6), empty_value({0}, DType::kU8)},
                      .outputs = {f32(w_ih), f32(w_hh), f32(b), f32(b)},
                      .forward = Forward{op, in, forward.outputs, 1, 4},
                      .tolerance = 5e-5};
      if (r.dx) backward.outputs.push_back(f32(x));
      cases.push_back(backward);
    }
  return cases;
}

}  // namespace dtrain::ops::test
