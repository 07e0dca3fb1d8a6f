#include "ops/pool2d.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

struct Row {
  std::string name;
  Shape x;
  Pool2d a;
};

std::vector<Row> rows() {
  using A = std::array<int64_t, 2>;
  constexpr auto kAverage = Pool2d::Kind::kAverage;
  return {
      {"max_2", {2, 16, 8, 8}, {.kernel = A{2, 2}, .stride = A{2, 2}}},
      {"max_3_stride_2_pad_1", {2, 5, 9, 7}, {.kernel = A{3, 3}, .stride = A{2, 2}, .pad = A{1, 1}}},
      {"max_overlapping", {1, 20, 7, 7}, {.kernel = A{3, 3}, .stride = A{1, 1}}},
      {"max_floor", {1, 3, 7, 10}, {.kernel = A{2, 3}, .stride = A{2, 2}}},
      {"max_ceil", {2, 9, 8, 8}, {.kernel = A{3, 3}, .stride = A{2, 2}, .ceil = true}},
      {"max_ceil_pad", {1, 4, 6, 7}, {.kernel = A{3, 2}, .stride = A{2, 3}, .pad = A{1, 1}, .ceil = true}},
      {"max_ceil_dropped", {1, 2, 4, 4}, {.kernel = A{2, 2}, .stride = A{3, 3}, .pad = A{1, 1}, .ceil = true}},
      {"max_one_channel", {3, 1, 4, 4}, {.kernel = A{2, 2}, .stride = A{2, 2}}},
      {"max_all", {2, 33, 4, 3}, {.kernel = A{4, 3}}},
      {"average_2", {2, 16, 8, 8}, {.kind = kAverage, .kernel = A{2, 2}, .stride = A{2, 2}}},
      {"average_pad", {2, 5, 9, 7}, {.kind = kAverage, .kernel = A{3, 3}, .stride = A{2, 2}, .pad = A{1, 1}}},
      {"average_pad_not_counted",
       {2, 17, 9, 7},
       {.kind = kAverage, .kernel = A{3, 3}, .stride = A{2, 2}, .pad = A{1, 1}, .count_include_pad = false}},
      {"average_ceil", {2, 9, 8, 8}, {.kind = kAverage, .kernel = A{3, 3}, .stride = A{2, 2}, .ceil = true}},
      {"average_ceil_pad",
       {1, 4, 6, 7},
       {.kind = kAverage, .kernel = A{3, 2}, .stride = A{2, 3}, .pad = A{1, 1}, .ceil = true}},
      {"average_ceil_pad_not_counted",
       {1, 4, 6, 7},
       {.kind = kAverage,
        .kernel = A{3, 2},
        .stride = A{2, 3},
        .pad = A{1, 1},
        .ceil = true,
        .count_include_pad = false}},
      {"average_ceil_exact",
       {1, 6, 8, 8},
       {.kind = kAverage, .kernel = A{2, 2}, .stride = A{2, 2}, .pad = A{1, 1}, .ceil = true}},
      {"average_one_pixel", {2, 3, 1, 1}, {.kind = kAverage}},
      {"average_large", {1, 20, 43, 41}, {.kind = kAverage, .kernel = A{3, 3}, .stride = A{2, 2}, .ceil = true}},
  };
}

Shape pooled(const Row& r) {
  const auto extent = [&](size_t i, int64_t in) {
    return pool_extent(in, r.a.kernel[i], r.a.stride[i], r.a.pad[i], r.a.ceil);
  };
  return {r.x[0], r.x[1], extent(0, r.x[2]), extent(1, r.x[3])};
}

void add(std::vector<OpCase>& cases, const Row& r, const Value& x, const std::string& name) {
  const Shape y = pooled(r);
  cases.push_back({.name = name,
                   .op = "pool2d",
                   .attributes = r.a,
                   .inputs = {x},
                   .outputs = {f32(y)},
                   .forward = {},
                   .nan_at = r.a.kind == Pool2d::Kind::kAverage ? r.x.elements() / 2 : -1});
  cases.push_back({.name = name + "_training",
                   .op = "pool2d",
                   .attributes = r.a,
                   .inputs = {x},
                   .outputs = {f32(y), opaque()},
                   .forward = {}});
  cases.push_back({.name = name,
                   .op = "pool2d.backward",
                   .attributes = r.a,
                   .inputs = {normal(y, 2), empty_value({0}, DType::kU8)},
                   .outputs = {f32(r.x)},
                   .forward = Forward{"pool2d", {x}, {f32(y), opaque()}, 1, 1},
                   .nan_at = y.elements() / 2});
}

}  // namespace

std::vector<OpCase> pooling_cases() {
  std::vector<OpCase> cases;
  for (const Row& r : rows()) add(cases, r, normal(r.x, 1), r.name);

  // Whole numbers from −1 to 1: most windows hold their maximum more than once.
  Row ties = rows()[1];
  Value x = labels(ties.x, 1, 3);
  std::vector<float> few;
  for (int32_t v : x.list<int32_t>()) few.push_back(static_cast<float>(v - 1));
  add(cases, ties, floats(ties.x, few), "max_ties");
  // Padding is −∞, not 0.
  add(cases, ties, uniform(ties.x, 1, -2.0f, -1.0f), "max_below_zero");

  for (const Shape& shape : {Shape{2, 16, 4, 4}, Shape{3, 5, 7, 3}, Shape{1, 1, 1, 1}, Shape{2, 70, 31, 33}}) {
    const std::string name = fmt::format("{}x{}x{}", shape[1], shape[2], shape[3]);
    cases.push_back({.name = name,
                     .op = "global_avg_pool",
                     .attributes = {},
                     .inputs = {normal(shape, 1)},
                     .outputs = {f32({shape[0], shape[1]})},
                     .forward = {},
                     .nan_at = shape.elements() - 1});
    cases.push_back({.name = name,
                     .op = "global_avg_pool.backward",
                     .attributes = {},
                     .inputs = {normal({shape[0], shape[1]}, 1)},
                     .outputs = {f32(shape)},
                     .forward = {},
                     .nan_at = 0});
  }
  return cases;
}

}  // namespace dtrain::ops::test
