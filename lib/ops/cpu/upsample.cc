// upsample: one axis after the other, a row of x at a time, in any layout of images. Backward gathers for each row of
// dx what it gave to, so that threads share no sums.
#include "ops/upsample.h"

#include <cstring>
#include <vector>

#include "base/vectorize.h"
#include "ops/cpu/image_layout.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

// y = a·p + b·q.
DTRAIN_CLONES
void blend(const float* a, float p, const float* b, float q, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * p + b[i] * q;
}

// y += a·p.
DTRAIN_CLONES
void accumulate(const float* a, float p, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a[i] * p;
}

struct Part {
  int64_t at;
  float weight;
};

// One axis: of each place in y its tap, of each place in x the places in y that it gives to, ascending.
struct Along {
  Along(Upsample::Mode mode, int64_t scale, int64_t in) : parts(static_cast<size_t>(in)) {
    for (int64_t i = 0; i < in * scale; ++i) {
      const UpsampleTap t = upsample_tap(mode, i, scale, in);
      taps.push_back(t);
      parts[static_cast<size_t>(t.left)].push_back({i, 1.0f - t.share});
      if (mode == Upsample::Mode::kBilinear) parts[static_cast<size_t>(t.right)].push_back({i, t.share});
    }
  }
  std::vector<UpsampleTap> taps;
  std::vector<std::vector<Part>> parts;
};

class UpsampleKernel : public OwnKernel {
 public:
  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  UpsampleKernel(const OpRequest& request, const Shape& x, const Shape& y)
      : OwnKernel(request),
        mode_(request.attributes_as<Upsample>().mode),
        vertical_(mode_, request.attributes_as<Upsample>().scale[0], x[2]),
        horizontal_(mode_, request.attributes_as<Upsample>().scale[1], x[3]) {
    const auto& scale = request.attributes_as<Upsample>().scale;
    DTRAIN_CHECK(y == (Shape{x[0], x[1], x[2] * scale[0], x[3] * scale[1]}));
    const ImageLayout layout = image_layout_of(request.inputs[0]).value_or(ImageLayout{});
    if (layout.order != ImageLayout::Order::kPlain) {
      block_ = layout.block;
      input_layouts[0] = layout_of_image(request.inputs[0].shape, layout);
      outputs[0].layout = layout_of_image(request.outputs[0].shape, layout);
    }
    planes_ = x[0] * ((x[1] + block_ - 1) / block_);
    x_rows_ = x[2];
    y_rows_ = y[2];
    x_row_ = x[3] * block_;
    y_row_ = y[3] * block_;
  }

  Upsample::Mode mode_;
  Along vertical_, horizontal_;
  int64_t block_ = 1, planes_, x_rows_, y_rows_;
  int64_t x_row_, y_row_;  // floats of a row
};

class Forward final : public UpsampleKernel {
 public:
  explicit Forward(const OpRequest& request)
      : UpsampleKernel(request, request.inputs[0].shape, request.outputs[0].shape) {
    scratch_bytes = mode_ == Upsample::Mode::kBilinear ? static_cast<size_t>(planes_ * y_rows_ * x_row_) * sizeof(float)
                                                       : size_t{0};
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    for_pieces(planes_ * y_rows_, kGrain / y_row_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t h = row % y_rows_;
        const UpsampleTap& tap = vertical_.taps[static_cast<size_t>(h)];
        const float* plane = static_cast<const float*>(in[0]) + row / y_rows_ * x_rows_ * x_row_;
        float* y = static_cast<float*>(out[0]) + row * y_row_;
        if (mode_ == Upsample::Mode::kBilinear) {
          float* between = static_cast<float*>(scratch) + row * x_row_;
          blend(plane + tap.left * x_row_, 1.0f - tap.share, plane + tap.right * x_row_, tap.share, between, x_row_);
          stretch(between, y);
        } else if (row > begin && h > 0 && vertical_.taps[static_cast<size_t>(h - 1)].left == tap.left) {
          std::memcpy(y, y - y_row_, static_cast<size_t>(y_row_) * sizeof(float));
        } else {
          repeat(plane + tap.left * x_row_, y);
        }
      }
    });
  }

 private:
  void stretch(const float* x, float* y) const {
    const std::vector<UpsampleTap>& taps = horizontal_.taps;
    if (block_ == 1) {
      for (size_t w = 0; w < taps.size(); ++w)
        y[w] = x[taps[w].left] * (1.0f - taps[w].share) + x[taps[w].right] * taps[w].share;
      return;
    }
    for (const UpsampleTap& t : taps) {
      blend(x + t.left * block_, 1.0f - t.share, x + t.right * block_, t.share, y, block_);
      y += block_;
    }
  }

  void repeat(const float* x, float* y) const {
    const std::vector<UpsampleTap>& taps = horizontal_.taps;
    if (block_ == 1) {
      for (size_t w = 0; w < taps.size(); ++w) y[w] = x[taps[w].left];
      return;
    }
    for (const UpsampleTap& t : taps) {
      std::memcpy(y, x + t.left * block_, static_cast<size_t>(block_) * sizeof(float));
      y += block_;
    }
  }
};

class Backward final : public UpsampleKernel {
 public:
  explicit Backward(const OpRequest& request)
      : UpsampleKernel(request, request.outputs[0].shape, request.inputs[0].shape) {
    scratch_bytes = static_cast<size_t>(planes_ * x_rows_ * y_row_) * sizeof(float);
  }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    for_pieces(planes_ * x_rows_, kGrain / y_row_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* plane = static_cast<const float*>(in[0]) + row / x_rows_ * y_rows_ * y_row_;
        float* sums = static_cast<float*>(scratch) + row * y_row_;
        std::fill(sums, sums + y_row_, 0.0f);
        for (const Part& p : vertical_.parts[static_cast<size_t>(row % x_rows_)])
          accumulate(plane + p.at * y_row_, p.weight, sums, y_row_);
        shrink(sums, static_cast<float*>(out[0]) + row * x_row_);
      }
    });
  }

 private:
  void shrink(const float* y, float* x) const {
    for (const std::vector<Part>& parts : horizontal_.parts) {
      if (block_ == 1) {
        float sum = 0.0f;
        for (const Part& p : parts) sum += y[p.at] * p.weight;
        *x = sum;
      } else {
        std::fill(x, x + block_, 0.0f);
        for (const Part& p : parts) accumulate(y + p.at * block_, p.weight, x, block_);
      }
      x += block_;
    }
  }
};

const Registration kForward("cpu", "upsample", std::make_unique<OwnOp<Forward>>());
const Registration kBackward("cpu", "upsample.backward", std::make_unique<OwnOp<Backward>>());

}  // namespace
}  // namespace dtrain::ops::cpu
