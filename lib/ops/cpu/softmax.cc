// softmax, log_softmax and their gradients: row by row where the axis is innermost, else blocks of neighbouring lines
// side by side. Exponentials in fp32, and their sums too, which are added up in fp64 chunk by chunk.
#include "ops/softmax.h"

#include "base/vectorize.h"
#include "ops/cpu/lane_maximum.h"
#include "ops/cpu/lane_sum.h"
#include "ops/cpu/own_kernel.h"
#include "ops/cpu/vector_math.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kChunk = 1024;  // elements of one sum in fp32
constexpr int64_t kAside = 64;    // lines that are done side by side

// Σ term(i) for i < n, by chunks.
template <typename F>
[[gnu::always_inline]] inline double chunked_sum(int64_t n, F term) {
  double sum = 0;
  for (int64_t first = 0; first < n; first += kChunk)
    sum += static_cast<double>(lane_sum(
        std::min(kChunk, n - first),
        [ term, first ](int64_t i) __attribute__((always_inline)) { return term(first + i); }));
  return sum;
}

DTRAIN_CLONES
void softmax_row(const float* x, float* y, int64_t n) {
  const float top = lane_maximum(x, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = exponential(x[i] - top);
  const double sum = chunked_sum(
      n, [y](int64_t i) __attribute__((always_inline)) { return y[i]; });
  const auto factor = static_cast<float>(1.0 / sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= factor;
}

DTRAIN_CLONES
void log_softmax_row(const float* x, float* y, int64_t n) {
  const float top = lane_maximum(x, n);
  const double sum = chunked_sum(
      n, [ x, top ](int64_t i) __attribute__((always_inline)) { return exponential(x[i] - top); });
  const auto rest = static_cast<float>(logarithm(sum));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) - rest;
}

DTRAIN_CLONES
void softmax_row_backward(const float* dy, const float* y, float* dx, int64_t n) {
  const auto dot = static_cast<float>(chunked_sum(
      n, [ dy, y ](int64_t i) __attribute__((always_inline)) { return dy[i] * y[i]; }));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - dot);
}

DTRAIN_CLONES
void log_softmax_row_backward(const float* dy, const float* y, float* dx, int64_t n) {
  const auto sum = static_cast<float>(chunked_sum(
      n, [dy](int64_t i) __attribute__((always_inline)) { return dy[i]; }));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - exponential(y[i]) * sum;
}

// Up to kAside lines that lie side by side, their n elements `stride` apart.
struct Lines {
  int64_t n, stride, count;
};

[[gnu::always_inline]] inline void largest_aside(const float* x, const Lines& lines, float* top) {
  for (int64_t l = 0; l < lines.count; ++l) top[l] = x[l];
  for (int64_t i = 1; i < lines.n; ++i) {
    const float* row = x + i * lines.stride;
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) top[l] = row[l] > top[l] ? row[l] : top[l];
  }
}

DTRAIN_CLONES
void softmax_aside(const float* x, float* y, const Lines& lines) {
  float top[kAside], factor[kAside];
  double sum[kAside] = {};
  largest_aside(x, lines, top);
  for (int64_t i = 0; i < lines.n; ++i) {
    const float* from = x + i * lines.stride;
    float* to = y + i * lines.stride;
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) to[l] = exponential(from[l] - top[l]);
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) sum[l] += static_cast<double>(to[l]);
  }
  for (int64_t l = 0; l < lines.count; ++l) factor[l] = static_cast<float>(1.0 / sum[l]);
  for (int64_t i = 0; i < lines.n; ++i) {
    float* to = y + i * lines.stride;
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) to[l] *= factor[l];
  }
}

DTRAIN_CLONES
void log_softmax_aside(const float* x, float* y, const Lines& lines) {
  float top[kAside], e[kAside], rest[kAside];
  double sum[kAside] = {};
  largest_aside(x, lines, top);
  for (int64_t i = 0; i < lines.n; ++i) {
    const float* from = x + i * lines.stride;
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) e[l] = exponential(from[l] - top[l]);
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) sum[l] += static_cast<double>(e[l]);
  }
  for (int64_t l = 0; l < lines.count; ++l) rest[l] = static_cast<float>(logarithm(sum[l]));
  for (int64_t i = 0; i < lines.n; ++i) {
    const float* from = x + i * lines.stride;
    float* to = y + i * lines.stride;
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) to[l] = (from[l] - top[l]) - rest[l];
  }
}

DTRAIN_CLONES
void softmax_aside_backward(const float* dy, const float* y, float* dx, const Lines& lines) {
  double sum[kAside] = {};
  for (int64_t i = 0; i < lines.n; ++i)
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l)
      sum[l] += static_cast<double>(dy[i * lines.stride + l] * y[i * lines.stride + l]);
  float dot[kAside];
  for (int64_t l = 0; l < lines.count; ++l) dot[l] = static_cast<float>(sum[l]);
  for (int64_t i = 0; i < lines.n; ++i)
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l)
      dx[i * lines.stride + l] = y[i * lines.stride + l] * (dy[i * lines.stride + l] - dot[l]);
}

DTRAIN_CLONES
void log_softmax_aside_backward(const float* dy, const float* y, float* dx, const Lines& lines) {
  double sum[kAside] = {};
  for (int64_t i = 0; i < lines.n; ++i)
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l) sum[l] += static_cast<double>(dy[i * lines.stride + l]);
  float total[kAside];
  for (int64_t l = 0; l < lines.count; ++l) total[l] = static_cast<float>(sum[l]);
  for (int64_t i = 0; i < lines.n; ++i)
#pragma omp simd
    for (int64_t l = 0; l < lines.count; ++l)
      dx[i * lines.stride + l] = dy[i * lines.stride + l] - exponential(y[i * lines.stride + l]) * total[l];
}

// Cuts a value into rows or blocks of lines; what is computed is the derived kernel's.
class LinesKernel : public OwnKernel {
 public:
  explicit LinesKernel(const OpRequest& request) : OwnKernel(request) {
    const Shape& x = request.inputs[0].shape;
    const int axis = request.attributes_as<Softmax>().axis;
    DTRAIN_CHECK(axis >= 0 && axis < x.rank());
    size_ = x[axis];
    for (int i = axis + 1; i < x.rank(); ++i) inner_ *= x[i];
    outer_ = x.elements() / (size_ * inner_);
    in_place = {{0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

 protected:
  // row(first element) where the axis is innermost, else aside(first element, lines).
  template <typename Row, typename Aside>
  void for_all(Row row, Aside aside) const {
    if (inner_ == 1) {
      for_pieces(outer_, kGrain / size_, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) row(r * size_);
      });
      return;
    }
    const int64_t blocks = (inner_ + kAside - 1) / kAside;
    for_pieces(outer_ * blocks, kGrain / (size_ * kAside), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b % blocks * kAside;
        aside(b / blocks * size_ * inner_ + first, Lines{size_, inner_, std::min(kAside, inner_ - first)});
      }
    });
  }

  int64_t size_, inner_ = 1, outer_;  // the value is outer × size × inner
};

template <auto kRow, auto kBlock>
class ForwardKernel final : public LinesKernel {
 public:
  using LinesKernel::LinesKernel;

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    for_all([&](int64_t at) { kRow(x + at, y + at, size_); },
            [&](int64_t at, const Lines& lines) { kBlock(x + at, y + at, lines); });
  }
};

template <auto kRow, auto kBlock>
class BackwardKernel final : public LinesKernel {
 public:
  using LinesKernel::LinesKernel;

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto *dy = static_cast<const float*>(in[0]), *y = static_cast<const float*>(in[1]);
    auto* dx = static_cast<float*>(out[0]);
    for_all([&](int64_t at) { kRow(dy + at, y + at, dx + at, size_); },
            [&](int64_t at, const Lines& lines) { kBlock(dy + at, y + at, dx + at, lines); });
  }
};

const Registration kSoftmax("cpu", "softmax", std::make_unique<OwnOp<ForwardKernel<softmax_row, softmax_aside>>>());
const Registration kSoftmaxBackward(
    "cpu", "softmax.backward", std::make_unique<OwnOp<BackwardKernel<softmax_row_backward, softmax_aside_backward>>>());
const Registration kLogSoftmax("cpu", "log_softmax",
                               std::make_unique<OwnOp<ForwardKernel<log_softmax_row, log_softmax_aside>>>());
const Registration kLogSoftmaxBackward(
    "cpu", "log_softmax.backward",
    std::make_unique<OwnOp<BackwardKernel<log_softmax_row_backward, log_softmax_aside_backward>>>());

}  // namespace
}  // namespace dtrain::ops::cpu
