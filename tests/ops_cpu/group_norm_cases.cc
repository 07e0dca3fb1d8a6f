#include "ops/group_norm.h"

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  int64_t groups;
  bool affine = true;
};

std::vector<Row> rows() {
  return {
      {"images", {3, 32, 5, 5}, 4},
      {"groups_smaller_than_a_block", {2, 48, 4, 4}, 12},
      {"groups_across_blocks", {2, 48, 3, 4}, 2},
      {"groups_of_three", {2, 30, 4, 5}, 10},
      {"odd_channels", {3, 21, 4, 5}, 7},
      {"odd_channels_not_affine", {3, 21, 4, 5}, 3, false},
      {"one_group", {2, 19, 5, 3}, 1},
      {"one_channel_a_group", {2, 7, 6, 6}, 7},
      {"two_values_a_group", {4, 10, 1, 1}, 5},
      {"not_affine", {2, 32, 4, 4}, 8, false},
      {"large", {2, 48, 31, 37}, 6},
      {"many_positions", {1, 6, 70, 50}, 3},
      {"features", {9, 12}, 3},
      {"one_axis", {3, 10, 50}, 5},
      {"volumes", {2, 6, 3, 4, 5}, 2},
  };
}

}  // namespace

std::vector<OpCase> group_norm_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const GroupNorm a{.groups = r.groups, .epsilon = 1e-3f};
    const Shape c{r.x[1]}, statistics{r.x[0], r.groups};
    const Value x = normal(r.x, 1), gamma = uniform(c, 2, 0.5f, 2.0f);
    std::vector<Value> in = {x};
    if (r.affine) in.insert(in.end(), {gamma, normal(c, 3)});
    const std::vector<TensorDesc> out = {f32(r.x), f32(statistics), f32(statistics)};
    cases.push_back({.name = r.name,
                     .op = "group_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = out,
                     .forward = {},
                     .tolerance = 1e-5,
                     .nan_at = r.x.elements() / 2});
    cases.push_back({.name = r.name + "_inference",
                     .op = "group_norm",
                     .attributes = a,
                     .inputs = in,
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 1e-5});

    const auto made = run_reference("group_norm", a, in, out);
    OpCase backward{.name = r.name,
                    .op = "group_norm.backward",
                    .attributes = a,
                    .inputs = {x, normal(r.x, 4), made[1], made[2]},
                    .outputs = {f32(r.x)},
                    .forward = {},
                    .tolerance = 2e-5,
                    .nan_at = r.x.elements() / 2};
    if (r.affine) {
      backward.inputs.push_back(gamma);
      backward.outputs.insert(backward.outputs.end(), {f32(c), f32(c)});
    }
    cases.push_back(backward);
  }
  return cases;
}

}  // namespace dtrain::ops::test
