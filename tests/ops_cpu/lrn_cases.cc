#include "ops/lrn.h"

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  Lrn a;
};

std::vector<Row> rows() {
  return {
      {"usual", {2, 16, 5, 5}, {5, 0.5f, 0.75f, 1.0f}},
      {"odd_channels", {2, 19, 4, 5}, {5, 0.5f, 0.75f, 2.0f}},
      {"even_size", {2, 16, 5, 5}, {4, 0.5f, 0.75f, 1.0f}},
      {"even_size_odd_channels", {3, 7, 9, 9}, {2, 0.8f, 0.75f, 1.0f}},
      {"size_1", {2, 5, 3, 3}, {1, 0.5f, 0.5f, 1.0f}},
      {"wider_than_the_channels", {2, 3, 4, 4}, {20, 3.0f, 1.0f, 0.5f}},
      {"one_channel", {2, 1, 4, 4}, {5, 1.0f, 0.75f, 1.0f}},
      {"other_power", {2, 20, 4, 4}, {5, 1.0f, 1.3f, 1.5f}},
      {"no_power", {2, 5, 4, 4}, {5, 1.0f, 0.0f, 1.0f}},
      {"no_weight", {2, 5, 4, 4}, {5, 0.0f, 0.75f, 2.0f}},
      {"large", {2, 48, 31, 33}, {5, 0.1f, 0.75f, 1.0f}},
      {"one_axis", {3, 11, 70}, {3, 0.5f, 0.75f, 1.0f}},
      {"volumes", {2, 6, 3, 4, 5}, {3, 0.5f, 0.75f, 1.0f}},
  };
}

}  // namespace

std::vector<OpCase> lrn_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) {
    const int64_t nan_at = r.a.beta > 0 ? r.x.elements() / 2 : -1;  // pow(NaN, 0) is 1
    cases.push_back({.name = r.name,
                     .op = "lrn",
                     .attributes = r.a,
                     .inputs = {normal(r.x, 1)},
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 2e-6,
                     .nan_at = nan_at});
    cases.push_back({.name = r.name,
                     .op = "lrn.backward",
                     .attributes = r.a,
                     .inputs = {normal(r.x, 1), normal(r.x, 2)},
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 5e-6,
                     .nan_at = nan_at});
  }
  return cases;
}

}  // namespace dtrain::ops::test
