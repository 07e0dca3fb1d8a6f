#include "ops/pool2d.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/reference/plain_op.h"
#include "ops/registry.h"

namespace dtrain::ops::reference {
namespace {

struct Window {
  int64_t top, bottom, left, right;  // the part inside the input: [top, bottom) × [left, right)
  double divisor;                    // of an average
};

// Window of output (oh, ow) over an input of h × w (ATen's avg_pool2d: padding counts up to h + pad, not beyond).
Window window_at(const Pool2d& a, int64_t h, int64_t w, int64_t oh, int64_t ow) {
  const int64_t top = oh * a.stride[0] - a.pad[0], bottom = std::min(top + a.kernel[0], h + a.pad[0]);
  const int64_t left = ow * a.stride[1] - a.pad[1], right = std::min(left + a.kernel[1], w + a.pad[1]);
  Window in{std::max<int64_t>(top, 0), std::min(bottom, h), std::max<int64_t>(left, 0), std::min(right, w), 0};
  in.divisor = static_cast<double>(a.count_include_pad ? (bottom - top) * (right - left)
                                                       : (in.bottom - in.top) * (in.right - in.left));
  return in;
}

std::optional<std::string> check(const OpRequest& request) {
  const auto& a = request.attributes_as<Pool2d>();
  for (size_t i = 0; i < 2; ++i)
    if (2 * a.pad[i] > a.kernel[i]) return "padding of more than half the kernel";
  return std::nullopt;
}

// Calls f(plane, output's index, window) for each output, in row-major order. Planes are (n, c) pairs.
template <typename F>
void for_each_window(const Pool2d& a, const Shape& x, const Shape& y, F f) {
  DTRAIN_CHECK(x[0] == y[0] && x[1] == y[1]);
  for (int axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<size_t>(axis);
    DTRAIN_CHECK(y[2 + axis] == pool_extent(x[2 + axis], a.kernel[i], a.stride[i], a.pad[i], a.ceil));
  }
  for (int64_t plane = 0; plane < y[0] * y[1]; ++plane)
    for (int64_t oh = 0; oh < y[2]; ++oh)
      for (int64_t ow = 0; ow < y[3]; ++ow) f(plane, (plane * y[2] + oh) * y[3] + ow, window_at(a, x[2], x[3], oh, ow));
}

void forward(const Call& call) {
  const auto& a = call.request.attributes_as<Pool2d>();
  const Shape& x = call.in_shape(0);
  for_each_window(a, x, call.out_shape(0), [&](int64_t plane, int64_t at, const Window& w) {
    const float* in = call.in(0) + plane * x[2] * x[3];
    double sum = 0;
    float best = -std::numeric_limits<float>::infinity();
    int32_t where = -1;
    for (int64_t h = w.top; h < w.bottom; ++h)
      for (int64_t v = w.left; v < w.right; ++v) {
        const float value = in[h * x[3] + v];
        sum += value;
        if (where >= 0 && !(value > best) && !std::isnan(value)) continue;
        if (std::isnan(best)) continue;
        best = value;
        where = static_cast<int32_t>(h * x[3] + v);
      }
    const bool max = a.kind == Pool2d::Kind::kMax;
    call.out(0)[at] = max ? best : static_cast<float>(sum / w.divisor);
    if (max && call.out_count() > 1) call.out<int32_t>(1)[at] = where;
  });
}

// The workspace of max pooling: for each output the place in its plane, an int32.
size_t workspace(const OpRequest& request) {
  const bool max = request.attributes_as<Pool2d>().kind == Pool2d::Kind::kMax;
  return max ? static_cast<size_t>(request.outputs[0].shape.elements()) * sizeof(int32_t) : 0;
}

void backward(const Call& call) {
  const auto& a = call.request.attributes_as<Pool2d>();
  const Shape& x = call.out_shape(0);
  std::vector<double> dx(static_cast<size_t>(x.elements()));
  for_each_window(a, x, call.in_shape(0), [&](int64_t plane, int64_t at, const Window& w) {
    double* to = dx.data() + plane * x[2] * x[3];
    const float dy = call.in(0)[at];
    if (a.kind == Pool2d::Kind::kMax) {
      to[call.in<int32_t>(1)[at]] += dy;
      return;
    }
    for (int64_t h = w.top; h < w.bottom; ++h)
      for (int64_t v = w.left; v < w.right; ++v) to[h * x[3] + v] += dy / w.divisor;
  });
  for (size_t i = 0; i < dx.size(); ++i) call.out(0)[i] = static_cast<float>(dx[i]);
}

void global_forward(const Call& call) {
  const Shape& x = call.in_shape(0);
  const int64_t planes = x[0] * x[1], size = x[2] * x[3];
  for (int64_t p = 0; p < planes; ++p) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += call.in(0)[p * size + i];
    call.out(0)[p] = static_cast<float>(sum / static_cast<double>(size));
  }
}

void global_backward(const Call& call) {
  const Shape& x = call.out_shape(0);
  const int64_t planes = x[0] * x[1], size = x[2] * x[3];
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < size; ++i)
      call.out(0)[p * size + i] = static_cast<float>(call.in(0)[p] / static_cast<double>(size));
}

const Registration kForward("reference", "pool2d",
                            std::make_unique<PlainOp>(forward, check, PlainOp::Workspace{1, workspace}));
const Registration kBackward("reference", "pool2d.backward", std::make_unique<PlainOp>(backward, check));
const Registration kGlobal("reference", "global_avg_pool", std::make_unique<PlainOp>(global_forward));
const Registration kGlobalBackward("reference", "global_avg_pool.backward", std::make_unique<PlainOp>(global_backward));

}  // namespace
}  // namespace dtrain::ops::reference
