#include "ops/upsample.h"

#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// Calls f(y index, x index, weight) for every element of y and what it is made of, in y's order.
template <typename F>
void for_each_part(const Upsample& a, const Shape& x, const Shape& y, F f) {
  DTRAIN_CHECK(y == (Shape{x[0], x[1], x[2] * a.scale[0], x[3] * a.scale[1]}));
  for (int64_t c = 0; c < x[0] * x[1]; ++c)
    for (int64_t h = 0; h < y[2]; ++h)
      for (int64_t w = 0; w < y[3]; ++w) {
        const UpsampleTap v = upsample_tap(a.mode, h, a.scale[0], x[2]), u = upsample_tap(a.mode, w, a.scale[1], x[3]);
        const int64_t to = (c * y[2] + h) * y[3] + w, upper = (c * x[2] + v.left) * x[3];
        const int64_t lower = (c * x[2] + v.right) * x[3];
        if (a.mode == Upsample::Mode::kNearest) {
          f(to, upper + u.left, 1.0);
          continue;
        }
        const double down = v.share, across = u.share;
        f(to, upper + u.left, (1 - down) * (1 - across));
        f(to, upper + u.right, (1 - down) * across);
        f(to, lower + u.left, down * (1 - across));
        f(to, lower + u.right, down * across);
      }
}

void store(const std::vector<double>& sums, float* to) {
  for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<float>(sums[i]);
}

void forward(const Call& call) {
  std::vector<double> sums(static_cast<size_t>(call.out_shape(0).elements()));
  for_each_part(call.request.attributes_as<Upsample>(), call.in_shape(0), call.out_shape(0),
                [&](int64_t y, int64_t x, double weight) { sums[static_cast<size_t>(y)] += weight * call.in(0)[x]; });
  store(sums, call.out(0));
}

void backward(const Call& call) {
  std::vector<double> sums(static_cast<size_t>(call.out_shape(0).elements()));
  for_each_part(call.request.attributes_as<Upsample>(), call.out_shape(0), call.in_shape(0),
                [&](int64_t y, int64_t x, double weight) { sums[static_cast<size_t>(x)] += weight * call.in(0)[y]; });
  store(sums, call.out(0));
}

const Registration kForward("reference", "upsample", std::make_unique<PlainOp>(forward));
const Registration kBackward("reference", "upsample.backward", std::make_unique<PlainOp>(backward));

}  // namespace
}  // namespace dtrain::ops::reference
