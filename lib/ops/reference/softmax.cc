#include "ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// Calls f(at) for every line along the axis; at(i) is the place of its element i.
template <typename F>
void for_lines(const Call& call, F f) {
  const Shape& x = call.in_shape(0);
  const int axis = call.request.attributes_as<Softmax>().axis;
  DTRAIN_CHECK(axis >= 0 && axis < x.rank());
  int64_t inner = 1;
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x[i];
  for (int64_t line = 0, lines = x.elements() / x[axis]; line < lines; ++line) {
    const int64_t start = line / inner * inner * x[axis] + line % inner;
    f([=](int64_t i) { return start + i * inner; }, x[axis]);
  }
}

template <bool kLogarithm>
void forward(const Call& call) {
  for_lines(call, [&](auto at, int64_t n) {
    double top = call.in(0)[at(0)], sum = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max<double>(top, call.in(0)[at(i)]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(call.in(0)[at(i)] - top);
    for (int64_t i = 0; i < n; ++i) {
      const double below = call.in(0)[at(i)] - top;
      call.out(0)[at(i)] = static_cast<float>(kLogarithm ? below - std::log(sum) : std::exp(below) / sum);
    }
  });
}

template <bool kLogarithm>
void backward(const Call& call) {
  for_lines(call, [&](auto at, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double dy = call.in(0)[at(i)];
      sum += kLogarithm ? dy : dy * call.in(1)[at(i)];
    }
    for (int64_t i = 0; i < n; ++i) {
      const double dy = call.in(0)[at(i)], y = call.in(1)[at(i)];
      call.out(0)[at(i)] = static_cast<float>(kLogarithm ? dy - std::exp(y) * sum : y * (dy - sum));
    }
  });
}

const Registration kSoftmax("reference", "softmax", std::make_unique<PlainOp>(forward<false>));
const Registration kSoftmaxBackward("reference", "softmax.backward", std::make_unique<PlainOp>(backward<false>));
const Registration kLogSoftmax("reference", "log_softmax", std::make_unique<PlainOp>(forward<true>));
const Registration kLogSoftmaxBackward("reference", "log_softmax.backward", std::make_unique<PlainOp>(backward<true>));

}  // namespace
}  // namespace dtrain::ops::reference
