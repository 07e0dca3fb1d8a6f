#include "ops/softmax.h"

#include <limits>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  int axis;
};

std::vector<Row> rows() {
  return {
      {"features", {4, 10}, 1},
      {"one_class", {3, 1}, 1},
      {"features_1001", {40, 1001}, 1},
      {"features_5000", {2, 5000}, 1},
      {"sequence", {3, 5, 33}, 2},
      {"sequence_first", {3, 5, 33}, 1},
      {"channels", {2, 21, 9, 13}, 1},
      {"channels_large", {1, 5, 90, 100}, 1},
      {"rows_of_images", {2, 3, 6, 5}, 2},
      {"columns", {2, 16, 4, 67}, 3},
      {"many", {400, 100}, 1},
  };
}

}  // namespace

std::vector<OpCase> softmax_cases() {
  std::vector<OpCase> cases;
  for (const std::string op : {"softmax", "log_softmax"}) {
    for (const Row& r : rows()) {
      const Softmax a{r.axis};
      const Value x = uniform(r.x, 1, -6.0f, 6.0f);
      cases.push_back({.name = r.name,
                       .op = op,
                       .attributes = a,
                       .inputs = {x},
                       .outputs = {f32(r.x)},
                       .forward = {},
                       .tolerance = 2e-6,
                       .nan_at = r.x.elements() / 2});
      cases.push_back({.name = r.name,
                       .op = op + ".backward",
                       .attributes = a,
                       .inputs = {normal(r.x, 2), run_reference(op, a, {x}, {f32(r.x)})[0]},
                       .outputs = {f32(r.x)},
                       .forward = {},
                       .tolerance = 5e-6,
                       .nan_at = r.x.elements() / 2});
    }
    const float huge = 3e38f, low = -std::numeric_limits<float>::infinity();
    const std::vector<float> apart = {1000, -1000, 0, 200, 100, low, huge, 0, 1, low, low, low};
    for (int axis : {1, 2}) {
      const Shape x = axis == 1 ? Shape{4, 3, 1} : Shape{1, 4, 3};
      cases.push_back({.name = fmt::format("far_apart_axis_{}", axis),
                       .op = op,
                       .attributes = Softmax{axis},
                       .inputs = {floats(x, apart)},
                       .outputs = {f32(x)},
                       .forward = {}});
    }
    // The same lines side by side.
    cases.push_back({.name = "far_apart_aside",
                     .op = op,
                     .attributes = Softmax{1},
                     .inputs = {floats({1, 3, 4}, {1000, 200, huge, low, -1000, 100, 0, low, 0, low, 1, low})},
                     .outputs = {f32({1, 3, 4})},
                     .forward = {}});
  }
  return cases;
}

}  // namespace dtrain::ops::test
