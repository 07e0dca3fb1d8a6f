// Ops that move elements, and what stands around convolutions that go backward.
#include "ops/channel_bias.h"
#include "ops/elementwise.h"
#include "ops/transpose.h"
#include "ops/upsample.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

std::string name_of_shape(const Shape& shape) {
  std::string name;
  for (int64_t d : shape.dims()) name += fmt::format("{}{}", name.empty() ? "" : "x", d);
  return name;
}

void add_transposes(std::vector<OpCase>& cases) {
  const std::vector<std::pair<Shape, std::vector<int>>> rows = {
      {{3, 4, 5}, {0, 2, 1}},
      {{3, 33, 47}, {0, 2, 1}},
      {{2, 16, 64}, {0, 2, 1}},
      {{2, 3, 4, 5}, {0, 3, 1, 2}},
      {{2, 3, 4, 5}, {0, 2, 3, 1}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 3, 4, 5}, {0, 1, 3, 2}},
      {{2, 3, 4, 5}, {0, 3, 2, 1}},
      {{2, 3, 4, 5}, {3, 2, 1, 0}},
      {{2, 3, 4, 5}, {0, 1, 2, 3}},
      {{2, 1, 7, 1, 5}, {0, 3, 4, 1, 2}},
      {{2, 3, 2, 3, 2, 3}, {0, 2, 4, 1, 3, 5}},
      {{2, 3, 2, 3, 2, 17}, {0, 5, 4, 2, 1, 3}},
      {{1, 1}, {0, 1}},
      {{1, 300, 200}, {0, 2, 1}},
      {{4, 64, 20, 20}, {0, 2, 3, 1}},
  };
  for (const auto& [x, order] : rows) {
    Shape y = x;
    std::string name = name_of_shape(x) + "_order";
    for (int a = 0; a < x.rank(); ++a) {
      y[a] = x[order[static_cast<size_t>(a)]];
      name += fmt::format("_{}", order[static_cast<size_t>(a)]);
    }
    cases.push_back({.name = name,
                     .op = "transpose",
                     .attributes = Transpose{order},
                     .inputs = {normal(x, 1)},
                     .outputs = {f32(y)},
                     .forward = {},
                     .tolerance = 1e-12,
                     .nan_at = x.elements() / 2});
  }
  cases.push_back({.name = "whole_numbers",
                   .op = "transpose",
                   .attributes = Transpose{{1, 0}},
                   .inputs = {labels({20, 3}, 1, 100)},
                   .outputs = {{{3, 20}, DType::kI32, nullptr}},
                   .forward = {},
                   .tolerance = 1e-12});
}

void add_slices(std::vector<OpCase>& cases) {
  struct Row {
    Shape x;
    int axis;
    int64_t begin, extent;
  };
  const std::vector<Row> rows = {
      {{3, 7}, 1, 2, 3},          {{3, 7}, 1, 0, 7},           {{2, 3, 4}, 2, 3, 1},      {{5, 3}, 0, 1, 2},
      {{2, 32, 4, 4}, 1, 16, 16}, {{2, 32, 4, 4}, 1, 5, 16},   {{2, 20, 3, 3}, 1, 0, 16}, {{2, 5, 4, 4}, 2, 1, 2},
      {{2, 48, 4, 5}, 3, 4, 1},   {{3, 40, 31, 33}, 1, 33, 7}, {{2, 16, 4, 4}, 1, 15, 1},
  };
  for (const Row& r : rows) {
    Shape y = r.x;
    y[r.axis] = r.extent;
    const std::string name = fmt::format("{}_axis_{}_from_{}_of_{}", name_of_shape(r.x), r.axis, r.begin, r.extent);
    const Slice a{r.axis, r.begin};
    cases.push_back({.name = name,
                     .op = "slice",
                     .attributes = a,
                     .inputs = {normal(r.x, 1)},
                     .outputs = {f32(y)},
                     .forward = {},
                     .tolerance = 1e-12,
                     .nan_at = r.x.elements() / 2});
    cases.push_back({.name = name,
                     .op = "slice.backward",
                     .attributes = a,
                     .inputs = {normal(y, 1)},
                     .outputs = {f32(r.x)},
                     .forward = {},
                     .tolerance = 1e-12,
                     .nan_at = y.elements() / 2});
  }
}

void add_upsamples(std::vector<OpCase>& cases) {
  using A = std::array<int64_t, 2>;
  const std::vector<std::pair<Shape, A>> rows = {
      {{2, 3, 4, 5}, {2, 2}}, {{2, 16, 4, 4}, {2, 2}}, {{1, 5, 3, 2}, {3, 1}},    {{1, 2, 1, 1}, {4, 3}},
      {{2, 4, 3, 3}, {1, 1}}, {{2, 20, 7, 6}, {2, 5}}, {{1, 24, 40, 30}, {2, 2}}, {{3, 1, 5, 1}, {2, 2}},
  };
  for (const auto& [x, scale] : rows)
    for (auto mode : {Upsample::Mode::kNearest, Upsample::Mode::kBilinear}) {
      const Shape y{x[0], x[1], x[2] * scale[0], x[3] * scale[1]};
      const std::string name = fmt::format("{}_by_{}_{}_{}", name_of_shape(x), scale[0], scale[1],
                                           mode == Upsample::Mode::kNearest ? "nearest" : "bilinear");
      cases.push_back({.name = name,
                       .op = "upsample",
                       .attributes = Upsample{mode, scale},
                       .inputs = {normal(x, 1)},
                       .outputs = {f32(y)},
                       .forward = {},
                       .tolerance = 1e-6,
                       .nan_at = x.elements() / 2});
      cases.push_back({.name = name,
                       .op = "upsample.backward",
                       .attributes = Upsample{mode, scale},
                       .inputs = {normal(y, 1)},
                       .outputs = {f32(x)},
                       .forward = {},
                       .tolerance = 2e-6,
                       .nan_at = y.elements() / 2});
    }
}

void add_biases(std::vector<OpCase>& cases) {
  const std::vector<std::pair<std::string, Activation>> activations = {
      {"plain", {}},
      {"relu", {ActivationKind::kRelu, 0}},
      {"leaky_relu", {ActivationKind::kLeakyRelu, 0.2f}},
      {"tanh", {ActivationKind::kTanh, 0}},
  };
  for (const Shape& shape : {Shape{2, 5, 3, 3}, Shape{2, 16, 4, 4}, Shape{1, 1, 1, 1}, Shape{3, 20, 31, 33},
                             Shape{2, 40, 5, 7}, Shape{2, 1, 9, 9}}) {
    for (const auto& [name, activation] : activations)
      cases.push_back({.name = name_of_shape(shape) + "_" + name,
                       .op = "channel_bias",
                       .attributes = ChannelBias{activation},
                       .inputs = {normal(shape, 1), normal({shape[1]}, 2)},
                       .outputs = {f32(shape)},
                       .forward = {},
                       .tolerance = 1e-6,
                       .nan_at = keeps_nan(activation) ? shape.elements() / 2 : -1,
                       .refusable = activation.kind == ActivationKind::kTanh,
                       .parameter = 1});
    cases.push_back({.name = name_of_shape(shape),
                     .op = "channel_bias.backward",
                     .attributes = {},
                     .inputs = {normal(shape, 1)},
                     .outputs = {f32({shape[1]})},
                     .forward = {},
                     .tolerance = 1e-6,
                     .nan_at = shape.elements() / 2});
  }
}

}  // namespace

std::vector<OpCase> shape_cases() {
  std::vector<OpCase> cases;
  add_transposes(cases);
  add_slices(cases);
  add_upsamples(cases);
  add_biases(cases);
  return cases;
}

}  // namespace dtrain::ops::test
