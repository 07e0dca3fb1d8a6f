#include "ops/cpu/average_pool.h"

#include <cstring>

#include "ops/cpu/own_kernel.h"
#include "ops/pool2d.h"

namespace dtrain::ops::cpu {
namespace {

// One axis of a window: the part [begin, end) inside the input, and the length that the divisor counts.
struct Reach {
  int64_t begin, end, counted;
};

Reach reach_of(const Pool2d& a, size_t axis, int64_t extent, int64_t out) {
  const int64_t begin = out * a.stride[axis] - a.pad[axis];
  const int64_t end = std::min(begin + a.kernel[axis], extent + a.pad[axis]);
  const Reach inside{std::max<int64_t>(begin, 0), std::min(end, extent), 0};
  return {inside.begin, inside.end, a.count_include_pad ? end - begin : inside.end - inside.begin};
}

class AveragePoolKernel final : public OwnKernel {
 public:
  AveragePoolKernel(const OpRequest& request, bool backward)
      : OwnKernel(request),
        a_(request.attributes_as<Pool2d>()),
        backward_(backward),
        x_(backward ? request.outputs[0].shape : request.inputs[0].shape),
        y_(backward ? request.inputs[0].shape : request.outputs[0].shape) {
    if (!backward && outputs.size() > 1) outputs[1] = {Shape{0}, DType::kU8, nullptr};
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const int64_t x_plane = x_[2] * x_[3], y_plane = y_[2] * y_[3];
    for_pieces(x_[0] * x_[1], kGrain / 4 / x_plane, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t from = p * (backward_ ? y_plane : x_plane), to = p * (backward_ ? x_plane : y_plane);
        if (backward_)
          spread(static_cast<const float*>(in[0]) + from, static_cast<float*>(out[0]) + to);
        else
          average(static_cast<const float*>(in[0]) + from, static_cast<float*>(out[0]) + to);
      }
    });
  }

 private:
  void average(const float* x, float* y) const {
    for (int64_t oh = 0; oh < y_[2]; ++oh) {
      const Reach rows = reach_of(a_, 0, x_[2], oh);
      for (int64_t ow = 0; ow < y_[3]; ++ow) {
        const Reach columns = reach_of(a_, 1, x_[3], ow);
        double sum = 0;
        for (int64_t h = rows.begin; h < rows.end; ++h)
          for (int64_t w = columns.begin; w < columns.end; ++w) sum += static_cast<double>(x[h * x_[3] + w]);
        y[oh * y_[3] + ow] = static_cast<float>(sum / static_cast<double>(rows.counted * columns.counted));
      }
    }
  }

  void spread(const float* dy, float* dx) const {
    std::memset(dx, 0, static_cast<size_t>(x_[2] * x_[3]) * sizeof(float));
    for (int64_t oh = 0; oh < y_[2]; ++oh) {
      const Reach rows = reach_of(a_, 0, x_[2], oh);
      for (int64_t ow = 0; ow < y_[3]; ++ow) {
        const Reach columns = reach_of(a_, 1, x_[3], ow);
        const float share = dy[oh * y_[3] + ow] / static_cast<float>(rows.counted * columns.counted);
        for (int64_t h = rows.begin; h < rows.end; ++h)
          for (int64_t w = columns.begin; w < columns.end; ++w) dx[h * x_[3] + w] += share;
      }
    }
  }

  Pool2d a_;
  bool backward_;
  Shape x_, y_;
};

}  // namespace

std::unique_ptr<Kernel> make_plain_average_pool(const OpRequest& request) {
  return std::make_unique<AveragePoolKernel>(request, false);
}

std::unique_ptr<Kernel> make_plain_average_pool_backward(const OpRequest& request) {
  return std::make_unique<AveragePoolKernel>(request, true);
}

}  // namespace dtrain::ops::cpu
