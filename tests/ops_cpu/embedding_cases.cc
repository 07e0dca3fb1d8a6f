#include "ops/embedding.h"

#include <limits>

#include "tests/ops_cpu/op_case.h"

namespace dtrain::ops::test {
namespace {

Value as_floats(const Value& tokens) {
  Value v = empty_value(tokens.desc.shape);
  for (int64_t i = 0; i < v.size(); ++i) v.data()[i] = static_cast<float>(tokens.data<int32_t>()[i]);
  return v;
}

void add_embeddings(std::vector<OpCase>& cases, const std::string& name, const Value& tokens, int64_t vocab,
                    int64_t dim) {
  std::vector<int64_t> rows = tokens.desc.shape.dims();
  rows.push_back(dim);
  const Shape y(rows), w{vocab, dim};
  cases.push_back({.name = name,
                   .op = "embedding",
                   .attributes = {},
                   .inputs = {tokens, normal(w, 2)},
                   .outputs = {f32(y)},
                   .forward = {},
                   .tolerance = 1e-12});
  cases.push_back({.name = name,
                   .op = "embedding.backward",
                   .attributes = {},
                   .inputs = {tokens, normal(y, 3)},
                   .outputs = {f32(w)},
                   .forward = {},
                   .tolerance = 1e-6});
}

void add_positions(std::vector<OpCase>& cases, const Shape& x, int64_t length) {
  const Shape w{length, x[2]};
  const std::string name = fmt::format("{}x{}x{}_of_{}", x[0], x[1], x[2], length);
  cases.push_back({.name = name,
                   .op = "position_embedding",
                   .attributes = {},
                   .inputs = {normal(x, 1), normal(w, 2)},
                   .outputs = {f32(x)},
                   .forward = {},
                   .tolerance = 1e-7,
                   .nan_at = x.elements() / 2});
  cases.push_back({.name = name,
                   .op = "position_embedding.backward",
                   .attributes = {},
                   .inputs = {normal(x, 3)},
                   .outputs = {f32(w)},
                   .forward = {},
                   .tolerance = 1e-6,
                   .nan_at = x.elements() / 2});
}

}  // namespace

std::vector<OpCase> embedding_cases() {
  std::vector<OpCase> cases;
  const Value few = labels({3, 5}, 1, 7), many = labels({8, 130}, 1, 90), one = labels({4}, 1, 1);
  add_embeddings(cases, "sequence", few, 7, 5);
  add_embeddings(cases, "sequence_of_floats", as_floats(few), 7, 5);
  add_embeddings(cases, "one_class", one, 1, 16);
  add_embeddings(cases, "one_column", few, 7, 1);
  add_embeddings(cases, "many", many, 100, 72);
  add_embeddings(cases, "many_floats", as_floats(many), 100, 72);
  add_embeddings(cases, "no_classes", ints({2, 3}, {0, -1, 4, 5, 2147483647, 3}), 5, 3);
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  add_embeddings(cases, "no_class_numbers", floats({2, 4}, {0, 0.5f, -1, 5, nan, infinity, 1e20f, 4}), 5, 3);
  add_positions(cases, {1, 1, 1}, 1);
  add_positions(cases, {3, 4, 5}, 4);
  add_positions(cases, {2, 7, 3}, 12);
  add_positions(cases, {5, 40, 100}, 64);
  return cases;
}

}  // namespace dtrain::ops::test
