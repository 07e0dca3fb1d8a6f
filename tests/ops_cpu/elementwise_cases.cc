#include "ops/dot.h"
#include "ops/elementwise.h"
#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

std::string name_of_shape(const Shape& shape) {
  std::string name;
  for (int64_t d : shape.dims()) name += fmt::format("{}{}", name.empty() ? "" : "x", d);
  return name;
}

void add_additions(std::vector<OpCase>& cases) {
  const std::vector<Shape> shapes = {{3, 7}, {2, 5, 3, 3}, {2, 16, 4, 4}, {1, 1}, {2, 20, 31, 33}};
  const std::vector<std::pair<std::string, Activation>> activations = {
      {"plain", {}},
      {"relu", {ActivationKind::kRelu, 0}},
      {"leaky_relu", {ActivationKind::kLeakyRelu, 0.2f}},
      {"sigmoid", {ActivationKind::kSigmoid, 0}},
  };
  for (const Shape& shape : shapes)
    for (const auto& [name, activation] : activations)
      for (uint32_t n : {2u, 3u, 5u}) {
        if (shape.elements() > 10000 && n != 3) continue;
        OpCase c{.name = fmt::format("{}_of_{}_{}", n, name_of_shape(shape), name),
                 .op = "add",
                 .attributes = Add{activation},
                 .inputs = {},
                 .outputs = {f32(shape)},
                 .forward = {},
                 .tolerance = 1e-6,
                 .nan_at = shape.elements() / 2,
                 .refusable = activation.kind == ActivationKind::kSigmoid};
        for (uint32_t k = 0; k < n; ++k) c.inputs.push_back(normal(shape, 10 + k));
        cases.push_back(c);
      }
}

void add_products(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 5, 3, 3}, Shape{2, 16, 4, 4}, Shape{1, 1}, Shape{2, 20, 31, 33}})
    for (uint32_t n : {2u, 3u, 5u}) {
      OpCase c{.name = fmt::format("{}_of_{}", n, name_of_shape(shape)),
               .op = "mul",
               .attributes = {},
               .inputs = {},
               .outputs = {f32(shape)},
               .forward = {},
               .tolerance = 1e-6,
               .nan_at = shape.elements() / 2};
      for (uint32_t k = 0; k < n; ++k) c.inputs.push_back(normal(shape, 10 + k));
      cases.push_back(c);
    }
}

void add_concats(std::vector<OpCase>& cases) {
  struct Row {
    int axis;
    std::vector<Shape> shapes;
  };
  const std::vector<Row> rows = {
      {1, {{2, 3, 4, 4}, {2, 5, 4, 4}}},
      {1, {{2, 16, 4, 4}, {2, 32, 4, 4}, {2, 16, 4, 4}}},
      {1, {{2, 8, 3, 3}, {2, 8, 3, 3}}},
      {1, {{3, 2}, {3, 5}, {3, 1}}},
      {2, {{2, 3, 4}, {2, 3, 1}}},
      {0, {{2, 3}, {1, 3}}},
      {1, {{4, 40, 31, 33}, {4, 7, 31, 33}}},
      {1, {{2, 16, 4, 4}, {2, 20, 4, 4}}},
      {2, {{2, 16, 4, 4}, {2, 16, 3, 4}}},
  };
  for (const Row& r : rows) {
    Shape y = r.shapes[0];
    y[r.axis] = 0;
    OpCase c{.name = fmt::format("axis_{}", r.axis),
             .op = "concat",
             .attributes = Axis{r.axis},
             .inputs = {},
             .outputs = {},
             .forward = {},
             .tolerance = 1e-12,
             .nan_at = 1};
    for (size_t k = 0; k < r.shapes.size(); ++k) {
      c.inputs.push_back(normal(r.shapes[k], static_cast<uint32_t>(k + 1)));
      c.name += "_" + name_of_shape(r.shapes[k]);
      y[r.axis] += r.shapes[k][r.axis];
    }
    c.outputs = {f32(y)};
    cases.push_back(c);

    int64_t begin = 0;
    for (size_t k = 0; k < r.shapes.size(); ++k) {
      cases.push_back({.name = c.name + fmt::format("_part_{}", k),
                       .op = "slice",
                       .attributes = Slice{r.axis, begin},
                       .inputs = {normal(y, 1)},
                       .outputs = {f32(r.shapes[k])},
                       .forward = {},
                       .tolerance = 1e-12,
                       .nan_at = 0});
      begin += r.shapes[k][r.axis];
    }
  }
  cases.push_back({.name = "whole_numbers",
                   .op = "concat",
                   .attributes = Axis{1},
                   .inputs = {labels({2, 3}, 1, 100), labels({2, 2}, 2, 100)},
                   .outputs = {{{2, 5}, DType::kI32, nullptr}},
                   .forward = {},
                   .tolerance = 1e-12});
}

void add_dropouts(std::vector<OpCase>& cases) {
  for (const Shape& shape : {Shape{3, 7}, Shape{2, 5, 3, 3}, Shape{1, 1}, Shape{4, 4099}, Shape{2, 3, 200, 37}})
    for (float rate : {0.0f, 0.1f, 0.5f, 0.999f})
      for (const char* op : {"dropout", "dropout.backward"})
        cases.push_back({.name = fmt::format("{}_rate_{}", name_of_shape(shape), static_cast<int>(rate * 1000)),
                         .op = op,
                         .attributes = Dropout{rate, stream_id("dropout/fc1")},
                         .inputs = {uniform(shape, 1, 0.5f, 2.0f)},
                         .outputs = {f32(shape)},
                         .forward = {},
                         .context = {.seed = 0x123456789abcdefULL, .step = 11, .first_sample = 96, .valid = 0},
                         .tolerance = 1e-6,
                         .nan_at = 0});
}

void add_dots(std::vector<OpCase>& cases) {
  struct Row {
    int64_t n, rows, others, dim;
  };
  for (const auto& [n, rows, others, dim] :
       {Row{3, 2, 4, 5}, Row{1, 1, 1, 1}, Row{70, 1, 6, 64}, Row{40, 27, 3, 131}}) {
    const Shape a{n, rows, dim}, b{n, others, dim}, y{n, rows, others};
    const auto add = [&](const char* op, std::any attributes, std::vector<Value> inputs, const Shape& out) {
      cases.push_back({.name = fmt::format("{}x{}x{}x{}_{}", n, rows, others, dim, cases.size()),
                       .op = op,
                       .attributes = std::move(attributes),
                       .inputs = std::move(inputs),
                       .outputs = {f32(out)},
                       .forward = {},
                       .tolerance = 1e-5,
                       .nan_at = 0});
    };
    add("dot", {}, {normal(a, 1), normal(b, 2)}, y);
    add("dot.backward", Dot{false}, {normal(y, 3), normal(b, 2)}, a);
    add("dot.backward", Dot{true}, {normal(y, 3), normal(a, 1)}, b);
    if (rows < 2) continue;
    const Shape pairs{n, rows * (rows - 1) / 2};
    add("pairwise_dot", {}, {normal(a, 1)}, pairs);
    add("pairwise_dot.backward", {}, {normal(pairs, 4), normal(a, 1)}, a);
  }
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  add_dots(cases);
  add_additions(cases);
  add_products(cases);
  add_concats(cases);
  add_dropouts(cases);
  for (const Shape& shape : {Shape{2, 5, 3, 3}, Shape{2, 16, 4, 4}, Shape{3, 7}, Shape{1, 1, 1, 1}})
    cases.push_back({.name = name_of_shape(shape),
                     .op = "reorder",
                     .attributes = {},
                     .inputs = {normal(shape, 1)},
                     .outputs = {f32(shape)},
                     .forward = {},
                     .tolerance = 1e-12,
                     .nan_at = 0});
  return cases;
}

}  // namespace dtrain::ops::test
