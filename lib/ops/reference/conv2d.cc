#include "ops/conv2d.h"

#include <vector>

#include "ops/reference/activation_function.h"
#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

// Calls f(y index, x index, w index) for every product of the convolution, outputs in row-major order.
template <typename F>
void for_each_product(const Conv2d& a, const Shape& x, const Shape& w, const Shape& y, F f) {
  const int64_t in_per_group = w[1], out_per_group = w[0] / a.groups;
  DTRAIN_CHECK(x[1] == in_per_group * a.groups && y[1] == w[0] && y[0] == x[0] && w[0] % a.groups == 0);
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    DTRAIN_CHECK(w[2 + axis] == a.kernel[i]);
    DTRAIN_CHECK(y[2 + axis] == (x[2 + axis] + 2 * a.pad[i] - a.dilation[i] * (a.kernel[i] - 1) - 1) / a.stride[i] + 1);
  }
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t oh = 0; oh < y[2]; ++oh)
        for (int64_t ow = 0; ow < y[3]; ++ow)
          for (int64_t c = 0; c < in_per_group; ++c)
            for (int64_t kh = 0; kh < w[2]; ++kh)
              for (int64_t kw = 0; kw < w[3]; ++kw) {
                const int64_t h = oh * a.stride[0] - a.pad[0] + kh * a.dilation[0];
                const int64_t v = ow * a.stride[1] - a.pad[1] + kw * a.dilation[1];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                const int64_t channel = o / out_per_group * in_per_group + c;
                f(((n * y[1] + o) * y[2] + oh) * y[3] + ow, ((n * x[1] + channel) * x[2] + h) * x[3] + v,
                  ((o * in_per_group + c) * w[2] + kh) * w[3] + kw);
              }
}

void store(const std::vector<double>& sums, float* to) {
  for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<float>(sums[i]);
}

std::vector<double> zeros(const Shape& shape) { return std::vector<double>(static_cast<size_t>(shape.elements())); }

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<Conv2d>();
  const float *x = call.in(0), *w = call.in(1), *b = call.in_count() > 2 ? call.in(2) : nullptr;
  const Shape& y = call.out_shape(0);
  auto sums = zeros(y);
  for_each_product(a, call.in_shape(0), call.in_shape(1), y, [&](int64_t yi, int64_t xi, int64_t wi) {
    sums[static_cast<size_t>(yi)] += call.factor(x[xi]) * call.factor(w[wi]);
  });
  for (size_t i = 0; i < sums.size(); ++i) {
    const auto o = static_cast<int64_t>(i) / (y[2] * y[3]) % y[1];
    call.out(0)[i] = static_cast<float>(activate(a.activation, sums[i] + (b ? b[o] : 0.0f)));
  }
}

void backward_data(const Call& call) {
  const float *dy = call.in(0), *w = call.in(1);
  auto sums = zeros(call.out_shape(0));
  for_each_product(call.request.attributes_as<Conv2d>(), call.out_shape(0), call.in_shape(1), call.in_shape(0),
                   [&](int64_t yi, int64_t xi, int64_t wi) {
                     sums[static_cast<size_t>(xi)] += call.factor(dy[yi]) * call.factor(w[wi]);
                   });
  store(sums, call.out(0));
}

void backward_weights(const Call& call) {
  const float *x = call.in(0), *dy = call.in(1);
  const Shape& y = call.in_shape(1);
  auto sums = zeros(call.out_shape(0));
  for_each_product(call.request.attributes_as<Conv2d>(), call.in_shape(0), call.out_shape(0), y,
                   [&](int64_t yi, int64_t xi, int64_t wi) {
                     sums[static_cast<size_t>(wi)] += call.factor(x[xi]) * call.factor(dy[yi]);
                   });
  store(sums, call.out(0));
  if (call.out_count() < 2) return;
  std::vector<double> bias(static_cast<size_t>(y[1]));
  for (int64_t i = 0; i < y.elements(); ++i) bias[static_cast<size_t>(i / (y[2] * y[3]) % y[1])] += dy[i];
  store(bias, call.out(1));
}

const Registration kForward("reference", "conv2d", std::make_unique<PlainOp>(forward));
const Registration kData("reference", "conv2d.backward_data", std::make_unique<PlainOp>(backward_data));
const Registration kWeights("reference", "conv2d.backward_weights", std::make_unique<PlainOp>(backward_weights));

}  // namespace
}  // namespace dtrain::ops::reference
