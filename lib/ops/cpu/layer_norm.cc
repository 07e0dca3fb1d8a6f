// layer_norm, layer_norm.backward: a row's passes follow each other while it is in the first cache. The gradients of
// gamma and beta are summed by groups of rows whose size follows from the shape alone, and the groups in order.
#include "ops/layer_norm.h"

#include <cmath>

#include "base/vectorize.h"
#include "ops/cpu/lane_sum.h"
#include "ops/cpu/own_kernel.h"
#include "ops/registry.h"

namespace dtrain::ops::cpu {
namespace {

constexpr int64_t kMostGroups = 64;  // bounds the partial sums of gamma's and beta's gradients
constexpr int64_t kTogether = 4;     // rows for which these partial sums are loaded and stored once

struct Statistics {
  float mean, rstd;
};

[[gnu::always_inline]] inline Statistics statistics_of(const float* x, int64_t n, float epsilon) {
  const auto size = static_cast<float>(n);
  const float mean = lane_sum(
                         n, [x](int64_t c) __attribute__((always_inline)) { return x[c]; }) /
                     size;
  const float squares = lane_sum(
      n, [ x, mean ](int64_t c) __attribute__((always_inline)) {
        const float centred = x[c] - mean;
        return centred * centred;
      });
  return {mean, 1.0f / std::sqrt(squares / size + epsilon)};
}

// What forward() reads and writes; mean and rstd may be null, gamma and beta are where the layer has no parameters.
struct Forward {
  const float *x, *gamma, *beta;
  float *y, *mean, *rstd;
};

DTRAIN_CLONES
void forward(const Forward& f, int64_t begin, int64_t end, int64_t n, float epsilon) {
  const float *gamma = f.gamma, *beta = f.beta;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = f.x + r * n;
    float* y = f.y + r * n;
    const auto [mean, rstd] = statistics_of(x, n, epsilon);
    const float center = mean, scale = rstd;
    if (gamma) {
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) y[c] = (x[c] - center) * scale * gamma[c] + beta[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < n; ++c) y[c] = (x[c] - center) * scale;
    }
    if (!f.mean) continue;
    f.mean[r] = mean;
    f.rstd[r] = rstd;
  }
}

struct Backward {
  const float *x, *dy, *mean, *rstd, *gamma;
  float* dx;
};

// dx = rstd·g − shift − (x − mean)·slope with g = dy·gamma: Ioffe & Szegedy's formula for one row.
struct RowGradient {
  const float *x, *dy;
  float* dx;
  float mean, rstd, shift, slope;
};

template <bool kAffine>
[[gnu::always_inline]] inline RowGradient row_gradient(const Backward& b, int64_t r, int64_t n) {
  const float *x = b.x + r * n, *dy = b.dy + r * n, *gamma = b.gamma;
  const float mean = b.mean[r], rstd = b.rstd[r];
  const auto g = [ dy, gamma ](int64_t c) __attribute__((always_inline)) { return kAffine ? dy[c] * gamma[c] : dy[c]; };
  const float sum = lane_sum(n, g);
  const float dot = lane_sum(
      n, [ x, mean, g ](int64_t c) __attribute__((always_inline)) { return g(c) * (x[c] - mean); });
  const float share = rstd / static_cast<float>(n);
  return {x, dy, b.dx + r * n, mean, rstd, share * sum, share * dot * rstd * rstd};
}

// R rows at once, with what they add to dgamma and dbeta.
template <bool kAffine, int64_t R>
[[gnu::always_inline]] inline void backward_rows(const Backward& b, int64_t first, int64_t n, float* dgamma,
                                                 float* dbeta) {
  RowGradient rows[R];
  for (int64_t k = 0; k < R; ++k) rows[k] = row_gradient<kAffine>(b, first + k, n);
  const float* gamma = b.gamma;
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) {
    float to_gamma = kAffine ? dgamma[c] : 0.0f, to_beta = kAffine ? dbeta[c] : 0.0f;
#pragma GCC unroll 4
    for (int64_t k = 0; k < R; ++k) {
      const RowGradient& row = rows[k];
      const float centred = row.x[c] - row.mean, dy = row.dy[c];
      const float g = kAffine ? dy * gamma[c] : dy;
      to_gamma += dy * (centred * row.rstd);
      to_beta += dy;
      row.dx[c] = row.rstd * g - row.shift - centred * row.slope;
    }
    if (kAffine) {
      dgamma[c] = to_gamma;
      dbeta[c] = to_beta;
    }
  }
}

template <bool kAffine>
[[gnu::always_inline]] inline void backward_all(const Backward& b, int64_t begin, int64_t end, int64_t n, float* dgamma,
                                                float* dbeta) {
  int64_t r = begin;
  for (; r + kTogether <= end; r += kTogether) backward_rows<kAffine, kTogether>(b, r, n, dgamma, dbeta);
  for (; r < end; ++r) backward_rows<kAffine, 1>(b, r, n, dgamma, dbeta);
}

DTRAIN_CLONES
void backward_affine(const Backward& b, int64_t begin, int64_t end, int64_t n, float* dgamma, float* dbeta) {
  backward_all<true>(b, begin, end, n, dgamma, dbeta);
}
DTRAIN_CLONES
void backward_bare(const Backward& b, int64_t begin, int64_t end, int64_t n) {
  backward_all<false>(b, begin, end, n, nullptr, nullptr);
}

DTRAIN_CLONES
void accumulate(const float* x, float* sum, int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) sum[c] += x[c];
}

class LayerNormKernel final : public OwnKernel {
 public:
  explicit LayerNormKernel(const OpRequest& request)
      : OwnKernel(request),
        epsilon_(request.attributes_as<LayerNorm>().epsilon),
        affine_(request.inputs.size() == 3),
        size_(request.inputs[0].shape.at(-1)),
        rows_(request.inputs[0].shape.elements() / size_) {
    in_place = {{0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void*, const RunContext&) override {
    const auto input = [&](size_t i) { return affine_ || i == 0 ? static_cast<const float*>(in[i]) : nullptr; };
    const auto output = [&](size_t i) { return i < out.size() ? static_cast<float*>(out[i]) : nullptr; };
    const Forward f{input(0), input(1), input(2), output(0), output(1), output(2)};
    for_pieces(rows_, kGrain / size_, [&](int64_t begin, int64_t end) { forward(f, begin, end, size_, epsilon_); });
  }

 private:
  float epsilon_;
  bool affine_;
  int64_t size_, rows_;
};

class LayerNormBackwardKernel final : public OwnKernel {
 public:
  explicit LayerNormBackwardKernel(const OpRequest& request)
      : OwnKernel(request),
        affine_(request.inputs.size() == 5),
        size_(request.inputs[0].shape.at(-1)),
        rows_(request.inputs[0].shape.elements() / size_) {
    group_ = std::max({(rows_ + kMostGroups - 1) / kMostGroups, kGrain / size_, kTogether});
    groups_ = (rows_ + group_ - 1) / group_;
    if (affine_) scratch_bytes = static_cast<size_t>((groups_ - 1) * 2 * size_) * sizeof(float);
    in_place = {{0, 1}, {0, 0}};
  }

  static std::optional<std::string> unsupported(const OpRequest&) { return std::nullopt; }

  void run(std::span<const void* const> in, std::span<void* const> out, void* scratch, const RunContext&) override {
    const auto input = [&](size_t i) { return static_cast<const float*>(in[i]); };
    const Backward b{input(0), input(1), input(2), input(3), affine_ ? input(4) : nullptr, static_cast<float*>(out[0])};
    if (!affine_) {
      for_pieces(rows_, group_, [&](int64_t begin, int64_t end) { backward_bare(b, begin, end, size_); });
      return;
    }
    float *dgamma = static_cast<float*>(out[1]), *dbeta = static_cast<float*>(out[2]);
    // The first group's sums begin where the result will be.
    const auto partial = [&](int64_t group, float* whole, int64_t which) {
      return group == 0 ? whole : static_cast<float*>(scratch) + ((group - 1) * 2 + which) * size_;
    };
    for_pieces(rows_, group_, [&](int64_t begin, int64_t end) {
      float *to_gamma = partial(begin / group_, dgamma, 0), *to_beta = partial(begin / group_, dbeta, 1);
      std::fill(to_gamma, to_gamma + size_, 0.0f);
      std::fill(to_beta, to_beta + size_, 0.0f);
      backward_affine(b, begin, end, size_, to_gamma, to_beta);
    });
    for (int64_t g = 1; g < groups_; ++g) {
      accumulate(partial(g, dgamma, 0), dgamma, size_);
      accumulate(partial(g, dbeta, 1), dbeta, size_);
    }
  }

 private:
  bool affine_;
  int64_t size_, rows_, group_, groups_;  // group_: rows whose sums are made together
};

const Registration kForward("cpu", "layer_norm", std::make_unique<OwnOp<LayerNormKernel>>());
const Registration kBackward("cpu", "layer_norm.backward", std::make_unique<OwnOp<LayerNormBackwardKernel>>());

}  // namespace
}  // namespace dtrain::ops::cpu
