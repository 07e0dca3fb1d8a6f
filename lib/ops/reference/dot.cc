#include "ops/dot.h"

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

double product(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

void dot(const Call& call) {
  const int64_t n = call.in_shape(0)[0], rows = call.in_shape(0)[1], others = call.in_shape(1)[1];
  const int64_t dim = call.in_shape(0)[2];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t s = 0; s < others; ++s)
        call.out(0)[(i * rows + r) * others + s] =
            static_cast<float>(product(call.in(0) + (i * rows + r) * dim, call.in(1) + (i * others + s) * dim, dim));
}

void dot_backward(const Call& call) {
  const bool second = call.request.attributes_as<Dot>().second;
  const int64_t n = call.in_shape(0)[0], rows = call.in_shape(0)[1], others = call.in_shape(0)[2];
  const int64_t out_rows = call.out_shape(0)[1], terms = second ? rows : others, dim = call.out_shape(0)[2];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < out_rows; ++o)
      for (int64_t d = 0; d < dim; ++d) {
        double sum = 0;
        for (int64_t t = 0; t < terms; ++t) {
          const float dy = call.in(0)[(i * rows + (second ? t : o)) * others + (second ? o : t)];
          sum += static_cast<double>(dy) * call.in(1)[(i * terms + t) * dim + d];
        }
        call.out(0)[(i * out_rows + o) * dim + d] = static_cast<float>(sum);
      }
}

void pairwise_dot(const Call& call) {
  const int64_t n = call.in_shape(0)[0], rows = call.in_shape(0)[1], dim = call.in_shape(0)[2];
  float* to = call.out(0);
  for (int64_t i = 0; i < n; ++i) {
    const float* x = call.in(0) + i * rows * dim;
    for (int64_t r = 1; r < rows; ++r)
      for (int64_t s = 0; s < r; ++s) *to++ = static_cast<float>(product(x + r * dim, x + s * dim, dim));
  }
}

void pairwise_dot_backward(const Call& call) {
  const int64_t n = call.in_shape(1)[0], rows = call.in_shape(1)[1], dim = call.in_shape(1)[2];
  for (int64_t i = 0; i < n; ++i) {
    const float* dy = call.in(0) + i * rows * (rows - 1) / 2;
    const float* x = call.in(1) + i * rows * dim;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t d = 0; d < dim; ++d) {
        double sum = 0;
        for (int64_t s = 0; s < rows; ++s) {
          if (s == r) continue;
          const int64_t high = r > s ? r : s, low = r > s ? s : r;
          sum += static_cast<double>(dy[high * (high - 1) / 2 + low]) * x[s * dim + d];
        }
        call.out(0)[(i * rows + r) * dim + d] = static_cast<float>(sum);
      }
  }
}

const Registration kDot("reference", "dot", std::make_unique<PlainOp>(dot));
const Registration kDotBackward("reference", "dot.backward", std::make_unique<PlainOp>(dot_backward));
const Registration kPairwise("reference", "pairwise_dot", std::make_unique<PlainOp>(pairwise_dot));
const Registration kPairwiseBackward("reference", "pairwise_dot.backward",
                                     std::make_unique<PlainOp>(pairwise_dot_backward));

}  // namespace
}  // namespace dtrain::ops::reference
